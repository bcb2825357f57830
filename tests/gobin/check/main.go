// check TWIN PROGRAM ASK: reads every struct of the unstripped TWIN's DWARF, asks (through ASK) for each field of each in the
// stripped PROGRAM, and compares. Prints one line of counts; ends with 1 when a single offset differs, or when hardly any was found.
package main

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
)

type field struct {
	name   string
	offset int64
}

type layout struct {
	size   int64
	fields []field
}

func (l layout) equal(m layout) bool {
	if l.size != m.size || len(l.fields) != len(m.fields) {
		return false
	}
	for i := range l.fields {
		if l.fields[i] != m.fields[i] {
			return false
		}
	}
	return true
}

// Before DWARF 4 an offset may be an expression: DW_OP_plus_uconst or DW_OP_consts and a LEB128 number.
func location(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case []byte:
		var o int64
		for shift, b := range v[1:] {
			o |= int64(b&0x7f) << (7 * shift)
			if b&0x80 == 0 {
				break
			}
		}
		return o
	}
	return 0
}

// Names as Go programs spell them: the linker escapes dots of the last element of a path. The last dot separates the type.
func spelling(name string) (string, bool) {
	if strings.ContainsAny(name, "[{ <*(") || strings.HasPrefix(name, "go.shape.") || !strings.Contains(name, ".") {
		return "", false // instances and unnamed types
	}
	return strings.ReplaceAll(name, "%2e", "."), true
}

func structs(path string) (map[string][]layout, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	all := map[string][]layout{}
	r := d.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			return all, nil
		}
		if e.Tag == dwarf.TagCompileUnit {
			continue
		}
		if e.Tag != dwarf.TagStructType {
			r.SkipChildren()
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		l := layout{}
		l.size, _ = e.Val(dwarf.AttrByteSize).(int64)
		for e.Children {
			m, err := r.Next()
			if err != nil || m == nil || m.Tag == 0 {
				break
			}
			if m.Tag == dwarf.TagMember {
				n, _ := m.Val(dwarf.AttrName).(string)
				l.fields = append(l.fields, field{n, location(m.Val(dwarf.AttrDataMemberLoc))})
			}
			if m.Children {
				r.SkipChildren()
			}
		}
		if name, ok := spelling(name); ok {
			all[name] = append(all[name], l)
		}
	}
}

func run() error {
	all, err := structs(os.Args[1])
	if err != nil {
		return err
	}
	var names []string
	for n, ls := range all {
		same := true
		for _, l := range ls[1:] {
			same = same && l.equal(ls[0]) // types of functions may share a name: which one is meant cannot be told
		}
		if same {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var in strings.Builder
	for _, n := range names {
		fmt.Fprintf(&in, "%s\t\n", n)
		seen := map[string]bool{}
		for _, f := range all[n][0].fields {
			if !seen[f.name] && f.name != "_" && !strings.ContainsAny(f.name, ".|") {
				fmt.Fprintf(&in, "%s\t%s\n", n, f.name)
			}
			seen[f.name] = true
		}
	}
	ask := exec.Command(os.Args[3], os.Args[2])
	ask.Stdin, ask.Stderr = strings.NewReader(in.String()), os.Stderr
	out, err := ask.StdoutPipe()
	if err != nil {
		return err
	}
	if err := ask.Start(); err != nil {
		return err
	}
	var equal, different, absent, sizes, odd int
	s := bufio.NewScanner(out)
	for s.Scan() {
		c := strings.Split(s.Text(), "\t") // type, field, offset, source
		offset, _ := strconv.ParseInt(c[2], 10, 64)
		l := all[c[0]][0]
		want := l.size
		if c[1] != "" {
			for i := len(l.fields) - 1; i >= 0; i-- {
				if l.fields[i].name == c[1] {
					want = l.fields[i].offset
				}
			}
		}
		switch {
		case c[3] == "not found":
			absent++
		case c[3] != "type metadata" && c[3] != "built-in table":
			odd++ // a stripped file has no DWARF
		case offset != want:
			different++
			fmt.Printf("DIFFERENT %s.%s: %d, DWARF says %d\n", c[0], c[1], offset, want)
		case c[1] == "":
			sizes++
		default:
			equal++
		}
	}
	if err := ask.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d fields and %d sizes equal, %d different, %d absent\n", equal, sizes, different, absent)
	if different > 0 || odd > 0 || equal < 1000 || equal < absent/3 {
		return fmt.Errorf("not as DWARF has it")
	}
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: check TWIN PROGRAM ASK")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}
