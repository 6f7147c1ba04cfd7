package fencepost

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/bindings/go/internal/capi"
)

var t100 = time.Unix(100, 0)

func open(t *testing.T, options *Options) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "jobs.db"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.InitDB(); err != nil {
		t.Fatal(err)
	}
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, expected error) {
	t.Helper()
	if !errors.Is(err, expected) {
		t.Errorf("%v, not %v", err, expected)
	}
}

func TestTheStory(t *testing.T) {
	db := open(t, nil)
	must(t, db.Enqueue("report"))
	stalled, err := db.Claim("report", "A", t100, 10*time.Second)
	must(t, err)
	_, err = db.Claim("report", "B", t100.Add(10*time.Second-1), 10*time.Second)
	wants(t, err, ErrHeld)
	fence, err := db.Claim("report", "B", t100.Add(10*time.Second), 10*time.Second)
	must(t, err)
	wants(t, db.Complete("report", "A", stalled, t100.Add(11*time.Second), Result("A's")), ErrStale)
	must(t, db.Complete("report", "B", fence, t100.Add(11*time.Second), Result("B's")))
	wants(t, db.Complete("report", "A", stalled, t100.Add(11*time.Second), Result("A's")), ErrDone)

	job, err := db.State("report")
	must(t, err)
	if *job.Owner != "B" || job.Fence != 2 || *job.Result != "B's" || !job.Done || !job.Until.Equal(t100.Add(20*time.Second)) {
		t.Errorf("%+v", job)
	}
}

func TestRefusalsAreToldFromFailures(t *testing.T) {
	db := open(t, nil)
	must(t, db.Enqueue("a"))
	refusal := db.Enqueue("a")
	failure := db.Renew("a", "w", 1, t100, 0)
	wants(t, refusal, ErrExists)
	wants(t, failure, ErrInvalidArgument)
	if !IsRefusal(refusal) || !IsRefusal(fmt.Errorf("wrapped: %w", refusal)) {
		t.Error("a refusal is one, wrapped or not")
	}
	if IsRefusal(failure) || IsRefusal(ErrClosed) || IsRefusal(nil) || errors.Is(refusal, ErrHeld) {
		t.Error("nothing else is a refusal, or another one")
	}
	var details *Error
	if !errors.As(failure, &details) || details.Op != "Renew" || !strings.Contains(details.Message, "ttl") {
		t.Errorf("%+v", details)
	}
}

func TestSQLitesCodeIsPassedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 500)), 0o600))
	_, err := Open(path, nil)
	wants(t, err, ErrNotADatabase)
	var details *Error
	if !errors.As(err, &details) || details.SQLiteCode != 26 || !strings.Contains(details.Message, path) {
		t.Errorf("%+v", details)
	}
}

func TestWhatCCannotBeGivenIsRefusedBefore(t *testing.T) {
	db := open(t, nil)
	for _, bad := range []string{"a\x00b", "\x00", "\xff", "a\xc3"} {
		_, claim := db.Claim(bad, "w", t100, time.Second)
		_, owner := db.Claim("a", bad, t100, time.Second)
		_, state := db.State(bad)
		_, many := db.ClaimMany("a", []string{"w", bad}, t100, time.Second)
		_, opened := Open(bad, nil)
		for _, err := range []error{
			claim, owner, state, many, opened, db.Enqueue(bad), db.Renew(bad, "w", 1, t100, time.Second),
			db.Complete("a", "w", 1, t100, &bad), db.Release("a", bad, 1),
		} {
			wants(t, err, ErrInvalidArgument)
		}
	}
	var zero time.Time
	_, claim := db.Claim("a", "w", zero, time.Second)
	wants(t, claim, ErrInvalidArgument)
	wants(t, db.Renew("a", "w", 1, zero, time.Second), ErrInvalidArgument)
	wants(t, db.Complete("a", "w", 1, zero, nil), ErrInvalidArgument)
	_, many := db.ClaimMany("a", []string{"w"}, zero, time.Second)
	wants(t, many, ErrInvalidArgument)
}

