// What client.c does, through the Go wrapper.
package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	fencepost "github.com/fencepost/fencepost/bindings/go"
)

const (
	leases = 4
	many   = 3
	window = 6
	stride = 16
	base   = 2000
	hour   = 3600
	year   = 31536000
)

// nanoseconds are those of CLOCK_MONOTONIC, which all processes share; Go's own begin with the process.
func nanoseconds() int64 {
	var now syscall.Timespec
	const monotonic = 1
	if _, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0); failed != 0 {
		panic(failed)
	}
	return now.Nano()
}

// A moment is what a client's clock says, in quarters of a second, which a time.Time and a float64 both hold exactly.
type moment int64

func (m moment) time() time.Time { return time.Unix(int64(m)>>2, int64(m)&3*250_000_000) }

func (m moment) String() string { return number(float64(m) / 4) }

func seconds(count int64) moment { return moment(4 * count) }

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// A span is how long a lease runs.
type span = moment

func (m moment) duration() time.Duration { return time.Duration(m) * 250 * time.Millisecond }

type lease struct {
	job   string
	fence int64
}

type worker struct {
	db     *fencepost.DB
	owner  string
	log    *os.File
	random *rand.Rand
	clock  string
	epoch  int64
	leases [leases]lease
	taken  int
}

func (w *worker) now(call int) moment {
	now := seconds(base) + moment((nanoseconds()-w.epoch)/1_000_000)
	switch {
	case w.clock == "zero":
		return 0
	case w.clock == "ahead":
		return now + seconds(20)
	case w.clock == "back" && call/16%4 == 3:
		return now - seconds(hour)
	case w.clock == "year" && call%32 == 31:
		return now + seconds(year)
	}
	return now
}

func (w *worker) put(text string) {
	if _, err := w.log.WriteString(text); err != nil {
		panic(err)
	}
}

func (w *worker) call(words ...interface{}) {
	w.put(fmt.Sprint(nanoseconds()) + " " + strings.TrimSuffix(fmt.Sprintln(words...), "\n"))
}

// answer is given what nanoseconds said right after the call.
func (w *worker) answer(ended int64, err error, words ...interface{}) {
	name := "OK"
	if err != nil {
		var status fencepost.Status
		if !errors.As(err, &status) {
			panic(err)
		}
		name = strings.TrimPrefix(status.Error(), "FENCEPOST_")
		words = nil
	}
	w.put(" => " + fmt.Sprintln(append([]interface{}{ended, name}, words...)...))
}

func (w *worker) keep(job string, fence int64) {
	w.leases[w.taken%leases] = lease{job, fence}
	w.taken++
}

func text(given *string) string {
	if given == nil {
		return "null"
	}
	return *given
}

func (w *worker) enqueue(job string) {
	w.call("enqueue", job)
	err := w.db.Enqueue(job)
	w.answer(nanoseconds(), err)
}

func (w *worker) enqueueAt(job string, notBefore moment) {
	w.call("enqueue_at", job, notBefore)
	err := w.db.EnqueueAt(job, notBefore.time())
	w.answer(nanoseconds(), err)
}

func (w *worker) enqueueMany(newest int) {
	ids := make([]string, many)
	for i := range ids {
		ids[i] = fmt.Sprintf("j%d", newest+i)
	}
	w.call("enqueue_many", strings.Join(ids, " "))
	added, err := w.db.EnqueueMany(ids)
	ended := nanoseconds()
	var words []interface{}
	for _, was := range added {
		words = append(words, was)
	}
	w.answer(ended, err, words...)
}

func (w *worker) state(job string) {
	w.call("state", job)
	row, err := w.db.State(job)
	ended := nanoseconds()
	if err != nil {
		w.answer(ended, err)
		return
	}
	until := float64(row.Until.Unix()) + float64(row.Until.Nanosecond())/1e9
	w.answer(ended, nil, text(row.Owner), number(until), row.Fence, text(row.Result), row.Done)
}

func (w *worker) claim(job string, now moment, ttl span) {
	w.call("claim", job, w.owner, now, ttl)
	fence, err := w.db.Claim(job, w.owner, now.time(), ttl.duration())
	w.answer(nanoseconds(), err, fence)
	if err == nil {
		w.keep(job, fence)
	}
}

func (w *worker) claimNext(now moment, ttl span) {
	w.call("claim_next", w.owner, now, ttl)
	grant, err := w.db.ClaimNext(w.owner, now.time(), ttl.duration())
	w.answer(nanoseconds(), err, grant.ID, grant.Fence)
	if err == nil {
		w.keep(grant.ID, grant.Fence)
	}
}

func (w *worker) claimBatch(now moment, ttl span) {
	w.call("claim_batch", w.owner, now, ttl, many)
	grants, err := w.db.ClaimBatch(w.owner, now.time(), ttl.duration(), many)
	ended := nanoseconds()
	var words []interface{}
	for _, grant := range grants {
		words = append(words, grant.ID, grant.Fence)
		w.keep(grant.ID, grant.Fence)
	}
	w.answer(ended, err, words...)
}

func (w *worker) completeAndClaimNext(held lease, owner string, now moment, result *string, ttl span) {
	w.call("complete_and_claim_next", held.job, owner, held.fence, now, text(result), ttl)
	next, err := w.db.CompleteAndClaimNext(held.job, owner, held.fence, now.time(), result, ttl.duration())
	ended := nanoseconds()
	if next == nil {
		w.answer(ended, err)
		return
	}
	w.answer(ended, err, next.ID, next.Fence)
	w.keep(next.ID, next.Fence)
}

