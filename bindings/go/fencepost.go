package fencepost

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/bindings/go/internal/capi"
)

// Durability is what a nil error promises about a power cut.
type Durability int

const (
	// Full: every change is synced to the disk before its call returns. The default.
	Full Durability = capi.DurabilityFull
	// Normal: a power cut (not a crash of the process) may undo the newest changes, and so grant a fence twice.
	// For leases whose fences are checked nowhere outside this file.
	Normal Durability = capi.DurabilityNormal
)

// NoWait is the BusyTimeout that does not wait at all.
const NoWait time.Duration = -1

// MaxText is the longest id, owner, result or path, in bytes.
const MaxText = capi.MaxText

// Options say how to open a file. The zero value is the default in every field.
type Options struct {
	// BusyTimeout is how long a call waits for the file's locks once it has its place in the library (a context
	// ends the wait for that): 0 is 5 seconds, less than 0 (NoWait) no wait.
	// It is rounded up to milliseconds, and cut at the largest int32 of them (24 days).
	BusyTimeout time.Duration
	// Durability is what success promises about a power cut.
	Durability Durability
	// OpenExisting: fail with ErrCannotOpen when the file is missing, instead of making it.
	OpenExisting bool
	// ReadOnly: for State, Count and List; everything that writes returns ErrReadOnly. The file must exist.
	ReadOnly bool
	// KeepJournalMode: leave the file's journal mode as it is instead of switching it to WAL.
	KeepJournalMode bool
	// AllowNetworkFilesystem: open the file although its filesystem is a network's.
	AllowNetworkFilesystem bool
}

// native gives the options as the library takes them.
func (o *Options) native() capi.Options {
	return capi.Options{
		BusyTimeoutMs: o.busyTimeoutMs(),
		Durability:    int32(o.Durability),
		Flags:         o.flags(),
	}
}

func (o *Options) flags() (flags uint32) {
	for _, option := range []struct {
		set  bool
		flag uint32
	}{
		{o.OpenExisting, capi.OpenExisting},
		{o.ReadOnly, capi.OpenReadOnly},
		{o.KeepJournalMode, capi.OpenKeepJournalMode},
		{o.AllowNetworkFilesystem, capi.OpenAllowNetworkFilesystem},
	} {
		if option.set {
			flags |= option.flag
		}
	}
	return flags
}

func (o *Options) busyTimeoutMs() int32 {
	if o.BusyTimeout < 0 {
		return -1
	}
	ms := o.BusyTimeout / time.Millisecond
	if o.BusyTimeout%time.Millisecond > 0 {
		ms++
	}
	if ms > math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(ms)
}

// A Job is one row of the table jobs.
type Job struct {
	ID string
	// Owner is who holds or last held the job; nil when nobody has since it was made or released.
	Owner *string
	// Until is when the lease is over (at now == Until it is), in UTC, rounded to nanoseconds; the Unix epoch when
	// nobody holds the job. Rows of other programs that lie beyond 2^62 seconds, infinities included, are cut there.
	Until time.Time
	// Fence is the newest fence that was granted, 0 when none was.
	Fence int64
	// Result is nil when there is none.
	Result *string
	// Done tells whether the job is complete.
	Done bool
}

// A DB is an open file. Any number of goroutines may use it at once. A copy is the same open file.
type DB struct{ open *handle }

// A handle is what the copies of a DB share. The collector closes it when all of them are gone.
type handle struct {
	c      *capi.DB
	inside [2]chan struct{} // writing, reading: an element for each call that is inside C
	closed chan struct{}    // closed by Close
	once   sync.Once
}

const (
	writing = iota
	// Reads have places of their own: they need not wait for a lock that all writers wait for.
	reading
)

// maxCalls is how many calls of a DB are inside C at once, writing and reading each. Each holds a thread there, and the Go
// runtime ends a process that has 10,000, so the others wait as goroutines. Those inside share a transaction and its sync:
// 8 places give 512 goroutines half the calls a second that 32 do, and more than 64 give them no more.
const maxCalls = 64

