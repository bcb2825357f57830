package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
)

func load(file string) (all []*sent) {
	f, err := os.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		s := &sent{}
		if err := json.Unmarshal(lines.Bytes(), s); err != nil {
			log.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

var value = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`)

// Each request as it was without an agent, but for one traceparent; the program's own are untouched.
func compare(control, with string) {
	before, after := load(control), load(with)
	inserted, lacking, big, own, wrong := 0, 0, 0, 0, 0
	seen := map[string]bool{}
	say := func(i int, what string) {
		if wrong++; wrong < 10 {
			a, b, _ := one(before, i), one(after, i), 0
			fmt.Printf("WRONG %d: %s\n  %s\n  %s\n", i, what, a, b)
		}
	}
	if len(before) != len(after) || len(before) == 0 {
		fmt.Printf("FAIL %d and %d requests\n", len(before), len(after))
		os.Exit(1)
	}
	for i, b := range after {
		a := before[i]
		switch {
		case a.Error != "" || b.Error != "" || a.Got == nil || b.Got == nil:
			say(i, "error")
		case a.Got.Sha != b.Got.Sha:
			say(i, "other bytes")
		case a.Got.Wrong != "" || b.Got.Wrong != "":
			say(i, "malformed")
		case b.Own:
			own++
			if len(b.Got.Values) != 1 || b.Got.Values[0] != ownTrace {
				say(i, "its own traceparent is not the only one")
			}
		case len(a.Got.Values) != 0 || len(b.Got.Values) > 1:
			say(i, "too many traceparents")
		case len(b.Got.Values) == 0 && b.Big:
			big++
		case len(b.Got.Values) == 0:
			lacking++
			if *want == "all" {
				say(i, "no traceparent")
			}
		case *want == "none" || !value.MatchString(b.Got.Values[0]) || seen[b.Got.Values[0]] || b.Got.Values[0][53:] != *flags:
			say(i, "traceparent")
		default:
			seen[b.Got.Values[0]] = true
			inserted++
		}
	}
	fmt.Printf("%d requests: %d with a traceparent, %d without, %d of those too big, %d with their own, %d WRONG\n",
		len(after), inserted, lacking+big, big, own, wrong)
	if wrong > 0 || (*want == "some" && (inserted == 0 || lacking == 0)) {
		fmt.Println("FAIL")
		os.Exit(1)
	}
}

func one(all []*sent, i int) string {
	line, _ := json.Marshal(all[i])
	return string(line)
}

type span struct {
	Trace  string `json:"trace_id"`
	ID     string `json:"span_id"`
	Parent string `json:"parent_span_id"`
	Kind   string `json:"kind"`
	Scope  string `json:"scope"`
}

// Every call has been served by somebody who knows whose it is.
func joined(file string, calls int) {
	f, err := os.Open(file)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	callers, served, right := map[string]span{}, []span{}, 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s span
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue
		}
		if s.Kind == "client" {
			callers[s.ID] = s
		} else if s.Kind == "server" {
			served = append(served, s)
		}
	}
	for _, s := range served {
		if c, ok := callers[s.Parent]; ok && c.Trace == s.Trace {
			right++
			delete(callers, s.Parent)
		} else {
			fmt.Printf("served as nobody's: %+v\n", s)
		}
	}
	for _, s := range callers {
		fmt.Printf("served without its ids: %+v\n", s)
	}
	fmt.Printf("%d calls: %d served, %d of them as a child of their caller\n", calls, len(served), right)
	// The first block of a connection of gRPC may fill its buffer just so that there is no room behind it: counted, no_space.
	if len(served) != calls || right < calls-1 || len(callers) != calls-right {
		fmt.Println("FAIL")
		os.Exit(1)
	}
}
