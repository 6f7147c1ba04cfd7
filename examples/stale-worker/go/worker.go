// Worker B of the story, in Go. It does what it is told on its standard input, a line at a time, and answers with
// a line each, as c/worker.c does.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	fencepost "github.com/fencepost/fencepost/bindings/go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: worker FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "worker B:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	db, err := fencepost.Open(path, nil)
	if err != nil {
		return err
	}
	defer db.Close()

	var fence int64
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var verb, job string
		var seconds int64
		if _, err := fmt.Sscan(lines.Text(), &verb, &job, &seconds); err != nil {
			return err
		}
		now := time.Unix(seconds, 0)

		answer := "OK"
		var err error
		switch verb {
		case "claim":
			if fence, err = db.Claim(job, "B", now, 10*time.Second); err == nil {
				answer = fmt.Sprintf("OK, fence %d", fence)
			}
		case "complete":
			result := strings.SplitN(lines.Text(), " ", 4)[3]
			err = db.Complete(job, "B", fence, now, &result)
		default:
			return fmt.Errorf("what is this: %s", lines.Text())
		}
		switch {
		case errors.Is(err, fencepost.ErrHeld):
			answer = "HELD"
		case errors.Is(err, fencepost.ErrDone):
			answer = "DONE"
		case errors.Is(err, fencepost.ErrStale):
			answer = "STALE"
		case err != nil:
			return err
		}
		fmt.Println(answer)
	}
	return lines.Err()
}