// Open opens the database file at path, making an empty one when it is missing. Symbolic links are followed; the
// empty path, ":memory:" and "file:" URIs are ErrUnsupported. A nil options is the default.
func Open(path string, options *Options) (*DB, error) {
	const op = "Open"
	if err := checkVersion(capi.Version()); err != nil {
		return nil, err
	}
	if err := checkTexts(op, "path", path); err != nil {
		return nil, err
	}
	if options == nil {
		options = &Options{}
	}
	if options.Durability != Full && options.Durability != Normal {
		return nil, invalid(op, fmt.Sprintf("Durability is %d; it must be Full or Normal", options.Durability))
	}
	c, given := capi.Open(path, options.native())
	if err := problem(op, given); err != nil {
		return nil, err
	}
	h := &handle{c: c, closed: make(chan struct{})}
	for kind := range h.inside {
		h.inside[kind] = make(chan struct{}, maxCalls)
	}
	// A backstop only: when it runs, if ever, is the collector's choice.
	runtime.SetFinalizer(h, (*handle).close)
	return &DB{h}, nil
}

// checkVersion compares the loaded library with the header that this package was compiled with: before 1.0 another
// minor version may be another ABI.
func checkVersion(loaded string) error {
	expected := fmt.Sprintf("%d.%d.", capi.VersionMajor, capi.VersionMinor)
	if !strings.HasPrefix(loaded, expected) {
		return &Error{Op: "Open", Status: ErrUnsupported, Message: fmt.Sprintf(
			"libfencepost.so.0 is version %s, and this package was compiled for %sx; install that one, or compile anew",
			loaded, expected)}
	}
	return nil
}

// Close waits for the calls that are running and closes the file. Leases stay as they are. Calls after it, and those that
// wait for their turn, return ErrClosed; another Close does nothing more. The error is always nil.
func (db *DB) Close() error {
	if db != nil && db.open != nil {
		db.open.close()
	}
	return nil
}

func (h *handle) close() {
	h.once.Do(func() {
		runtime.SetFinalizer(h, nil)
		close(h.closed)
		for _, inside := range h.inside {
			for place := 0; place < cap(inside); place++ {
				inside <- struct{}{}
			}
		}
		h.c.Close()
	})
}

// call runs f with the handle, which stays open meanwhile. Once f runs, its answer is what is returned, whatever becomes
// of the context: nothing that was granted is lost.
func (db *DB) call(ctx context.Context, op string, kind int, f func(c *capi.DB) capi.Answer) error {
	if db == nil || db.open == nil {
		return ErrClosed
	}
	h := db.open
	select {
	case h.inside[kind] <- struct{}{}:
		// This also keeps the collector from closing the handle while f runs.
		defer func() { <-h.inside[kind] }()
	case <-ctx.Done():
	case <-h.closed:
	}
	// A select takes any case that is ready, so the two that speak against the call are looked at again.
	select {
	case <-h.closed:
		return ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fencepost: %s: %w before the call began; nothing was done", op, err)
	}
	return problem(op, f(h.c))
}

// InitDB makes the table jobs where it is missing, any number of times.
func (db *DB) InitDB() error {
	return db.InitDBContext(context.Background())
}

// InitDBContext is InitDB with a context.
func (db *DB) InitDBContext(ctx context.Context) error {
	return db.call(ctx, "InitDB", writing, (*capi.DB).InitDB)
}

// Enqueue adds a job: nobody's, claimable at once, with fence 0. Refused with ErrExists.
func (db *DB) Enqueue(id string) error {
	return db.EnqueueContext(context.Background(), id)
}

// EnqueueContext is Enqueue with a context.
func (db *DB) EnqueueContext(ctx context.Context, id string) error {
	const op = "Enqueue"
	if err := checkTexts(op, "id", id); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.Enqueue(id) })
}

// State reads a job as it is stored now, never from a cache. Refused with ErrNotFound.
func (db *DB) State(id string) (*Job, error) {
	return db.StateContext(context.Background(), id)
}

// StateContext is State with a context.
func (db *DB) StateContext(ctx context.Context, id string) (*Job, error) {
	job, err := db.state(ctx, id)
	if err != nil {
		return nil, err
	}
	given := jobOf(job)
	return &given, nil
}

