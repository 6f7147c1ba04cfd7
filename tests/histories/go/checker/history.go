package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A history is what was written down, by job.
type history struct {
	texts *texts
	jobs  map[string][]call
	// anywhere are claims that may have happened to any one of the jobs.
	anywhere []call
	// stored are the rows that were left, when allStored.
	stored    map[string]job
	allStored bool
	counts    counts
}

// counts are what is told of a history.
type counts struct {
	Calls      int            `json:"calls"`
	Parts      int            `json:"parts"`
	Jobs       int            `json:"jobs"`
	Granted    int            `json:"granted"`
	Unanswered int            `json:"unanswered"`
	Busy       int            `json:"busy"`
	Errors     map[string]int `json:"errors"`
	Unchecked  int            `json:"unchecked"`
	Answers    map[string]int `json:"answers"`
}

func newHistory() *history {
	return &history{
		texts:  newTexts(),
		jobs:   map[string][]call{},
		stored: map[string]job{},
		counts: counts{Errors: map[string]int{}, Answers: map[string]int{}},
	}
}

// read takes lines in. Those of a client that was killed may lack their end.
func (h *history) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if problem := h.add(strings.TrimSuffix(line, "\n"), err == nil); problem != nil {
			return fmt.Errorf("%q: %v", line, problem)
		}
		if err == io.EOF {
			return nil
		}
	}
}

// words take a line apart; the first one that does not fit is remembered.
type words struct {
	left    []string
	texts   *texts
	problem error
}

func (w *words) next() string {
	if len(w.left) == 0 {
		w.fail("too few words")
		return ""
	}
	word := w.left[0]
	w.left = w.left[1:]
	return word
}

func (w *words) fail(format string, values ...interface{}) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, values...)
	}
}

func (w *words) text() text { return w.texts.number(w.next()) }

func (w *words) integer() int64 {
	word := w.next()
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		w.fail("%v", err)
	}
	return value
}

func (w *words) number() float64 {
	word := w.next()
	value, err := strconv.ParseFloat(word, 64)
	if err != nil {
		w.fail("%v", err)
	}
	return value
}

func (w *words) boolean() bool {
	switch word := w.next(); word {
	case "true":
		return true
	case "false":
	default:
		w.fail("%q is neither true nor false", word)
	}
	return false
}

// lease reads now and ttl.
func (w *words) lease() (now, until float64) {
	now = w.number()
	return now, now + w.number()
}

func (w *words) row() job {
	return job{exists: true, owner: w.text(), until: w.number(), fence: w.integer(), result: w.text(), done: w.boolean()}
}

// end checks that nothing is left over.
func (w *words) end() error {
	if len(w.left) > 0 {
		w.fail("words too many: %q", w.left)
	}
	return w.problem
}

// add takes in one line. Without its end it is that of a client that was killed while it wrote.
func (h *history) add(line string, whole bool) error {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return nil
	}
	given, told := line, ""
	if place := strings.Index(line, "=>"); place >= 0 {
		given, told = line[:place], line[place+2:]
	}
	asked := &words{left: strings.Fields(given), texts: h.texts}
	answer := &words{left: strings.Fields(told), texts: h.texts}
	if asked.left[0] == "stored" {
		return h.addStored(asked)
	}
	c := call{line: line, start: asked.integer(), end: math.MaxInt64, maybe: true}
	if !whole {
		answer.left = nil
	} else if told != "" {
		c.maybe = false
		c.end = answer.integer()
		c.status = status(answer.next())
	}
	if asked.problem != nil || answer.problem != nil {
		return fmt.Errorf("%v, %v", asked.problem, answer.problem)
	}
	if c.end < c.start {
		return fmt.Errorf("it ended before it began")
	}
	h.counts.Calls++
	switch {
	case c.maybe:
		h.counts.Unanswered++
	case c.status == busy:
		// Nothing was changed.
		h.counts.Busy++
		return nil
	case c.status != ok && !c.status.isRefusal():
		h.counts.Errors[string(c.status)]++
		c.maybe, c.end = true, math.MaxInt64
		answer.left = nil
	}
	operation := asked.next()
	if !c.maybe {
		h.counts.Answers[operation+" "+string(c.status)]++
	}
	h.split(operation, c, asked, answer)
	if err := asked.end(); err != nil {
		return err
	}
	return answer.end()
}

