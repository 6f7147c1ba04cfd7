package fencepost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// lock makes another program take the file's write lock, and gives what makes it give the lock back.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	holder := exec.Command("sqlite3", path)
	input, err := holder.StdinPipe()
	must(t, err)
	output, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	fmt.Fprintln(input, "BEGIN IMMEDIATE; SELECT 'locked';")
	_, err = bufio.NewReader(output).ReadString('\n')
	must(t, err)
	var once sync.Once
	unlock = func() {
		once.Do(func() {
			input.Close()
			holder.Wait()
		})
	}
	t.Cleanup(unlock)
	return unlock
}

// busy gives a DB with a job "a", on a file that another program has locked.
func busy(t *testing.T) (db *DB, unlock func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := Open(path, &Options{BusyTimeout: time.Hour})
	must(t, err)
	must(t, db.InitDB())
	must(t, db.Enqueue("a"))
	unlock = lock(t, path)
	// The last to run: Close waits for the calls, and they for the lock.
	t.Cleanup(func() { unlock(); db.Close() })
	return db, unlock
}

// fill makes as many claims of "a" as can be inside, and gives where their answers come.
func fill(ctx context.Context, db *DB) (answers chan error) {
	answers = make(chan error, maxCalls)
	for call := 0; call < maxCalls; call++ {
		owner := fmt.Sprint("w", call)
		go func() {
			_, err := db.ClaimContext(ctx, "a", owner, t100, time.Second)
			answers <- err
		}()
	}
	for len(db.open.inside[writing]) < maxCalls {
		runtime.Gosched()
	}
	return answers
}

// wantsOneGrant sees that every call that was inside was carried out.
func wantsOneGrant(t *testing.T, answers chan error) {
	t.Helper()
	granted := 0
	for call := 0; call < maxCalls; call++ {
		if err := <-answers; err == nil {
			granted++
		} else {
			wants(t, err, ErrHeld)
		}
	}
	if granted != 1 {
		t.Errorf("%d grants", granted)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(all)
}

// The Go runtime never ends a thread that it has made, so what is counted at the end is the most there were.
func TestGoroutinesThatWaitHoldNoThreads(t *testing.T) {
	db, unlock := busy(t)
	before := threads(t)
	ctx, cancel := context.WithCancel(context.Background())
	inside := fill(ctx, db)
	waiting := make(chan error)
	var started sync.WaitGroup
	started.Add(manyGoroutines)
	for call := 0; call < manyGoroutines; call++ {
		go func() {
			started.Done()
			_, err := db.ClaimContext(ctx, "a", "late", t100, time.Second)
			waiting <- err
		}()
	}
	started.Wait()
	cancel()
	for call := 0; call < manyGoroutines; call++ {
		wants(t, <-waiting, context.Canceled)
	}
	// The runtime's own: one for each processor, and a few.
	if most := before + maxCalls + runtime.GOMAXPROCS(0) + 10; threads(t) > most {
		t.Errorf("%d threads, %d before", threads(t), before)
	}
	// Those inside are answered all the same.
	unlock()
	wantsOneGrant(t, inside)
}

func TestAContextThatIsOverStopsTheCallBeforeItBegins(t *testing.T) {
	db := open(t, nil)
	must(t, db.Enqueue("a"))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), t100)
	defer cancel()
	for ctx, expected := range map[context.Context]error{canceled: context.Canceled, late: context.DeadlineExceeded} {
		_, state := db.StateContext(ctx, "a")
		_, claim := db.ClaimContext(ctx, "a", "w", t100, time.Second)
		_, next := db.ClaimNextContext(ctx, "w", t100, time.Second)
		_, batch := db.ClaimBatchContext(ctx, "w", t100, time.Second, 1)
		_, many := db.ClaimManyContext(ctx, "a", []string{"w"}, t100, time.Second)
		_, added := db.EnqueueManyContext(ctx, []string{"b"})
		_, complete := db.CompleteAndClaimNextContext(ctx, "a", "w", 1, t100, nil, time.Second)
		_, count := db.CountContext(ctx, Claimable, t100)
		_, list := db.ListContext(ctx, Claimable, t100, nil, 1)
		for place, err := range []error{
			state, claim, next, batch, many, added, complete, count, list, db.InitDBContext(ctx),
			db.EnqueueContext(ctx, "b"), db.EnqueueAtContext(ctx, "b", t100), db.RenewContext(ctx, "a", "w", 1, t100, time.Second),
			db.CompleteContext(ctx, "a", "w", 1, t100, nil), db.ReleaseContext(ctx, "a", "w", 1),
			db.ReleaseAtContext(ctx, "a", "w", 1, t100),
		} {
			if !errors.Is(err, expected) || IsRefusal(err) {
				t.Errorf("%d: %v", place, err)
			}
		}
	}
	if job, err := db.State("a"); err != nil || job.Fence != 0 {
		t.Errorf("%+v, %v", job, err)
	}
	_, err := db.State("b")
	wants(t, err, ErrNotFound)
}

// Two ends at once: whichever the select sees first, nothing is done.
func TestAContextThatIsOverWinsOverAFreePlace(t *testing.T) {
	db := open(t, &Options{Durability: Normal})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for round := 0; round < 100; round++ {
		wants(t, db.EnqueueContext(ctx, "a"), context.Canceled)
	}
	must(t, db.Close())
	for round := 0; round < 100; round++ {
		if err := db.EnqueueContext(ctx, "a"); err != ErrClosed {
			t.Fatal(err)
		}
	}
}

func TestReadersWaitForNoWriters(t *testing.T) {
	db, unlock := busy(t)
	inside := fill(context.Background(), db)
	if job, err := db.State("a"); err != nil || job.Fence != 0 {
		t.Errorf("%+v, %v", job, err)
	}
	unlock()
	wantsOneGrant(t, inside)
}

func TestCloseEndsThoseThatWaitAndLetsTheOthersEnd(t *testing.T) {
	db, unlock := busy(t)
	inside := fill(context.Background(), db)
	waiting := make(chan error)
	for call := 0; call < maxCalls; call++ {
		go func() { waiting <- db.Release("a", "w", 1) }()
	}
	closed := make(chan error)
	for call := 0; call < 2; call++ {
		go func() { closed <- db.Close() }()
	}
	for call := 0; call < maxCalls; call++ {
		if err := <-waiting; err != ErrClosed {
			t.Error(err)
		}
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	unlock()
	wantsOneGrant(t, inside)
	must(t, <-closed)
	must(t, <-closed)
}
