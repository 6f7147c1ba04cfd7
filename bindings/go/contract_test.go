package fencepost

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// The contract data of tests/contract, in seconds as the file has them: a time.Time cannot say every double. The format
// is in the README.md there.

// A word is a text, a list of them, or bare: a number, a status, null, true or false.
type (
	text string
	list []string
	bare string
)

// words takes a line apart.
func words(t *testing.T, line string) (found []interface{}) {
	var open *list
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '"' {
			var given string
			given, line = stringAt(t, line[1:])
			if open != nil {
				*open = append(*open, given)
			} else {
				found = append(found, text(given))
			}
			continue
		}
		word := strings.SplitN(line, " ", 2)[0]
		line = line[len(word):]
		switch {
		case word == "[":
			open = &list{}
		case word == "]":
			found = append(found, *open)
			open = nil
		case open != nil:
			t.Fatalf("%s in a list", word)
		default:
			found = append(found, bare(word))
		}
	}
	return found
}

// stringAt reads a string after its first quote, and gives what follows it.
func stringAt(t *testing.T, line string) (given, rest string) {
	var read strings.Builder
	for index := 0; index < len(line); index++ {
		switch line[index] {
		case '\\':
			index++
			escaped, known := map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\'}[line[index]]
			if !known {
				t.Fatalf("\\%c is no escape", line[index])
			}
			read.WriteByte(escaped)
		case '"':
			rest = line[index+1:]
			if !strings.HasPrefix(rest, "*") {
				return read.String(), rest
			}
			times := strings.SplitN(rest[1:], " ", 2)[0]
			return strings.Repeat(read.String(), int(integer(t, bare(times)))), rest[1+len(times):]
		default:
			read.WriteByte(line[index])
		}
	}
	t.Fatal("a string without its end")
	return "", ""
}

func number(t *testing.T, word interface{}) float64 {
	value, err := strconv.ParseFloat(string(word.(bare)), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		t.Fatal(err)
	}
	return value
}

