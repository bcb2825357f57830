// layouts PROGRAM: where the variables of Go's runtime lie in an unstripped program, and the fields of their types, as its symbols and
// DWARF say. The same lines as `ask PROGRAM runtime`, which must know them without.
package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"strings"
)

// What the agent reads, in the order of ask.c; a field has another name, or is not there, in some versions.
var fields = []string{
	"schedt lock", "schedt ngsys", "schedt gFree.n|gFree.stack.size", "schedt gFree.noStack.size", "schedt timeToRun", "schedt stwTotalTimeGC",
	"heapStatsDelta ", "heapStatsDelta committed", "heapStatsDelta released", "heapStatsDelta inStacks", "heapStatsDelta largeAlloc",
	"heapStatsDelta largeAllocCount", "heapStatsDelta smallAllocCount", "consistentHeapStats gen",
	"mstats heapStats", "mstats stacks_sys", "mstats mspan_sys", "mstats mcache_sys", "mstats buckhash_sys", "mstats gcMiscSys", "mstats other_sys",
	"mstats numgc", "mstats gcPauseDist",
	"gcControllerState gcPercent", "gcControllerState memoryLimit", "gcControllerState heapMinimum", "gcControllerState gcPercentHeapGoal",
	"gcControllerState sweepDistMinTrigger", "gcControllerState triggered", "gcControllerState heapMarked", "gcControllerState heapFree",
	"gcControllerState totalAlloc", "gcControllerState totalFree", "gcControllerState mappedReady",
	"timeHistogram counts", "timeHistogram underflow", "timeHistogram overflow",
	"p id", "p gFree.n|gFree.size",
}

var cpu = []string{"cpuStats GCTotalTime|gcTotalTime", "cpuStats ScavengeTotalTime|scavengeTotalTime", "cpuStats IdleTime|idleTime",
	"cpuStats UserTime|userTime", "cpuStats TotalTime|totalTime"}

func structs(d *dwarf.Data) (map[string]*dwarf.StructType, error) {
	all := map[string]*dwarf.StructType{}
	r := d.Reader()
	for {
		e, err := r.Next()
		if e == nil || err != nil {
			return all, err
		}
		if e.Tag == dwarf.TagCompileUnit {
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag == dwarf.TagStructType && strings.HasPrefix(name, "runtime.") {
			if t, err := d.Type(e.Offset); err == nil {
				all[strings.TrimPrefix(name, "runtime.")] = t.(*dwarf.StructType)
			}
		}
		r.SkipChildren()
	}
}

func offset(t *dwarf.StructType, path string) (int64, bool) {
	name, rest, more := strings.Cut(path, ".")
	for _, f := range t.Field {
		if f.Name != name {
			continue
		}
		if !more {
			return f.ByteOffset, true
		}
		of := f.Type
		for {
			named, ok := of.(*dwarf.TypedefType)
			if !ok {
				break
			}
			of = named.Type
		}
		inner, ok := of.(*dwarf.StructType)
		if !ok {
			return 0, false
		}
		o, ok := offset(inner, rest)
		return f.ByteOffset + o, ok
	}
	return 0, false
}

func print(all map[string]*dwarf.StructType, which []string) {
	for _, f := range which {
		name, paths, _ := strings.Cut(f, " ")
		t := all[name]
		if t == nil {
			continue
		}
		if paths == "" {
			fmt.Printf("%s size %d\n", name, t.ByteSize)
			continue
		}
		for _, path := range strings.Split(paths, "|") {
			if o, ok := offset(t, path); ok {
				first, _, _ := strings.Cut(paths, "|")
				fmt.Printf("%s %s %d\n", name, first, o)
				break
			}
		}
	}
}

func run() error {
	f, err := elf.Open(os.Args[1])
	if err != nil {
		return err
	}
	symbols, err := f.Symbols()
	if err != nil {
		return err
	}
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	d, err := f.DWARF()
	if err != nil {
		return err
	}
	all, err := structs(d)
	if err != nil {
		return err
	}
	for _, name := range []string{"memstats", "gcController", "sched", "allgs", "allp"} {
		fmt.Printf("%s %#x\n", name, at["runtime."+name])
	}
	work, ok := offset(all["workType"], "cpuStats")
	if ok {
		fmt.Printf("work.cpuStats %#x\n", at["runtime.work"]+uint64(work))
	}
	print(all, fields)
	if ok {
		print(all, cpu)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "layouts: %v\n", err)
		os.Exit(1)
	}
}