// choose gives its newest lease, mostly.
func (w *worker) choose() lease {
	if w.random.Intn(4) > 0 {
		return w.leases[(w.taken-1)%leases]
	}
	some := w.taken
	if some > leases {
		some = leases
	}
	return w.leases[w.random.Intn(some)]
}

// forget forgets its newest lease, but not always, so that it comes back to some that it has lost.
func (w *worker) forget() {
	if w.random.Intn(4) > 0 {
		w.taken--
	}
}

// use does something with a lease that it had at some time; now and then under a wrong fence or a wrong name.
func (w *worker) use(call int, now moment, ttl span) {
	held := w.choose()
	owner := w.owner
	if w.random.Intn(20) == 0 {
		owner = "stranger"
	}
	switch w.random.Intn(20) {
	case 0:
		held.fence--
	case 1:
		held.fence++
	}
	var result *string
	if w.random.Intn(8) > 0 {
		result = fencepost.Result(fmt.Sprintf("%s:%d:%d", owner, held.fence, call))
	}
	kind := w.random.Intn(100)
	// Every second job is never completed, so that its fence rises high.
	if number, _ := strconv.Atoi(held.job[1:]); kind >= 70 && number%2 == 0 {
		kind -= 40
	}
	if kind < 35 {
		w.call("renew", held.job, owner, held.fence, now, ttl)
		err := w.db.Renew(held.job, owner, held.fence, now.time(), ttl.duration())
		w.answer(nanoseconds(), err)
		if err != nil {
			w.forget()
		}
		return
	}
	w.forget()
	switch {
	case kind < 60:
		w.call("release", held.job, owner, held.fence)
		err := w.db.Release(held.job, owner, held.fence)
		w.answer(nanoseconds(), err)
	case kind < 70:
		notBefore := now + ttl - seconds(8)
		w.call("release_at", held.job, owner, held.fence, notBefore)
		err := w.db.ReleaseAt(held.job, owner, held.fence, notBefore.time())
		w.answer(nanoseconds(), err)
	case kind < 88:
		w.call("complete", held.job, owner, held.fence, now, text(result))
		err := w.db.Complete(held.job, owner, held.fence, now.time(), result)
		w.answer(nanoseconds(), err)
	default:
		w.completeAndClaimNext(held, owner, now, result, ttl)
	}
}

func (w *worker) step(call, newest int) {
	number := newest - w.random.Intn(window)
	if number < 0 {
		number = 0
	}
	job := fmt.Sprintf("j%d", number)
	now := w.now(call)
	ttl := span(1) << w.random.Intn(8)
	switch kind := w.random.Intn(100); {
	case kind < 5:
		w.enqueue(job)
	case kind < 9:
		w.enqueueAt(job, now+ttl-seconds(8))
	case kind < 10:
		w.enqueueMany(newest)
	case kind < 24:
		w.state(job)
	case kind < 52:
		w.claim(job, now, ttl)
	case kind < 58:
		w.claimNext(now, ttl)
	case kind < 61:
		w.claimBatch(now, ttl)
	case w.taken > 0:
		w.use(call, now, ttl)
	default:
		w.claim(job, now, ttl)
	}
}

func (w *worker) work(from, to, jobs int) {
	for call := from; call < to; call++ {
		w.step(call, jobs*call/to)
		if call%stride == stride-1 {
			if _, err := os.Stdout.WriteString("."); err != nil {
				panic(err)
			}
		}
	}
}

// patiently tries again while others are in the way.
func patiently(try func() error) {
	for {
		err := try()
		if err == nil {
			return
		}
		if !errors.Is(err, fencepost.ErrBusy) {
			panic(err)
		}
	}
}

func integer(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	name, path, log := os.Args[1], os.Args[2], os.Args[3]
	seed, threads := integer(os.Args[4]), integer(os.Args[5])
	from, to, jobs := integer(os.Args[6]), integer(os.Args[7]), integer(os.Args[8])
	clock, epoch := os.Args[9], integer(os.Args[10])
	options := fencepost.Options{
		Durability:      fencepost.Durability(integer(os.Args[11])),
		KeepJournalMode: integer(os.Args[12]) == 4,
		BusyTimeout:     time.Duration(integer(os.Args[13])) * time.Millisecond,
	}
	var db *fencepost.DB
	patiently(func() (err error) {
		db, err = fencepost.Open(path, &options)
		return err
	})
	patiently(func() error { return db.InitDB() })
	var running sync.WaitGroup
	for i := 0; i < threads; i++ {
		file, err := os.OpenFile(fmt.Sprintf("%s.%d", log, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			panic(err)
		}
		w := &worker{
			db: db,
			// Some share a name, and one that is started again has that of the one before.
			owner:  fmt.Sprintf("%s.%d", name, i%2),
			log:    file,
			random: rand.New(rand.NewSource(int64(1000*seed + i))),
			clock:  clock,
			epoch:  int64(epoch),
		}
		running.Add(1)
		go func() {
			defer running.Done()
			w.work(from, to, jobs)
		}()
	}
	running.Wait()
	db.Close()
}