func jobOf(job *capi.Job) Job {
	return Job{ID: job.ID, Owner: job.Owner, Until: moment(job.Until), Fence: job.Fence, Result: job.Result, Done: job.Done}
}

func (db *DB) state(ctx context.Context, id string) (job *capi.Job, err error) {
	const op = "State"
	if err := checkTexts(op, "id", id); err != nil {
		return nil, err
	}
	err = db.call(ctx, op, reading, func(c *capi.DB) (given capi.Answer) {
		job, given = c.State(id)
		return given
	})
	return job, err
}

// Claim takes the job for owner until now+ttl, when it is not complete and no lease on it is running, and returns
// the new fence: one more than any before it, so above 0. Refused with ErrNotFound, ErrDone, ErrHeld.
//
// ttl must be above 0 and large enough to tell now+ttl from now (a microsecond is, at present dates), and now must not
// be the zero Time; anything else is ErrInvalidArgument.
func (db *DB) Claim(id, owner string, now time.Time, ttl time.Duration) (fence int64, err error) {
	return db.ClaimContext(context.Background(), id, owner, now, ttl)
}

// ClaimContext is Claim with a context.
func (db *DB) ClaimContext(ctx context.Context, id, owner string, now time.Time, ttl time.Duration) (fence int64, err error) {
	const op = "Claim"
	if err := checkNow(op, now); err != nil {
		return 0, err
	}
	return db.claim(ctx, id, owner, seconds(now), ttl.Seconds())
}

func (db *DB) claim(ctx context.Context, id, owner string, now, ttl float64) (fence int64, err error) {
	const op = "Claim"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return 0, err
	}
	err = db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		fence, given = c.Claim(id, owner, now, ttl)
		return given
	})
	return fence, err
}

// Renew makes the lease run until now+ttl, when owner and fence hold the job and the lease is not over. Refused with
// ErrNotFound, ErrDone, ErrStale, ErrExpired.
func (db *DB) Renew(id, owner string, fence int64, now time.Time, ttl time.Duration) error {
	return db.RenewContext(context.Background(), id, owner, fence, now, ttl)
}

// RenewContext is Renew with a context.
func (db *DB) RenewContext(ctx context.Context, id, owner string, fence int64, now time.Time, ttl time.Duration) error {
	if err := checkNow("Renew", now); err != nil {
		return err
	}
	return db.renew(ctx, id, owner, fence, seconds(now), ttl.Seconds())
}

func (db *DB) renew(ctx context.Context, id, owner string, fence int64, now, ttl float64) error {
	const op = "Renew"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.Renew(id, owner, fence, now, ttl) })
}

// Complete stores the result and completes the job, when owner and fence hold it and the lease is not over.
// A nil result is none, which is not the empty string, as State tells them apart; see [Result]. Refused with
// ErrNotFound, ErrDone, ErrStale, ErrExpired.
//
// ErrDone does not say whose completion it was, and one that is repeated gets it as well. A worker that does not know
// whether its own was stored, because it ended or got ErrIO before the answer, asks State: the job is Done, and Owner and
// Fence are the worker's own, exactly when it was. A fence is granted once, so the fence must be compared too.
func (db *DB) Complete(id, owner string, fence int64, now time.Time, result *string) error {
	return db.CompleteContext(context.Background(), id, owner, fence, now, result)
}

// CompleteContext is Complete with a context.
func (db *DB) CompleteContext(ctx context.Context, id, owner string, fence int64, now time.Time, result *string) error {
	if err := checkNow("Complete", now); err != nil {
		return err
	}
	return db.complete(ctx, id, owner, fence, seconds(now), result)
}

func (db *DB) complete(ctx context.Context, id, owner string, fence int64, now float64, result *string) error {
	const op = "Complete"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return err
	}
	if result != nil {
		if err := checkTexts(op, "result", *result); err != nil {
			return err
		}
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.Complete(id, owner, fence, now, result) })
}

// Result gives a pointer to a result, for [DB.Complete].
func Result(text string) *string { return &text }