func TestEveryOperationPassesItsTimesOn(t *testing.T) {
	db := open(t, nil)
	until := func(expected time.Time) {
		t.Helper()
		job, err := db.State("a")
		must(t, err)
		if !job.Until.Equal(expected) {
			t.Errorf("the lease runs until %v, not %v", job.Until, expected)
		}
	}
	must(t, db.Enqueue("a"))
	until(time.Unix(0, 0))
	fence, err := db.Claim("a", "w", t100, 1500*time.Millisecond)
	must(t, err)
	until(t100.Add(1500 * time.Millisecond))
	must(t, db.Renew("a", "w", fence, t100.Add(time.Second), 7*time.Second))
	until(t100.Add(8 * time.Second))
	wants(t, db.Complete("a", "w", fence, t100.Add(8*time.Second), nil), ErrExpired)
	fences, err := db.ClaimMany("a", []string{"v"}, t100.Add(8*time.Second), 3*time.Second)
	must(t, err)
	until(t100.Add(11 * time.Second))
	must(t, db.Complete("a", "v", fences[0], t100.Add(11*time.Second-time.Millisecond), nil))
	job, err := db.State("a")
	must(t, err)
	if !job.Done || job.Result != nil {
		t.Errorf("%+v", job)
	}
}

func TestTheWorkersLoopPassesItsTimesOn(t *testing.T) {
	db := open(t, nil)
	job := func(id string) *Job {
		t.Helper()
		job, err := db.State(id)
		must(t, err)
		return job
	}
	must(t, db.EnqueueAt("late", t100.Add(time.Second)))
	if late := job("late"); !late.Until.Equal(t100.Add(time.Second)) || late.Owner != nil {
		t.Errorf("%+v", late)
	}
	wants(t, db.EnqueueAt("late", t100), ErrExists)
	_, err := db.ClaimNext("w", t100, time.Second)
	wants(t, err, ErrNotFound)
	added, err := db.EnqueueMany([]string{"a", "late", "b", "c"})
	must(t, err)
	if fmt.Sprint(added) != "[true false true true]" {
		t.Error(added)
	}
	_, err = db.EnqueueMany([]string{"a", "b"})
	wants(t, err, ErrExists)
	if added, err = db.EnqueueMany(nil); err != nil || len(added) != 0 {
		t.Error(added, err)
	}

	grant, err := db.ClaimNext("w", t100, 1500*time.Millisecond)
	must(t, err)
	if (grant != Grant{"a", 1}) || !job("a").Until.Equal(t100.Add(1500*time.Millisecond)) {
		t.Error(grant, job("a"))
	}
	next, err := db.CompleteAndClaimNext("a", "w", 1, t100.Add(time.Second/2), Result("r"), 3*time.Second)
	must(t, err)
	if *next != (Grant{"b", 1}) || *job("a").Result != "r" || !job("b").Until.Equal(t100.Add(3500*time.Millisecond)) {
		t.Error(next, job("a"), job("b"))
	}
	next, err = db.CompleteAndClaimNext("a", "w", 1, t100, nil, time.Second)
	wants(t, err, ErrDone)
	if next != nil {
		t.Error(next)
	}
	must(t, db.ReleaseAt("b", "w", 1, t100.Add(time.Minute)))
	if b := job("b"); b.Owner != nil || !b.Until.Equal(t100.Add(time.Minute)) {
		t.Errorf("%+v", b)
	}
	grants, err := db.ClaimBatch("w", t100.Add(time.Second), time.Second, 10)
	must(t, err)
	if fmt.Sprint(grants) != "[{late 1} {c 1}]" {
		t.Error(grants)
	}
	next, err = db.CompleteAndClaimNext("c", "w", 1, t100.Add(time.Second), nil, time.Second)
	if next != nil || err != nil {
		t.Error(next, err)
	}
	_, err = db.ClaimBatch("w", t100, time.Second, 10)
	wants(t, err, ErrNotFound)
}

func TestALookAtWhatIsThere(t *testing.T) {
	db := open(t, nil)
	_, err := db.EnqueueMany([]string{"", "held", "b", "done"})
	must(t, err)
	must(t, db.EnqueueAt("late", t100.Add(time.Hour)))
	_, err = db.Claim("held", "w", t100, time.Minute)
	must(t, err)
	fence, err := db.Claim("done", "w", t100, time.Minute)
	must(t, err)
	must(t, db.Complete("done", "w", fence, t100, nil))
	for condition, expected := range map[Condition]string{Claimable: "[ b]", Held: "[held]", Delayed: "[late]", Done: "[done]"} {
		jobs, err := db.List(condition, t100, nil, 10)
		must(t, err)
		var ids []string
		for _, job := range jobs {
			ids = append(ids, job.ID)
		}
		if fmt.Sprint(ids) != expected {
			t.Errorf("%v: %q", condition, ids)
		}
		count, err := db.Count(condition, t100)
		must(t, err)
		if count != uint64(len(jobs)) {
			t.Errorf("%v: %d", condition, count)
		}
	}
	// The empty string is an id, and no page begins anew behind it.
	first, err := db.List(Claimable, t100, nil, 1)
	must(t, err)
	second, err := db.List(Claimable, t100, &first[0].ID, 1)
	must(t, err)
	last, err := db.List(Claimable, t100, &second[0].ID, 1)
	must(t, err)
	if first[0].ID != "" || second[0].ID != "b" || last == nil || len(last) != 0 {
		t.Error(first, second, last)
	}
	if held, err := db.List(Held, t100, nil, 1); err != nil || *held[0].Owner != "w" || !held[0].Until.Equal(t100.Add(time.Minute)) {
		t.Error(held, err)
	}
}

