//go:build go1.23

package fencepost

import (
	"context"
	"iter"
	"time"
)

// pageSize is how many jobs an iterator reads at once; their results are in memory with them.
const pageSize = 100

// Jobs goes through all jobs in a condition, in the order of their ids' bytes. It reads them as List does, 100 at a
// time, when they are asked for: the loop may change them, and what others change behind the page is seen. After an
// error, which comes with the zero Job, nothing follows. Needs Go 1.23.
func (db *DB) Jobs(condition Condition, now time.Time) iter.Seq2[Job, error] {
	return db.JobsContext(context.Background(), condition, now)
}

// JobsContext is Jobs with a context.
func (db *DB) JobsContext(ctx context.Context, condition Condition, now time.Time) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		var after *string
		for {
			page, err := db.ListContext(ctx, condition, now, after, pageSize)
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, job := range page {
				if !yield(job, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = &page[len(page)-1].ID
		}
	}
}