// Release gives the job back, when owner and fence hold it, its lease over or not: anyone can claim it at once. The
// fence stays, so the next one is higher. Refused with ErrNotFound, ErrDone, ErrStale.
func (db *DB) Release(id, owner string, fence int64) error {
	return db.ReleaseContext(context.Background(), id, owner, fence)
}

// ReleaseContext is Release with a context.
func (db *DB) ReleaseContext(ctx context.Context, id, owner string, fence int64) error {
	const op = "Release"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.Release(id, owner, fence) })
}

// A Grant is a job that was granted to its claimer: its id, and the fence that Renew, Complete and Release ask for.
type Grant struct {
	ID    string
	Fence int64
}

// A Condition is what can be said of a row at one moment; each row is in exactly one.
type Condition int32

const (
	// Claimable: anyone can claim the job.
	Claimable Condition = capi.ConditionClaimable
	// Held: a lease on the job is running.
	Held Condition = capi.ConditionHeld
	// Delayed: nobody holds the job, and it is not to be claimed: not yet, or never again when its fence is the largest
	// there is.
	Delayed Condition = capi.ConditionDelayed
	// Done: the job is complete.
	Done Condition = capi.ConditionDone
	// Broken: no job, but a row in which another program has stored what cannot be read as one.
	Broken Condition = capi.ConditionBroken
)

// String gives the condition's name, such as "held".
func (c Condition) String() string {
	switch c {
	case Claimable:
		return "claimable"
	case Held:
		return "held"
	case Delayed:
		return "delayed"
	case Done:
		return "done"
	case Broken:
		return "broken"
	}
	return fmt.Sprintf("Condition(%d)", int32(c))
}

// EnqueueAt adds a job as Enqueue does, not to be claimed before a time. Refused with ErrExists.
func (db *DB) EnqueueAt(id string, notBefore time.Time) error {
	return db.EnqueueAtContext(context.Background(), id, notBefore)
}

// EnqueueAtContext is EnqueueAt with a context.
func (db *DB) EnqueueAtContext(ctx context.Context, id string, notBefore time.Time) error {
	if err := checkNotBefore("EnqueueAt", notBefore); err != nil {
		return err
	}
	return db.enqueueAt(ctx, id, seconds(notBefore))
}

func (db *DB) enqueueAt(ctx context.Context, id string, notBefore float64) error {
	const op = "EnqueueAt"
	if err := checkTexts(op, "id", id); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.EnqueueAt(id, notBefore) })
}

// EnqueueMany adds many jobs at once: all that are missing, or none in case of an error other than ErrExists. It
// returns for each id, in their order, whether it was added. Refused with ErrExists when there are ids and all exist.
func (db *DB) EnqueueMany(ids []string) (added []bool, err error) {
	return db.EnqueueManyContext(context.Background(), ids)
}

// EnqueueManyContext is EnqueueMany with a context.
func (db *DB) EnqueueManyContext(ctx context.Context, ids []string) (added []bool, err error) {
	const op = "EnqueueMany"
	if err := checkAll(op, "ids", ids); err != nil {
		return nil, err
	}
	err = db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		added, given = c.EnqueueMany(ids)
		return given
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// ReleaseAt gives the job back as Release does, not to be claimed before a time: to try again later. Refused with
// ErrNotFound, ErrDone, ErrStale.
func (db *DB) ReleaseAt(id, owner string, fence int64, notBefore time.Time) error {
	return db.ReleaseAtContext(context.Background(), id, owner, fence, notBefore)
}

// ReleaseAtContext is ReleaseAt with a context.
func (db *DB) ReleaseAtContext(ctx context.Context, id, owner string, fence int64, notBefore time.Time) error {
	if err := checkNotBefore("ReleaseAt", notBefore); err != nil {
		return err
	}
	return db.releaseAt(ctx, id, owner, fence, seconds(notBefore))
}

func (db *DB) releaseAt(ctx context.Context, id, owner string, fence int64, notBefore float64) error {
	const op = "ReleaseAt"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.ReleaseAt(id, owner, fence, notBefore) })
}