func TestWhatIsNoPageConditionOrTimeIsRefused(t *testing.T) {
	db := open(t, nil)
	var zero time.Time
	bad := "a\x00b"
	_, batch := db.ClaimBatch("w", t100, time.Second, 0)
	_, negative := db.ClaimBatch("w", t100, time.Second, -1)
	_, page := db.List(Held, t100, nil, -1)
	_, condition := db.List(0, t100, nil, 1)
	_, count := db.Count(6, t100)
	_, after := db.List(Held, t100, &bad, 1)
	_, many := db.EnqueueMany([]string{"a", bad})
	_, next := db.ClaimNext(bad, t100, time.Second)
	_, ttl := db.ClaimNext("w", t100, 0)
	_, now := db.ClaimNext("w", zero, time.Second)
	_, batchNow := db.ClaimBatch("w", zero, time.Second, 1)
	_, completeNow := db.CompleteAndClaimNext("a", "w", 1, zero, nil, time.Second)
	_, complete := db.CompleteAndClaimNext("a", "w", 1, t100, &bad, time.Second)
	_, countNow := db.Count(Held, zero)
	_, listNow := db.List(Held, zero, nil, 1)
	for place, err := range []error{
		batch, negative, page, condition, count, after, many, next, ttl, now, batchNow, completeNow, complete, countNow,
		listNow, db.EnqueueAt("a", zero), db.ReleaseAt("a", "w", 1, zero), db.EnqueueAt(bad, t100),
		db.ReleaseAt("a", bad, 1, t100),
	} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%d: %v", place, err)
		}
	}
}

func TestNoDBIsLikeAClosedOne(t *testing.T) {
	for _, db := range []*DB{nil, {}} {
		must(t, db.Close())
		if err := db.Enqueue("a"); err != ErrClosed {
			t.Error(err)
		}
	}
}

func TestALeaseTooShortForItsDateIsNoLease(t *testing.T) {
	db := open(t, nil)
	must(t, db.Enqueue("a"))
	_, err := db.Claim("a", "w", time.Unix(1_700_000_000, 0), 1)
	wants(t, err, ErrInvalidArgument)
	_, err = db.Claim("a", "w", time.Unix(1_700_000_000, 0), time.Microsecond)
	must(t, err)
}

func TestALibraryOfAnotherVersionIsRefused(t *testing.T) {
	must(t, checkVersion(capi.Version()))
	this := fmt.Sprintf("%d.%d.", capi.VersionMajor, capi.VersionMinor)
	must(t, checkVersion(this+"999"))
	for _, other := range []string{
		"", fmt.Sprintf("%d.%d.0", capi.VersionMajor, capi.VersionMinor+1), fmt.Sprintf("%d.%d0.0", capi.VersionMajor, capi.VersionMinor),
		fmt.Sprintf("%d.%d.0", capi.VersionMajor+1, capi.VersionMinor), "1" + this + "0",
	} {
		err := checkVersion(other)
		wants(t, err, ErrUnsupported)
		if err != nil && (!strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), this)) {
			t.Errorf("%v names not both versions", err)
		}
	}
}

func TestTimesAreSecondsBothWays(t *testing.T) {
	for _, moment1 := range []time.Time{
		time.Unix(0, 0), time.Unix(-5, 250_000_000), time.Unix(1_700_000_000, 500_000_000), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if back := moment(seconds(moment1)); !back.Equal(moment1) {
			t.Errorf("%v became %v", moment1, back)
		}
	}
	now := time.Now()
	if off := moment(seconds(now)).Sub(now); off < -time.Microsecond || off > time.Microsecond {
		t.Errorf("off by %v", off)
	}
	far, never := moment(math.Inf(1)), moment(math.Inf(-1))
	if !far.After(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) || !never.Before(time.Unix(0, 0)) || !far.After(never) {
		t.Errorf("%v %v", far, never)
	}
}

func TestOptionsReachTheLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	_, err := Open(path, &Options{OpenExisting: true})
	wants(t, err, ErrCannotOpen)
	_, err = Open(path, &Options{Durability: 7})
	wants(t, err, ErrInvalidArgument)

	db, err := Open(path, &Options{Durability: Normal, KeepJournalMode: true, AllowNetworkFilesystem: true})
	must(t, err)
	defer db.Close()
	must(t, db.InitDB())
	mode, err := exec.Command("sqlite3", path, "PRAGMA journal_mode").Output()
	must(t, err)
	if string(mode) != "delete\n" {
		t.Errorf("the journal mode became %s", mode)
	}
	reader, err := Open(path, &Options{ReadOnly: true})
	must(t, err)
	defer reader.Close()
	wants(t, reader.Enqueue("a"), ErrReadOnly)
	_, err = reader.State("a")
	wants(t, err, ErrNotFound)
	_, err = reader.Count(Claimable, t100)
	must(t, err)
	_, err = reader.List(Claimable, t100, nil, 1)
	must(t, err)

	for given, native := range map[Options]capi.Options{
		{}:                             {},
		{BusyTimeout: 2 * time.Second}: {BusyTimeoutMs: 2000},
		{Durability: Normal}:           {Durability: capi.DurabilityNormal},
		{OpenExisting: true}:           {Flags: capi.OpenExisting},
		{ReadOnly: true}:               {Flags: capi.OpenReadOnly},
		{KeepJournalMode: true}:        {Flags: capi.OpenKeepJournalMode},
		{AllowNetworkFilesystem: true}: {Flags: capi.OpenAllowNetworkFilesystem},
	} {
		if got := given.native(); got != native {
			t.Errorf("%+v reaches the library as %+v", given, got)
		}
	}
	for given, ms := range map[time.Duration]int32{0: 0, NoWait: -1, 1: 1, time.Second: 1000, math.MaxInt64: math.MaxInt32} {
		if got := (&Options{BusyTimeout: given}).busyTimeoutMs(); got != ms {
			t.Errorf("%v is %d ms, not %d", given, got, ms)
		}
	}
}

func TestABusyFileIsAFailureAndNoRefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := Open(path, &Options{BusyTimeout: NoWait})
	must(t, err)
	defer db.Close()
	must(t, db.InitDB())
	must(t, db.Enqueue("a"))

	unlock := lock(t, path)
	_, err = db.Claim("a", "w", t100, time.Second)
	wants(t, err, ErrBusy)
	if IsRefusal(err) {
		t.Error("BUSY is no refusal")
	}
	unlock()
	_, err = db.Claim("a", "w", t100, time.Second)
	must(t, err)
}

