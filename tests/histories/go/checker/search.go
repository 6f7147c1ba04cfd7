package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strings"
)

// A search looks for an order of a job's calls that explains their answers: one that follows the rule, and in which a
// call that ended before another began comes before it. (Wing and Gong, "Testing and verifying concurrent objects", 1993;
// that a place is not visited twice is of Lowe, "Testing for linearizability", 2017.)
type search struct {
	calls  []*call // by their start
	maybes []*call
	seen   map[string]bool
	steps  int
	// farthest is the place that left the fewest calls over.
	farthest *place
}

// mostSteps is where a search is given up, which no history of these clients comes near.
const mostSteps = 20_000_000

// A place is what was reached in a search: the calls that happened, and the job after them.
type place struct {
	job    job
	count  int
	base   int      // all calls before 64 times this have happened
	done   []uint64 // a bit for each call from there on
	maybes []uint64
	last   *step
}

// A step is a call in the order that was found, and the ones before it.
type step struct {
	call   *call
	before *step
}

func newSearch(calls []call) *search {
	s := &search{seen: map[string]bool{}}
	for index := range calls {
		if calls[index].maybe {
			s.maybes = append(s.maybes, &calls[index])
		} else {
			s.calls = append(s.calls, &calls[index])
		}
	}
	sort.SliceStable(s.calls, func(a, b int) bool { return s.calls[a].start < s.calls[b].start })
	return s
}

// A verdict is what came of a search.
type verdict int

const (
	linearizable verdict = iota
	notLinearizable
	undecided
)

func (s *search) run() verdict {
	open := []*place{{maybes: make([]uint64, (len(s.maybes)+63)/64)}}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		s.settle(at)
		if at.count == len(s.calls) {
			return linearizable
		}
		key := at.key()
		if s.seen[key] {
			continue
		}
		s.seen[key] = true
		if s.farthest == nil || at.count > s.farthest.count {
			s.farthest = at
		}
		if s.steps > mostSteps {
			return undecided
		}
		open = append(open, s.from(at)...)
	}
	return notLinearizable
}

// settle lets calls happen that change nothing, as long as there is one. That is never a mistake: what can follow
// then could follow before.
func (s *search) settle(at *place) {
	for again := true; again; {
		again = false
		s.candidates(at, func(index int) {
			if after, can := s.calls[index].on(at.job); can && after == at.job {
				at.happen(index, s.calls[index])
				again = true
			}
		})
	}
}

// from gives the places that one more call leads to, the one to try first last.
func (s *search) from(at *place) (next []*place) {
	// What may have happened is tried last.
	for index, c := range s.maybes {
		if at.maybes[index/64]&(1<<(index%64)) != 0 || c.start > s.limit(at) {
			continue
		}
		if after, can := c.on(at.job); can && after != at.job {
			place := at.copy()
			place.job = after
			place.maybes[index/64] |= 1 << (index % 64)
			place.last = &step{c, at.last}
			next = append(next, place)
		}
	}
	var certain []*place
	s.candidates(at, func(index int) {
		if after, can := s.calls[index].on(at.job); can {
			place := at.copy()
			place.job = after
			place.happen(index, s.calls[index])
			certain = append(certain, place)
		}
	})
	for index := len(certain) - 1; index >= 0; index-- {
		next = append(next, certain[index])
	}
	s.steps += len(next) + 1
	return next
}

// candidates are the calls that can happen next: those that began before any that has not happened ended.
func (s *search) candidates(at *place, try func(index int)) {
	limit := int64(math.MaxInt64)
	for index := at.base * 64; index < len(s.calls) && s.calls[index].start <= limit; index++ {
		if at.has(index) {
			continue
		}
		if s.calls[index].end < limit {
			limit = s.calls[index].end
		}
		try(index)
	}
}

// limit is when the first of the calls that have not happened ended.
func (s *search) limit(at *place) int64 {
	limit := int64(math.MaxInt64)
	s.candidates(at, func(index int) {
		if s.calls[index].end < limit {
			limit = s.calls[index].end
		}
	})
	return limit
}

func (p *place) has(index int) bool {
	word := index/64 - p.base
	return word < 0 || word < len(p.done) && p.done[word]&(1<<(index%64)) != 0
}

func (p *place) happen(index int, c *call) {
	for word := index/64 - p.base; word >= len(p.done); {
		p.done = append(p.done, 0)
	}
	p.done[index/64-p.base] |= 1 << (index % 64)
	p.count++
	p.last = &step{c, p.last}
	for len(p.done) > 0 && bits.OnesCount64(p.done[0]) == 64 {
		p.done = p.done[1:]
		p.base++
	}
}

func (p *place) copy() *place {
	other := *p
	other.done = append([]uint64(nil), p.done...)
	other.maybes = append([]uint64(nil), p.maybes...)
	return &other
}

// key is the same for places that the same can follow.
func (p *place) key() string {
	key := make([]byte, 0, 64)
	number := func(value uint64) { key = binary.AppendUvarint(key, value) }
	number(uint64(p.base))
	number(uint64(len(p.done)))
	for _, word := range append(p.done[:len(p.done):len(p.done)], p.maybes...) {
		key = binary.LittleEndian.AppendUint64(key, word)
	}
	// Until first: it alone has a fixed length.
	key = binary.LittleEndian.AppendUint64(key, math.Float64bits(p.job.until))
	number(uint64(p.job.fence))
	number(uint64(p.job.owner))
	number(uint64(p.job.result))
	for _, is := range []bool{p.job.exists, p.job.done} {
		if is {
			key = append(key, 1)
		} else {
			key = append(key, 0)
		}
	}
	return string(key)
}

// explain says how far the calls could be explained.
func (s *search) explain(texts *texts) string {
	const few = 12
	at := s.farthest
	var told strings.Builder
	var before []string
	for last := at.last; last != nil && len(before) < few; last = last.before {
		before = append(before, last.call.line)
	}
	fmt.Fprintf(&told, "%d of %d calls can be explained. The last of them:\n", at.count, len(s.calls))
	for index := len(before) - 1; index >= 0; index-- {
		fmt.Fprintf(&told, "    %s\n", before[index])
	}
	fmt.Fprintf(&told, "then the job is %s, and of these none can be next:\n", at.job.String(texts))
	s.candidates(at, func(index int) { fmt.Fprintf(&told, "    %s\n", s.calls[index].line) })
	return told.String()
}

// String is the job as it stands in an answer.
func (j job) String(texts *texts) string {
	if !j.exists {
		return "not there"
	}
	return fmt.Sprintf("%s %v %d %s %v", texts.names[j.owner], j.until, j.fence, texts.names[j.result], j.done)
}