// ClaimNext takes the claimable job that comes next: leases that ran out and delays that are over first, those first
// that are over the longest; then the jobs that wait, in the order in which they were added or released. Refused with
// ErrNotFound when nothing is claimable.
func (db *DB) ClaimNext(owner string, now time.Time, ttl time.Duration) (Grant, error) {
	return db.ClaimNextContext(context.Background(), owner, now, ttl)
}

// ClaimNextContext is ClaimNext with a context.
func (db *DB) ClaimNextContext(ctx context.Context, owner string, now time.Time, ttl time.Duration) (Grant, error) {
	if err := checkNow("ClaimNext", now); err != nil {
		return Grant{}, err
	}
	return db.claimNext(ctx, owner, seconds(now), ttl.Seconds())
}

func (db *DB) claimNext(ctx context.Context, owner string, now, ttl float64) (Grant, error) {
	const op = "ClaimNext"
	if err := checkTexts(op, "owner", owner); err != nil {
		return Grant{}, err
	}
	var grant *capi.Grant
	err := db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		grant, given = c.ClaimNext(owner, now, ttl)
		return given
	})
	if err != nil {
		return Grant{}, err
	}
	return Grant(*grant), nil
}

// ClaimBatch takes up to max claimable jobs at once, those that come next, as ClaimNext has it. Refused with
// ErrNotFound when nothing is claimable. max must be at least 1.
func (db *DB) ClaimBatch(owner string, now time.Time, ttl time.Duration, max int) ([]Grant, error) {
	return db.ClaimBatchContext(context.Background(), owner, now, ttl, max)
}

// ClaimBatchContext is ClaimBatch with a context.
func (db *DB) ClaimBatchContext(ctx context.Context, owner string, now time.Time, ttl time.Duration, max int) ([]Grant, error) {
	if err := checkNow("ClaimBatch", now); err != nil {
		return nil, err
	}
	return db.claimBatch(ctx, owner, seconds(now), ttl.Seconds(), max)
}

func (db *DB) claimBatch(ctx context.Context, owner string, now, ttl float64, max int) ([]Grant, error) {
	const op = "ClaimBatch"
	if err := checkTexts(op, "owner", owner); err != nil {
		return nil, err
	}
	var given []capi.Grant
	err := db.call(ctx, op, writing, func(c *capi.DB) (answer capi.Answer) {
		given, answer = c.ClaimBatch(owner, now, ttl, checkMax(max))
		return answer
	})
	if err != nil {
		return nil, err
	}
	grants := make([]Grant, len(given))
	for index, grant := range given {
		grants[index] = Grant(grant)
	}
	return grants, nil
}

// CompleteAndClaimNext completes a job as Complete does and takes the next one as ClaimNext does, with one sync to the
// disk instead of two. The grant is nil when the job is complete and nothing is claimable. Refused as Complete is, and
// then nothing is claimed.
func (db *DB) CompleteAndClaimNext(id, owner string, fence int64, now time.Time, result *string, ttl time.Duration) (*Grant, error) {
	return db.CompleteAndClaimNextContext(context.Background(), id, owner, fence, now, result, ttl)
}

// CompleteAndClaimNextContext is CompleteAndClaimNext with a context.
func (db *DB) CompleteAndClaimNextContext(ctx context.Context, id, owner string, fence int64, now time.Time, result *string, ttl time.Duration) (*Grant, error) {
	if err := checkNow("CompleteAndClaimNext", now); err != nil {
		return nil, err
	}
	return db.completeAndClaimNext(ctx, id, owner, fence, seconds(now), result, ttl.Seconds())
}

func (db *DB) completeAndClaimNext(ctx context.Context, id, owner string, fence int64, now float64, result *string, ttl float64) (*Grant, error) {
	const op = "CompleteAndClaimNext"
	if err := checkTexts(op, "id", id, "owner", owner); err != nil {
		return nil, err
	}
	if result != nil {
		if err := checkTexts(op, "result", *result); err != nil {
			return nil, err
		}
	}
	var next *capi.Grant
	err := db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		next, given = c.CompleteAndClaimNext(id, owner, fence, now, result, ttl)
		return given
	})
	return (*Grant)(next), err
}