func integer(t *testing.T, word interface{}) int64 {
	value, err := strconv.ParseInt(string(word.(bare)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func optional(word interface{}) *string {
	if word == bare("null") {
		return nil
	}
	return Result(string(word.(text)))
}

func optionalWord(given *string) interface{} {
	if given == nil {
		return bare("null")
	}
	return text(*given)
}

// answered makes the words that the data expects of an answer.
func answered(t *testing.T, err error, values ...interface{}) []interface{} {
	if err == nil {
		return append([]interface{}{bare("OK")}, values...)
	}
	var status Status
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	return []interface{}{bare(strings.TrimPrefix(status.Error(), "FENCEPOST_"))}
}

var conditions = map[bare]Condition{
	"claimable": Claimable, "held": Held, "delayed": Delayed, "done": Done, "broken": Broken,
}

func grantWords(grants ...Grant) (words []interface{}) {
	for _, grant := range grants {
		words = append(words, text(grant.ID), bare(strconv.FormatInt(grant.Fence, 10)))
	}
	return words
}

// A contractCase has a folder and a handle of its own.
type contractCase struct {
	*testing.T
	path string
	db   *DB
}

func newCase(t *testing.T) *contractCase {
	c := &contractCase{T: t, path: filepath.Join(t.TempDir(), "jobs.db")}
	c.open()
	if err := c.db.InitDB(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.db.Close() })
	return c
}

func (c *contractCase) open() {
	var err error
	if c.db, err = Open(c.path, nil); err != nil {
		c.Fatal(err)
	}
}

func (c *contractCase) step(step string, a []interface{}) []interface{} {
	ctx := context.Background()
	str := func(index int) string { return string(a[index].(text)) }
	switch step {
	case "reopen":
		c.db.Close()
		c.open()
		return nil
	case "sql":
		printed, err := exec.Command("sqlite3", c.path, str(0)).Output()
		if err != nil {
			c.Fatal(err)
		}
		return []interface{}{text(strings.TrimSuffix(string(printed), "\n"))}
	case "init_db":
		return answered(c.T, c.db.InitDB())
	case "enqueue":
		return answered(c.T, c.db.Enqueue(str(0)))
	case "state":
		job, err := c.db.state(ctx, str(0))
		if err != nil {
			return answered(c.T, err)
		}
		return answered(c.T, nil, text(job.ID), optionalWord(job.Owner), job.Until, bare(strconv.FormatInt(job.Fence, 10)),
			optionalWord(job.Result), bare(strconv.FormatBool(job.Done)))
	case "claim":
		fence, err := c.db.claim(ctx, str(0), str(1), number(c.T, a[2]), number(c.T, a[3]))
		return answered(c.T, err, bare(strconv.FormatInt(fence, 10)))
	case "renew":
		return answered(c.T, c.db.renew(ctx, str(0), str(1), integer(c.T, a[2]), number(c.T, a[3]), number(c.T, a[4])))
	case "complete":
		return answered(c.T, c.db.complete(ctx, str(0), str(1), integer(c.T, a[2]), number(c.T, a[3]), optional(a[4])))
	case "release":
		return answered(c.T, c.db.Release(str(0), str(1), integer(c.T, a[2])))
	case "enqueue_at":
		return answered(c.T, c.db.enqueueAt(ctx, str(0), number(c.T, a[1])))
	case "enqueue_many":
		added, err := c.db.EnqueueMany([]string(a[0].(list)))
		var values []interface{}
		for _, was := range added {
			values = append(values, bare(strconv.FormatBool(was)))
		}
		return answered(c.T, err, values...)
	case "release_at":
		return answered(c.T, c.db.releaseAt(ctx, str(0), str(1), integer(c.T, a[2]), number(c.T, a[3])))
	case "claim_next":
		grant, err := c.db.claimNext(ctx, str(0), number(c.T, a[1]), number(c.T, a[2]))
		return answered(c.T, err, grantWords(grant)...)
	case "claim_batch":
		grants, err := c.db.claimBatch(ctx, str(0), number(c.T, a[1]), number(c.T, a[2]), int(integer(c.T, a[3])))
		return answered(c.T, err, grantWords(grants...)...)
	case "complete_and_claim_next":
		next, err := c.db.completeAndClaimNext(ctx, str(0), str(1), integer(c.T, a[2]), number(c.T, a[3]), optional(a[4]), number(c.T, a[5]))
		if next == nil {
			return answered(c.T, err, bare("none"))
		}
		return answered(c.T, err, grantWords(*next)...)
	case "force_release":
		fence, err := c.db.ForceReleaseContext(ctx, str(0))
		return answered(c.T, err, bare(strconv.FormatInt(fence, 10)))
	case "requeue":
		return answered(c.T, c.db.RequeueContext(ctx, str(0)))
	case "purge":
		purged, err := c.db.purge(ctx, number(c.T, a[0]), int(integer(c.T, a[1])))
		return answered(c.T, err, bare(strconv.Itoa(purged)))
	case "raise_floor":
		return answered(c.T, c.db.RaiseFloorContext(ctx, integer(c.T, a[0])))
	case "count":
		count, err := c.db.count(ctx, conditions[a[0].(bare)], number(c.T, a[1]))
		return answered(c.T, err, bare(strconv.FormatUint(count, 10)))
	case "list":
		jobs, err := c.db.list(ctx, conditions[a[0].(bare)], number(c.T, a[1]), optional(a[2]), int(integer(c.T, a[3])))
		var values []interface{}
		for _, job := range jobs {
			values = append(values, text(job.ID))
		}
		return answered(c.T, err, values...)
	case "claim_many":
		owners := []string(a[1].(list))
		fences, err := c.db.claimMany(ctx, str(0), owners, number(c.T, a[2]), number(c.T, a[3]))
		if err != nil {
			return answered(c.T, err)
		}
		granted := bare("none")
		for _, fence := range fences {
			if fence != 0 {
				if granted != "none" {
					c.Errorf("two fences: %v", fences)
				}
				granted = bare(strconv.FormatInt(fence, 10))
			}
		}
		if len(fences) != len(owners) {
			c.Errorf("%d answers for %d owners", len(fences), len(owners))
		}
		return answered(c.T, nil, granted)
	}
	c.Fatalf("unknown step %s", step)
	return nil
}

func same(t *testing.T, expected, given []interface{}) bool {
	if len(expected) != len(given) {
		return false
	}
	for index, word := range given {
		if value, is := word.(float64); is {
			if number(t, expected[index]) != value {
				return false
			}
		} else if !reflect.DeepEqual(expected[index], word) {
			return false
		}
	}
	return true
}

func TestContract(t *testing.T) {
	paths, _ := filepath.Glob("../../tests/contract/*.contract")
	if len(paths) == 0 {
		t.Fatal("no contract data")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c *contractCase
			for index, line := range strings.Split(string(data), "\n") {
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				given := words(t, line)
				var expected []interface{}
				for place, word := range given {
					if word == interface{}(bare("=>")) {
						given, expected = given[:place], given[place+1:]
						break
					}
				}
				step := string(given[0].(bare))
				if step == "case" {
					if c != nil {
						c.db.Close()
					}
					c = newCase(t)
					continue
				}
				if answer := c.step(step, given[1:]); !same(t, expected, answer) {
					t.Errorf("%s:%d: %s\nanswered %v", filepath.Base(path), index+1, line, answer)
				}
			}
		})
	}
}
