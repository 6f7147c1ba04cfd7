// Decides for each job whether the answers that many clients wrote down can be those of one job that takes the calls one
// after the other, each between its start and its end: whether the history is linearizable. It reads the files that it
// is given, or else its standard input. The rules stand in rules.go; they are written after the design, not after the
// library.
//
// It prints what it counted and ends with 0, or what is wrong with 1; with 2 when a file makes no sense or a history is
// too much to decide.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
)

func main() {
	h, err := readAll(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	worst := linearizable
	for _, id := range h.ids() {
		if found := h.check(id); found > worst {
			worst = found
		}
	}
	h.counts.Jobs = len(h.jobs)
	counted, err := json.Marshal(h.counts)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(counted))
	os.Exit(int(worst))
}

func readAll(paths []string) (*history, error) {
	h := newHistory()
	if len(paths) == 0 {
		return h, h.read(os.Stdin)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		err = h.read(io.Reader(file))
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %v", path, err)
		}
	}
	return h, nil
}

func (h *history) ids() (ids []string) {
	for id := range h.stored {
		// Who made it?
		if _, known := h.jobs[id]; !known {
			h.jobs[id] = nil
		}
	}
	for id := range h.jobs {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// check looks at one job, and prints what is wrong with it.
func (h *history) check(id string) verdict {
	calls := append([]call(nil), h.jobs[id]...)
	if problem := fences(calls, h.stored[id], h.allStored); problem != "" {
		fmt.Printf("job %s: %s\n", id, problem)
		return notLinearizable
	}
	calls = append(calls, h.anywhere...)
	if h.allStored {
		// What is left is what one finds who looks when all is over.
		calls = append(calls, h.last(id))
	}
	s := newSearch(calls)
	found := s.run()
	switch found {
	case notLinearizable:
		fmt.Printf("job %s: no order of its calls explains all answers.\n%s", id, s.explain(h.texts))
	case undecided:
		fmt.Printf("job %s: undecided after %d steps.\n%s", id, s.steps, s.explain(h.texts))
	}
	return found
}

func (h *history) last(id string) call {
	c := call{line: "(what is stored)", start: math.MaxInt64, end: math.MaxInt64, operation: read, status: ok, found: h.stored[id]}
	if !c.found.exists {
		c.status = notFound
		c.line = "(nothing is stored)"
	} else {
		c.line = "(what is stored: " + c.found.String(h.texts) + ")"
	}
	return c
}

// fences says of the promise by itself, without any search, what is wrong: that a fence is granted once, and rises.
func fences(calls []call, stored job, allStored bool) string {
	var grants []call
	for _, c := range calls {
		if c.operation == claim && !c.maybe && c.status == ok {
			grants = append(grants, c)
		}
	}
	sort.Slice(grants, func(a, b int) bool { return grants[a].granted < grants[b].granted })
	var latest call
	for index, grant := range grants {
		switch {
		case grant.granted <= 0:
			return fmt.Sprintf("a fence that is none:\n    %s\n", grant.line)
		case index > 0 && grant.granted == grants[index-1].granted:
			return fmt.Sprintf("fence %d was granted twice:\n    %s\n    %s\n", grant.granted, grants[index-1].line, grant.line)
		case index > 0 && grant.end < latest.start:
			return fmt.Sprintf("a fence went back:\n    %s\n    %s\n", grant.line, latest.line)
		case allStored && grant.granted > stored.fence:
			return fmt.Sprintf("fence %d is stored after it was granted a higher one:\n    %s\n", stored.fence, grant.line)
		}
		if grant.start >= latest.start {
			latest = grant
		}
	}
	return ""
}
