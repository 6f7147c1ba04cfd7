//go:build go1.21

package fencepost

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAJobInALog(t *testing.T) {
	for expected, job := range map[string]*Job{
		"job.id=a job.until=1970-01-01T00:00:00.000Z job.fence=0 job.done=false": {ID: "a", Until: time.Unix(0, 0).UTC()},
		`job.id=b job.owner="" job.until=1970-01-01T00:01:40.000Z job.fence=7 job.done=true job.result=""`: {
			ID: "b", Owner: new(string), Until: t100.UTC(), Fence: 7, Done: true, Result: new(string)},
		"job.result=" + strings.Repeat("x", 100):                       {Result: Result(strings.Repeat("x", 100))},
		`job.result="` + strings.Repeat("x", 100) + `... (101 bytes)"`: {Result: Result(strings.Repeat("x", 101))},
		// The character that does not fit is left out whole.
		`job.result="` + strings.Repeat("x", 99) + `... (102 bytes)"`: {Result: Result(strings.Repeat("x", 99) + "€")},
	} {
		for _, given := range []interface{}{job, *job} {
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("a", "job", given)
			if !strings.HasSuffix(log.String(), " "+expected+"\n") {
				t.Errorf("%s\ninstead of %s", log.String(), expected)
			}
		}
	}
}