func TestCloseWaitsForCallsAndEndsTheRest(t *testing.T) {
	db := open(t, nil)
	must(t, db.Enqueue("a"))
	var calls sync.WaitGroup
	closing := make(chan struct{})
	for worker := 0; worker < 8; worker++ {
		calls.Add(1)
		go func() {
			defer calls.Done()
			for calls := 0; ; calls++ {
				if calls == 3 {
					closing <- struct{}{}
				}
				if _, err := db.State("a"); errors.Is(err, ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	for worker := 0; worker < 8; worker++ {
		<-closing
	}
	must(t, db.Close())
	must(t, db.Close())
	calls.Wait()
	if err := db.InitDB(); err != ErrClosed {
		t.Errorf("%v after Close", err)
	}
}

func TestManyGoroutinesOnOneHandle(t *testing.T) {
	db := open(t, &Options{Durability: Normal, BusyTimeout: time.Minute})
	const workers, jobs = 32, 40
	for job := 0; job < jobs; job++ {
		must(t, db.Enqueue(fmt.Sprint(job)))
	}
	var mutex sync.Mutex
	grants := map[string]string{}
	completed := map[string]int{}
	var done sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		owner := fmt.Sprint("w", worker)
		done.Add(1)
		go func() {
			defer done.Done()
			for job := 0; job < jobs; job++ {
				id := fmt.Sprint(job)
				fence, err := db.Claim(id, owner, t100, time.Second)
				if IsRefusal(err) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				key := fmt.Sprint(id, "/", fence)
				if other, taken := grants[key]; taken {
					t.Errorf("%s was granted to %s and %s", key, other, owner)
				}
				grants[key] = owner
				mutex.Unlock()
				if fence < 3 {
					if err := db.Release(id, owner, fence); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := db.Complete(id, owner, fence, t100, &owner); err != nil {
					t.Error(err)
				}
				mutex.Lock()
				completed[id]++
				mutex.Unlock()
			}
		}()
	}
	done.Wait()
	for id, times := range completed {
		job, err := db.State(id)
		must(t, err)
		if times != 1 || !job.Done || *job.Result != grants[fmt.Sprint(id, "/", job.Fence)] {
			t.Errorf("%s was completed %d times: %+v", id, times, job)
		}
	}
	if len(completed) == 0 {
		t.Error("nothing was completed")
	}
}

// The collector runs all the time while every call is made.
func TestUnderAnEagerCollector(t *testing.T) {
	stop := make(chan struct{})
	var collecting sync.WaitGroup
	collecting.Add(1)
	go func() {
		defer collecting.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer collecting.Wait()
	defer close(stop)

	db := open(t, &Options{Durability: Normal})
	for round := 0; round < 50; round++ {
		id := fmt.Sprint("job ", round)
		must(t, db.Enqueue(id))
		fences, err := db.ClaimMany(id, []string{"a", "b", "c"}, t100, time.Second)
		must(t, err)
		for index, fence := range fences {
			if fence != 0 {
				owner := []string{"a", "b", "c"}[index]
				must(t, db.Renew(id, owner, fence, t100, time.Minute))
				must(t, db.Complete(id, owner, fence, t100, Result(strings.Repeat("x", 10_000))))
			}
		}
		job, err := db.State(id)
		must(t, err)
		if job.ID != id || len(*job.Result) != 10_000 {
			t.Errorf("%+v", job)
		}
	}
}

// Nobody holds the file any more when its write-ahead log is gone.
func TestTheCollectorClosesWhatWasLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	func() {
		db, err := Open(path, nil)
		must(t, err)
		must(t, db.InitDB())
	}()
	for {
		// The last close of a file leaves an empty log.
		if log, err := os.Stat(path + "-wal"); err == nil && log.Size() == 0 {
			return
		}
		runtime.GC()
	}
}

// collect returns when every finalizer of what was let go before has run: they run one after the other, and in the
// second round none of the first is left.
func collect() {
	for round := 0; round < 2; round++ {
		ran := make(chan struct{})
		runtime.SetFinalizer(&[64]byte{}, func(*[64]byte) { close(ran) })
		for waiting := true; waiting; {
			runtime.GC()
			select {
			case <-ran:
				waiting = false
			default:
				runtime.Gosched()
			}
		}
	}
}

func TestACopyKeepsTheFileOpen(t *testing.T) {
	var copied DB
	func() {
		db, err := Open(filepath.Join(t.TempDir(), "jobs.db"), nil)
		must(t, err)
		must(t, db.InitDB())
		copied = *db
	}()
	collect()
	must(t, copied.Enqueue("a"))
	other := copied
	must(t, other.Close())
	if err := copied.Enqueue("b"); err != ErrClosed {
		t.Errorf("%v after a copy was closed", err)
	}
}

// Nobody has the DB any more but the call itself.
func TestTheCollectorClosesNothingUnderACall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	var unlock func()
	answer := make(chan error)
	func() {
		db, err := Open(path, &Options{BusyTimeout: time.Hour})
		must(t, err)
		must(t, db.InitDB())
		unlock = lock(t, path)
		go func(db DB) { answer <- db.Enqueue("a") }(*db)
		for len(db.open.inside[writing]) == 0 {
			runtime.Gosched()
		}
	}()
	collect()
	unlock()
	must(t, <-answer)
}

func TestEveryConditionHasItsName(t *testing.T) {
	for condition, name := range map[Condition]string{
		Claimable: "claimable", Held: "held", Delayed: "delayed", Done: "done", 0: "Condition(0)", -7: "Condition(-7)",
	} {
		if fmt.Sprint(condition) != name {
			t.Errorf("%d is %v, not %s", int32(condition), condition, name)
		}
	}
}

func TestEveryStatusHasItsName(t *testing.T) {
	for status, name := range map[Status]string{
		ErrExists: "EXISTS", ErrNotFound: "NOT_FOUND", ErrHeld: "HELD", ErrDone: "DONE", ErrStale: "STALE",
		ErrExpired: "EXPIRED", ErrInvalidArgument: "INVALID_ARGUMENT", ErrBusy: "BUSY", ErrCannotOpen: "CANNOT_OPEN",
		ErrNotADatabase: "NOT_A_DATABASE", ErrSchema: "SCHEMA", ErrCorrupt: "CORRUPT", ErrIO: "IO", ErrFull: "FULL",
		ErrReadOnly: "READ_ONLY", ErrOutOfMemory: "OUT_OF_MEMORY", ErrFenceExhausted: "FENCE_EXHAUSTED",
		ErrUnsupported: "UNSUPPORTED", ErrInternal: "INTERNAL", 99: "UNKNOWN_STATUS",
	} {
		if status.Error() != "FENCEPOST_"+name {
			t.Errorf("%d is %v, not %s", status, status, name)
		}
	}
}
