// Package fencepost keeps ownership leases with rising fencing tokens in one SQLite file that any number of
// processes, in any language, share.
//
// A worker claims a job for some time and is granted a fence, a number that rises with every grant. Renew,
// Complete and Release name it, and owner and fence are checked in the transaction that would store the
// change: a worker that stalled past its lease gets ErrStale or ErrDone, and the result of the one that took
// over stands.
//
// # Answers
//
// A refusal is an error for [errors.Is]: ErrExists, ErrNotFound, ErrHeld, ErrDone, ErrStale, ErrExpired.
// Nothing was changed, and trying again without a new claim does not help. [IsRefusal] tells refusals from
// failures, such as ErrBusy or ErrFull, which may pass. Both are an [*Error] for [errors.As]. Two are neither: [ErrClosed]
// after [DB.Close], and the error of a context that was over before the call began.
//
// # Times
//
// Every operation takes the time from its caller: use time.Now(), or in tests any clock. All callers of a file
// must use clocks that agree. The file holds seconds since 1970 as a float64, which tells moments about a
// quarter of a microsecond apart at present dates; a lease ends at that precision. Before 1970 no job can be
// claimed, unless it was delayed to a time before. Safety never rests on clocks: one that jumps ends a lease early
// or late, and lets no stale write in.
//
// # Durability, goroutines, processes
//
// A nil error means synced to the disk, unless Options.Durability says otherwise. A DB may be used by any
// number of goroutines. Up to 64 writing calls of a DB are in the library at once, and up to 64 that read; each
// holds a thread there. Further ones wait in Go for a place, however long that takes: the busy timeout begins in
// the library. ClaimMany starts up to 64 threads more, for as long as it runs. Another SQLite driver may have the
// same file open in the same process.
//
// # Contexts
//
// Every operation has a form with a context, such as [DB.ClaimContext], that stops waiting for a place when the
// context is over. It returns an error for which errors.Is(err, context.Canceled) or context.DeadlineExceeded
// holds, and nothing was done. A call that has a place is carried out, and what it answers is returned although
// the context is over by then: no grant and no completion is lost on its way. What bounds its wait for the file is
// Options.BusyTimeout.
package fencepost
