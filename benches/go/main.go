// What a call costs in Go; see ../calls.c.
package main

import (
	"fmt"
	"log"
	"os"
	"sort"
	"time"

	fencepost "github.com/fencepost/fencepost/bindings/go"
)

const (
	batches = 201
	cheap   = 2000
	claims  = 50
)

func microseconds(size int, call func() error) float64 {
	times := make([]float64, batches)
	for i := range times {
		begun := time.Now()
		for j := 0; j < size; j++ {
			if err := call(); err != nil {
				log.Fatal(err)
			}
		}
		times[i] = float64(time.Since(begun).Nanoseconds()) / 1e3 / float64(size)
	}
	sort.Float64s(times)
	return times[batches/2]
}

func main() {
	db, err := fencepost.Open(os.Args[1], &fencepost.Options{Durability: fencepost.Normal})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1, 0)

	cheapest := microseconds(cheap, func() error {
		_, err := db.ClaimMany("job-0000", nil, now, time.Second)
		return err
	})
	claim := microseconds(claims, func() error {
		now = now.Add(time.Second)
		_, err := db.Claim("job-0000", "worker", now, time.Second/2)
		return err
	})
	fmt.Printf("cheap_us=%.3f claim_us=%.3f\n", cheapest, claim)
}
