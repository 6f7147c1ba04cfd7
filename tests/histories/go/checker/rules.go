package main

// A text is an id, an owner or a result, by its number in texts. 0 is none, which is not the empty string.
type text int32

type texts struct {
	numbers map[string]text
	names   []string
}

func newTexts() *texts {
	return &texts{numbers: map[string]text{"null": 0}, names: []string{"null"}}
}

func (t *texts) number(name string) text {
	number, known := t.numbers[name]
	if !known {
		number = text(len(t.names))
		t.numbers[name] = number
		t.names = append(t.names, name)
	}
	return number
}

// A job is what is stored of one; the zero job is not there.
type job struct {
	exists bool
	owner  text
	until  float64
	fence  int64
	result text
	done   bool
}

type operation int

const (
	enqueue operation = iota
	read
	claim
	renew
	complete
	release
)

// A status is an answer's name; a refusal has changed nothing.
type status string

const (
	ok       status = "OK"
	exists   status = "EXISTS"
	notFound status = "NOT_FOUND"
	held     status = "HELD"
	done     status = "DONE"
	stale    status = "STALE"
	expired  status = "EXPIRED"
	busy     status = "BUSY"
)

func (s status) isRefusal() bool {
	switch s {
	case exists, notFound, held, done, stale, expired:
		return true
	}
	return false
}

// A call is one call, or that part of one that is about one job.
type call struct {
	line       string // as it was written down
	start, end int64
	operation  operation
	owner      text
	fence      int64   // that renew, complete and release name
	now        float64 // by the caller's clock
	until      float64 // when the lease would be over, or the delay
	result     text

	maybe   bool // no answer tells whether it happened
	status  status
	granted int64 // the fence that was answered
	found   job   // the row that was answered
}

// rule is what the design says: the answer to a call on a job, and what becomes of the job.
func (c *call) rule(before job) (status, job) {
	after := before
	if c.operation == enqueue {
		if before.exists {
			return exists, before
		}
		return ok, job{exists: true, until: c.until}
	}
	if !before.exists {
		return notFound, before
	}
	if c.operation == read {
		return ok, before
	}
	if before.done {
		return done, before
	}
	if c.operation == claim {
		// At now == until the lease is over.
		if before.until > c.now {
			return held, before
		}
		after.owner, after.until, after.fence = c.owner, c.until, before.fence+1
		return ok, after
	}
	if before.owner == 0 || before.owner != c.owner || before.fence != c.fence {
		return stale, before
	}
	if c.operation == release {
		after.owner, after.until = 0, c.until
		return ok, after
	}
	if before.until <= c.now {
		return expired, before
	}
	if c.operation == renew {
		after.until = c.until
	} else {
		after.result, after.done = c.result, true
	}
	return ok, after
}

// on tells whether the call can have happened to this job, and what became of it then.
func (c *call) on(before job) (after job, can bool) {
	given, after := c.rule(before)
	switch {
	case c.maybe:
		// Had it been refused, then it is as if it had not happened.
		return after, given == ok
	case given != c.status:
		return before, false
	case given == ok && c.operation == claim:
		return after, after.fence == c.granted
	case given == ok && c.operation == read:
		return after, before == c.found
	}
	return after, true
}
