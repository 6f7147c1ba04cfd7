// What client.c does, through the Go wrapper.
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

const ttl = 50 * time.Second

type client struct {
	name string
	db   *fencepost.DB
	out  *bufio.Writer
}

func (c *client) tell(operation, job string, fence int64, err error) {
	name := "OK"
	if err != nil {
		var status fencepost.Status
		if !errors.As(err, &status) {
			panic(err)
		}
		name = strings.TrimPrefix(status.Error(), "FENCEPOST_")
	}
	fmt.Fprintln(c.out, operation, job, fence, name)
}

func (c *client) claim(job string, now time.Time) int64 {
	fence, err := c.db.Claim(job, c.name, now, ttl)
	c.tell("claim", job, fence, err)
	return fence
}

func (c *client) claimAndComplete(job string, now time.Time) {
	if fence := c.claim(job, now); fence > 0 {
		result := fencepost.Result(fmt.Sprintf("%s:%d", c.name, fence))
		c.tell("complete", job, fence, c.db.Complete(job, c.name, fence, now, result))
	}
}

func (c *client) open(path string) {
	if c.db != nil {
		c.db.Close()
	}
	db, err := fencepost.Open(path, nil)
	c.db = db
	c.tell("open", "-", 0, err)
}

func (c *client) race(path string) {
	c.open(path)
	c.tell("init_db", "-", 0, c.db.InitDB())
	c.tell("enqueue", "job", 0, c.db.Enqueue("job"))
	c.claimAndComplete("job", time.Unix(0, 0))
}

func (c *client) work(count int, clock int64) {
	start := time.Unix(0, 0)
	for i := 0; i < count; i++ {
		if fence := c.claim("relay", start); fence > 0 {
			c.tell("renew", "relay", fence, c.db.Renew("relay", c.name, fence, start, ttl))
			c.tell("release", "relay", fence, c.db.Release("relay", c.name, fence))
		}
		c.claimAndComplete(fmt.Sprintf("shared-%d", i), start)
		c.claimAndComplete(fmt.Sprintf("taken-over-%d", i), time.Unix(clock, 0))
		own := fmt.Sprintf("own-%s-%d", c.name, i)
		c.tell("enqueue", own, 0, c.db.Enqueue(own))
		c.claimAndComplete(own, start)
	}
}

func main() {
	c := &client{name: os.Args[1], out: bufio.NewWriter(os.Stdout)}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var path string
		var count int
		var clock int64
		if n, _ := fmt.Sscanf(lines.Text(), "open %s", &path); n == 1 {
			c.open(path)
		} else if n, _ := fmt.Sscanf(lines.Text(), "race %s", &path); n == 1 {
			c.race(path)
		} else if n, _ := fmt.Sscanf(lines.Text(), "work %d %d", &count, &clock); n == 2 {
			c.work(count, clock)
		} else {
			panic(lines.Text())
		}
		fmt.Fprintln(c.out, ".")
		c.out.Flush()
	}
}