// ForceRelease ends the lease or delay that a job has, whoever holds it, and returns its fence, which was raised and is
// granted to nobody: whoever checks fences outside of the file can be told to refuse those below it. The one that held
// the job gets ErrStale. For operators, and for leases that were granted by a wrong clock. Refused with ErrNotFound,
// ErrDone.
func (db *DB) ForceRelease(id string) (fence int64, err error) {
	return db.ForceReleaseContext(context.Background(), id)
}

// ForceReleaseContext is ForceRelease with a context.
func (db *DB) ForceReleaseContext(ctx context.Context, id string) (fence int64, err error) {
	const op = "ForceRelease"
	if err := checkTexts(op, "id", id); err != nil {
		return 0, err
	}
	err = db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		fence, given = c.ForceRelease(id)
		return given
	})
	return fence, err
}

// Requeue puts a complete job back into the line, to be done again: nobody's, claimable at once, without its result.
// The fence stays, so the next one is higher. For operators. Refused with ErrNotFound, and with ErrExists when the job
// is not complete.
func (db *DB) Requeue(id string) error {
	return db.RequeueContext(context.Background(), id)
}

// RequeueContext is Requeue with a context.
func (db *DB) RequeueContext(ctx context.Context, id string) error {
	const op = "Requeue"
	if err := checkTexts(op, "id", id); err != nil {
		return err
	}
	return db.call(ctx, op, writing, func(c *capi.DB) capi.Answer { return c.Requeue(id) })
}

// Purge removes up to max complete jobs whose Until is not after before, all of them for the zero Time, and returns how
// many. (When a job was completed is not stored, but it was before its Until.) Their ids may be enqueued again: every
// fence from then on is above theirs. max must be at least 1; the file is locked meanwhile, so remove many in several
// calls.
func (db *DB) Purge(before time.Time, max int) (int, error) {
	return db.PurgeContext(context.Background(), before, max)
}

// PurgeContext is Purge with a context.
func (db *DB) PurgeContext(ctx context.Context, before time.Time, max int) (int, error) {
	if before.IsZero() {
		return db.purge(ctx, math.Inf(1), max)
	}
	return db.purge(ctx, seconds(before), max)
}

func (db *DB) purge(ctx context.Context, before float64, max int) (int, error) {
	var purged uint64
	err := db.call(ctx, "Purge", writing, func(c *capi.DB) (given capi.Answer) {
		purged, given = c.Purge(before, checkMax(max))
		return given
	})
	return int(purged), err
}

// RaiseFloor sees to it that every fence that is granted in this file from now on is above to, and ends the leases under
// fences up to it. For a backup that was restored, with the highest fence that was seen before. to must be at least 0
// and below math.MaxInt64.
func (db *DB) RaiseFloor(to int64) error {
	return db.RaiseFloorContext(context.Background(), to)
}

// RaiseFloorContext is RaiseFloor with a context.
func (db *DB) RaiseFloorContext(ctx context.Context, to int64) error {
	return db.call(ctx, "RaiseFloor", writing, func(c *capi.DB) capi.Answer { return c.RaiseFloor(to) })
}

// Count says how many jobs are in a condition. Counting Done or Broken reads the whole table.
func (db *DB) Count(condition Condition, now time.Time) (uint64, error) {
	return db.CountContext(context.Background(), condition, now)
}

// CountContext is Count with a context.
func (db *DB) CountContext(ctx context.Context, condition Condition, now time.Time) (uint64, error) {
	if err := checkNow("Count", now); err != nil {
		return 0, err
	}
	return db.count(ctx, condition, seconds(now))
}

func (db *DB) count(ctx context.Context, condition Condition, now float64) (count uint64, err error) {
	err = db.call(ctx, "Count", reading, func(c *capi.DB) (given capi.Answer) {
		count, given = c.Count(int32(condition), now)
		return given
	})
	return count, err
}

