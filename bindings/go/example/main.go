// A worker that takes one job, renews its lease while it works, and stores the result under its fence.
//
//	go run ./example jobs.db report worker-1
package main

import (
	"fmt"
	"os"
	"time"

	fencepost "github.com/fencepost/fencepost/bindings/go"
)

const ttl = 10 * time.Second

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: example FILE JOB OWNER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, id, owner string) error {
	db, err := fencepost.Open(path, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.InitDB(); err != nil {
		return err
	}
	if err := db.Enqueue(id); err != nil && !fencepost.IsRefusal(err) {
		return err
	}

	fence, err := db.Claim(id, owner, time.Now(), ttl)
	if err != nil {
		return err
	}
	fmt.Printf("%s holds %s with fence %d\n", owner, id, fence)

	for part := 1; part <= 3; part++ {
		// A refusal here means that another worker has the job: stop, whatever was done so far.
		if err := db.Renew(id, owner, fence, time.Now(), ttl); err != nil {
			return err
		}
		fmt.Printf("part %d is done\n", part)
	}

	if err := db.Complete(id, owner, fence, time.Now(), fencepost.Result("three parts")); err != nil {
		return err
	}
	fmt.Println("stored")
	return nil
}