// addStored takes in a row that was left, or without words that these were all.
func (h *history) addStored(row *words) error {
	row.next()
	if len(row.left) == 0 {
		h.allStored = true
		return nil
	}
	id := row.next()
	h.stored[id] = row.row()
	return row.end()
}

// split makes of a call its parts, one for each job that it is about.
func (h *history) split(operation string, c call, asked, answer *words) {
	switch operation {
	case "enqueue", "enqueue_at":
		id := asked.next()
		c.operation = enqueue
		if operation == "enqueue_at" {
			c.until = asked.number()
		}
		h.part(id, c)
	case "enqueue_many":
		h.splitEnqueueMany(c, asked, answer)
	case "state":
		id := asked.next()
		c.operation = read
		if c.status == ok && !c.maybe {
			c.found = answer.row()
		}
		// One that has no answer says nothing.
		if !c.maybe {
			h.part(id, c)
		}
	case "claim":
		id := asked.next()
		c.operation = claim
		c.owner = asked.text()
		c.now, c.until = asked.lease()
		if c.status == ok && !c.maybe {
			c.granted = answer.integer()
		}
		h.part(id, c)
	case "claim_many":
		h.splitClaimMany(c, asked, answer)
	case "claim_next", "claim_batch":
		c.operation = claim
		c.owner = asked.text()
		c.now, c.until = asked.lease()
		if operation == "claim_batch" {
			asked.integer()
		}
		h.splitGrants(c, answer)
	case "renew":
		id := asked.next()
		c.operation = renew
		c.owner, c.fence = asked.text(), asked.integer()
		c.now, c.until = asked.lease()
		h.part(id, c)
	case "complete", "complete_and_claim_next":
		id := asked.next()
		c.operation = complete
		c.owner, c.fence = asked.text(), asked.integer()
		c.now, c.result = asked.number(), asked.text()
		h.part(id, c)
		if operation == "complete_and_claim_next" {
			next := c
			next.operation, next.fence, next.result = claim, 0, 0
			next.until = c.now + asked.number()
			// A completion that was refused claims nothing, and where nothing comes next there is nothing to check.
			if c.maybe || len(answer.left) > 0 {
				h.splitGrants(next, answer)
			}
		}
	case "release", "release_at":
		id := asked.next()
		c.operation = release
		c.owner, c.fence = asked.text(), asked.integer()
		if operation == "release_at" {
			c.until = asked.number()
		}
		h.part(id, c)
	default:
		asked.fail("an operation that is not known")
	}
}

func (h *history) splitEnqueueMany(c call, asked, answer *words) {
	c.operation = enqueue
	for len(asked.left) > 0 {
		id := asked.next()
		// Refused is the whole when all existed.
		if c.status == ok && !c.maybe && !answer.boolean() {
			one := c
			one.status = exists
			h.part(id, one)
			continue
		}
		h.part(id, c)
	}
}

// splitClaimMany makes a claim of each owner that was granted, or that may have been. Were all refused, then the answer
// is that of one of them.
func (h *history) splitClaimMany(c call, asked, answer *words) {
	id := asked.next()
	c.operation = claim
	c.now, c.until = asked.lease()
	for len(asked.left) > 0 {
		c.owner = asked.text()
		if c.status == ok && !c.maybe {
			if c.granted = answer.integer(); c.granted == 0 {
				continue
			}
		}
		h.part(id, c)
		if !c.maybe && c.status != ok {
			asked.left = nil
		}
	}
}

// splitGrants makes a claim of each grant. That nothing was claimable is no one job's affair.
func (h *history) splitGrants(c call, answer *words) {
	switch {
	case c.maybe:
		h.anywhere = append(h.anywhere, c)
	case c.status != ok:
		h.counts.Unchecked++
	case len(answer.left) == 0:
		answer.fail("no grant")
	default:
		for len(answer.left) > 0 {
			id := answer.next()
			c.granted = answer.integer()
			h.part(id, c)
		}
	}
}

func (h *history) part(id string, c call) {
	h.counts.Parts++
	if c.operation == claim && !c.maybe && c.status == ok {
		h.counts.Granted++
	}
	h.jobs[id] = append(h.jobs[id], c)
}