// List returns up to max jobs in a condition, in the order of their ids' bytes, a page at a time: after is nil for the
// first page, then points to the last id of the page before (the empty string is an id too). A page with fewer than max
// jobs is the last one. max must be at least 1.
//
// Of what is Broken, ID is not the row's id but a condition in SQL that finds the row, such as "id = 'a'", and nothing
// else is told.
func (db *DB) List(condition Condition, now time.Time, after *string, max int) ([]Job, error) {
	return db.ListContext(context.Background(), condition, now, after, max)
}

// ListContext is List with a context.
func (db *DB) ListContext(ctx context.Context, condition Condition, now time.Time, after *string, max int) ([]Job, error) {
	if err := checkNow("List", now); err != nil {
		return nil, err
	}
	return db.list(ctx, condition, seconds(now), after, max)
}

func (db *DB) list(ctx context.Context, condition Condition, now float64, after *string, max int) ([]Job, error) {
	const op = "List"
	if after != nil {
		if err := checkTexts(op, "after", *after); err != nil {
			return nil, err
		}
	}
	var given []*capi.Job
	err := db.call(ctx, op, reading, func(c *capi.DB) (answer capi.Answer) {
		given, answer = c.List(int32(condition), now, after, checkMax(max))
		return answer
	})
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, len(given))
	for index, job := range given {
		jobs[index] = jobOf(job)
	}
	return jobs, nil
}

// ClaimMany claims one job for many owners at the same time. It returns a fence for the one that was granted and 0
// for the others, in the owners' order. When none is granted, it is refused as Claim would be.
func (db *DB) ClaimMany(id string, owners []string, now time.Time, ttl time.Duration) (fences []int64, err error) {
	return db.ClaimManyContext(context.Background(), id, owners, now, ttl)
}

// ClaimManyContext is ClaimMany with a context.
func (db *DB) ClaimManyContext(ctx context.Context, id string, owners []string, now time.Time, ttl time.Duration) (fences []int64, err error) {
	if err := checkNow("ClaimMany", now); err != nil {
		return nil, err
	}
	return db.claimMany(ctx, id, owners, seconds(now), ttl.Seconds())
}

func (db *DB) claimMany(ctx context.Context, id string, owners []string, now, ttl float64) (fences []int64, err error) {
	const op = "ClaimMany"
	if err := checkTexts(op, "id", id); err != nil {
		return nil, err
	}
	if err := checkAll(op, "owners", owners); err != nil {
		return nil, err
	}
	err = db.call(ctx, op, writing, func(c *capi.DB) (given capi.Answer) {
		fences, given = c.ClaimMany(id, owners, now, ttl)
		return given
	})
	if err != nil {
		return nil, err
	}
	return fences, nil
}

// checkTexts refuses what C cannot be given whole: named strings with a NUL byte, or that are not UTF-8.
func checkTexts(op string, namesAndTexts ...string) error {
	for index := 0; index < len(namesAndTexts); index += 2 {
		name, text := namesAndTexts[index], namesAndTexts[index+1]
		if strings.IndexByte(text, 0) >= 0 {
			return invalid(op, name+" has a NUL byte")
		}
		if !utf8.ValidString(text) {
			return invalid(op, name+" is not UTF-8")
		}
	}
	return nil
}

func checkAll(op, name string, texts []string) error {
	for index, text := range texts {
		if err := checkTexts(op, fmt.Sprintf("%s[%d]", name, index), text); err != nil {
			return err
		}
	}
	return nil
}

func checkNow(op string, now time.Time) error {
	if now.IsZero() {
		return invalid(op, "now is the zero Time; give time.Now()")
	}
	return nil
}

func checkNotBefore(op string, notBefore time.Time) error {
	if notBefore.IsZero() {
		return invalid(op, "notBefore is the zero Time; give the time from which on the job can be claimed")
	}
	return nil
}

// checkMax makes a number below 0 what the library refuses.
func checkMax(max int) uint64 {
	if max < 0 {
		return 0
	}
	return uint64(max)
}

// seconds are since 1970, to the nearest float64.
func seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// moment is the other way, to the nearest nanosecond.
func moment(seconds float64) time.Time {
	const limit = 1 << 62
	seconds = math.Max(-limit, math.Min(limit, seconds))
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*1e9))).UTC()
}
