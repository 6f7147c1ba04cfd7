package fencepost_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	fencepost "github.com/fencepost/fencepost/bindings/go"
)

// A worker that stalled past its lease is refused, and the result of the one that took over stands.
func Example() {
	folder, err := os.MkdirTemp("", "fencepost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	db, err := fencepost.Open(filepath.Join(folder, "jobs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.InitDB(); err != nil {
		log.Fatal(err)
	}
	if err := db.Enqueue("report"); err != nil {
		log.Fatal(err)
	}

	clock := time.Unix(1_700_000_000, 0)
	stalled, _ := db.Claim("report", "A", clock, 10*time.Second)
	clock = clock.Add(10 * time.Second) // A sleeps; its lease is over now
	fence, _ := db.Claim("report", "B", clock, 10*time.Second)

	fmt.Println("A:", db.Complete("report", "A", stalled, clock, fencepost.Result("A's")))
	fmt.Println("B:", db.Complete("report", "B", fence, clock, fencepost.Result("B's")))

	// Output:
	// A: fencepost: Complete: job "report" is held by "B" under fence 2, not by this owner and fence; stop working on it
	// B: <nil>
}

func ExampleIsRefusal() {
	folder, err := os.MkdirTemp("", "fencepost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	db, err := fencepost.Open(filepath.Join(folder, "jobs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	_, err = db.Claim("report", "A", time.Now(), time.Minute)
	fmt.Println(fencepost.IsRefusal(err), errors.Is(err, fencepost.ErrSchema))

	if err := db.InitDB(); err != nil {
		log.Fatal(err)
	}
	_, err = db.Claim("report", "A", time.Now(), time.Minute)
	fmt.Println(fencepost.IsRefusal(err), errors.Is(err, fencepost.ErrNotFound))

	// Output:
	// false true
	// true true
}

// A worker that ended between its completion and the answer looks whether it was stored. It has written its fence down
// before, as it would for anything outside the file.
func ExampleDB_Complete() {
	folder, err := os.MkdirTemp("", "fencepost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	db, err := fencepost.Open(filepath.Join(folder, "jobs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.InitDB(); err != nil {
		log.Fatal(err)
	}
	if err := db.Enqueue("report"); err != nil {
		log.Fatal(err)
	}
	fence, err := db.Claim("report", "worker-1", time.Now(), 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	complete := func() error {
		err := db.Complete("report", "worker-1", fence, time.Now(), fencepost.Result("42 pages"))
		if !errors.Is(err, fencepost.ErrDone) {
			return err
		}
		job, stateErr := db.State("report")
		if stateErr != nil {
			return stateErr
		}
		if job.Done && job.Fence == fence && job.Owner != nil && *job.Owner == "worker-1" {
			return nil // it was this worker's own
		}
		return err
	}
	fmt.Println(complete()) // and its answer is lost
	fmt.Println(complete())
	fence-- // a worker that held the job before
	fmt.Println(complete())

	// Output:
	// <nil>
	// <nil>
	// fencepost: Complete: job "report" is complete, by "worker-1" under fence 1
}

// A worker takes what comes next until there is nothing. Each completion and the next claim are one sync to the disk.
func ExampleDB_ClaimNext() {
	folder, err := os.MkdirTemp("", "fencepost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	db, err := fencepost.Open(filepath.Join(folder, "jobs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.InitDB(); err != nil {
		log.Fatal(err)
	}
	if _, err := db.EnqueueMany([]string{"report", "invoice"}); err != nil {
		log.Fatal(err)
	}

	const lease = 30 * time.Second
	grant, err := db.ClaimNext("worker-1", time.Now(), lease)
	if errors.Is(err, fencepost.ErrNotFound) {
		return // nothing to do
	}
	for job := &grant; err == nil && job != nil; {
		fmt.Println("working on", job.ID) // with job.Fence wherever the work leaves this file
		job, err = db.CompleteAndClaimNext(job.ID, "worker-1", job.Fence, time.Now(), nil, lease)
	}
	if err != nil {
		log.Fatal(err)
	}

	// Output:
	// working on report
	// working on invoice
}
