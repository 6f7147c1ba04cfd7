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
// failures, such as ErrBusy or ErrFull, which may pass. Both are an [*Error] for [errors.As]. [ErrClosed] alone is
// neither: the call was made after [DB.Close].
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
// number of goroutines; a call that waits holds its own thread only. Another SQLite driver may have the same
// file open in the same process.
package fencepost
