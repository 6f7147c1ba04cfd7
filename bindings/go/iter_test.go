//go:build go1.23

package fencepost

import (
	"context"
	"fmt"
	"testing"
)

func TestAllJobsOneAfterTheOther(t *testing.T) {
	db := open(t, &Options{Durability: Normal})
	// No page, a part of one, whole ones, and a part more; the empty string is the first id of all.
	expected := []string{}
	for _, count := range []int{0, 1, pageSize, 2 * pageSize, 2*pageSize + 1} {
		for number := len(expected); number < count; number++ {
			id := ""
			if number > 0 {
				id = fmt.Sprintf("%04d", number)
			}
			expected = append(expected, id)
			must(t, db.Enqueue(id))
		}
		ids := []string{}
		for job, err := range db.Jobs(Claimable, t100) {
			must(t, err)
			ids = append(ids, job.ID)
		}
		if fmt.Sprintf("%q", ids) != fmt.Sprintf("%q", expected) {
			t.Errorf("%q", ids)
		}
	}
	for job, err := range db.Jobs(Held, t100) {
		t.Error(job, err)
	}
}

func TestAnIteratorEndsWithItsLoopOrAnError(t *testing.T) {
	db := open(t, &Options{Durability: Normal})
	for number := 0; number < 2*pageSize; number++ {
		must(t, db.Enqueue(fmt.Sprintf("%04d", number)))
	}
	for job, err := range db.Jobs(Claimable, t100) {
		must(t, err)
		if job.ID == "0001" {
			break
		}
	}
	// The first page is there already when the context ends.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	jobs, errs := 0, []error{}
	for job, err := range db.JobsContext(ctx, Claimable, t100) {
		cancel()
		if err == nil {
			jobs++
		} else if errs = append(errs, err); job != (Job{}) {
			t.Error(job)
		}
	}
	if jobs != pageSize || len(errs) != 1 {
		t.Fatal(jobs, errs)
	}
	wants(t, errs[0], context.Canceled)
	for _, err := range db.Jobs(0, t100) {
		wants(t, err, ErrInvalidArgument)
	}
}
