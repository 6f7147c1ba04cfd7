// Package capi is the whole of the cgo code: fencepost.h in Go's types, and nothing decided.
//
// Strings must be free of NUL bytes; times are seconds.
package capi

/*
// --static adds what libfencepost.a needs, for programs that link that one; the linker drops it from the others.
#cgo pkg-config: --static fencepost
#include <stdlib.h>
#include <fencepost.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// What the header that this package was compiled with says.
const (
	VersionMajor = C.FENCEPOST_VERSION_MAJOR
	VersionMinor = C.FENCEPOST_VERSION_MINOR
	VersionPatch = C.FENCEPOST_VERSION_PATCH
	MaxText      = C.FENCEPOST_MAX_TEXT

	DurabilityFull   = C.FENCEPOST_DURABILITY_FULL
	DurabilityNormal = C.FENCEPOST_DURABILITY_NORMAL

	OpenExisting               = C.FENCEPOST_OPEN_EXISTING
	OpenReadOnly               = C.FENCEPOST_OPEN_READ_ONLY
	OpenKeepJournalMode        = C.FENCEPOST_OPEN_KEEP_JOURNAL_MODE
	OpenAllowNetworkFilesystem = C.FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM

	ConditionClaimable = C.FENCEPOST_CONDITION_CLAIMABLE
	ConditionHeld      = C.FENCEPOST_CONDITION_HELD
	ConditionDelayed   = C.FENCEPOST_CONDITION_DELAYED
	ConditionDone      = C.FENCEPOST_CONDITION_DONE
	ConditionBroken    = C.FENCEPOST_CONDITION_BROKEN

	OK              = C.FENCEPOST_OK
	Exists          = C.FENCEPOST_EXISTS
	NotFound        = C.FENCEPOST_NOT_FOUND
	Held            = C.FENCEPOST_HELD
	Done            = C.FENCEPOST_DONE
	Stale           = C.FENCEPOST_STALE
	Expired         = C.FENCEPOST_EXPIRED
	InvalidArgument = C.FENCEPOST_INVALID_ARGUMENT
	Busy            = C.FENCEPOST_BUSY
	CannotOpen      = C.FENCEPOST_CANNOT_OPEN
	NotADatabase    = C.FENCEPOST_NOT_A_DATABASE
	Schema          = C.FENCEPOST_SCHEMA
	Corrupt         = C.FENCEPOST_CORRUPT
	IO              = C.FENCEPOST_IO
	Full            = C.FENCEPOST_FULL
	ReadOnly        = C.FENCEPOST_READ_ONLY
	OutOfMemory     = C.FENCEPOST_OUT_OF_MEMORY
	FenceExhausted  = C.FENCEPOST_FENCE_EXHAUSTED
	Unsupported     = C.FENCEPOST_UNSUPPORTED
	Internal        = C.FENCEPOST_INTERNAL
)

// DB is an open handle.
type DB struct{ handle *C.fencepost_db }

// Options are fencepost_options without the size.
type Options struct {
	BusyTimeoutMs int32
	Durability    int32
	Flags         uint32
}

// Job is a copy of a fencepost_job; Owner and Result are nil for NULL.
type Job struct {
	ID     string
	Owner  *string
	Until  float64
	Fence  int64
	Result *string
	Done   bool
}

// Grant is a copy of a fencepost_grant.
type Grant struct {
	ID    string
	Fence int64
}

// Answer is a status with what fencepost_error says of it.
type Answer struct {
	Status     int32
	SQLiteCode int32
	Message    string
}

func answer(status C.fencepost_status, detail *C.fencepost_error) Answer {
	given := Answer{Status: int32(status)}
	if given.Status != OK {
		given.SQLiteCode = int32(detail.sqlite_code)
		given.Message = C.GoString(&detail.message[0])
	}
	return given
}

// cString copies a string for a call; the caller frees it.
func cString(text string) *C.char { return C.CString(text) }

func free(text *C.char) { C.free(unsafe.Pointer(text)) }

// cStrings copies strings into an array of C's, as Go's memory may not hold pointers that C reads through. The caller
// frees it.
func cStrings(texts []string) **C.char {
	if len(texts) == 0 {
		return nil
	}
	array := (**C.char)(C.calloc(C.size_t(len(texts)), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	for index, text := range texts {
		unsafe.Slice(array, len(texts))[index] = cString(text)
	}
	return array
}

func freeAll(array **C.char, count int) {
	for _, text := range unsafe.Slice(array, count) {
		free(text)
	}
	C.free(unsafe.Pointer(array))
}

// Version is the loaded library's.
func Version() string { return C.GoString(C.fencepost_version()) }

// Now is the system's clock.
func Now() float64 { return float64(C.fencepost_now()) }

// StatusName is the name in the header.
func StatusName(status int32) string { return C.GoString(C.fencepost_status_name(C.int32_t(status))) }

// Open opens a file; the handle is nil unless the status is OK.
func Open(path string, options Options) (*DB, Answer) {
	cPath := cString(path)
	defer free(cPath)
	var detail C.fencepost_error
	cOptions := C.fencepost_options{
		busy_timeout_ms: C.int32_t(options.BusyTimeoutMs),
		durability:      C.int32_t(options.Durability),
		flags:           C.uint32_t(options.Flags),
	}
	cOptions.size = C.size_t(unsafe.Sizeof(cOptions))
	var handle *C.fencepost_db
	given := answer(C.fencepost_open(cPath, &cOptions, &handle, &detail), &detail)
	if given.Status != OK {
		return nil, given
	}
	return &DB{handle}, given
}

// Close ends the handle. No call may be running or follow.
func (db *DB) Close() {
	C.fencepost_close(db.handle)
	db.handle = nil
}

// InitDB is fencepost_init_db.
func (db *DB) InitDB() Answer {
	var detail C.fencepost_error
	return answer(C.fencepost_init_db(db.handle, &detail), &detail)
}

// Enqueue is fencepost_enqueue.
func (db *DB) Enqueue(id string) Answer {
	cID := cString(id)
	defer free(cID)
	var detail C.fencepost_error
	return answer(C.fencepost_enqueue(db.handle, cID, &detail), &detail)
}

// State is fencepost_state; the job is nil unless the status is OK.
func (db *DB) State(id string) (*Job, Answer) {
	cID := cString(id)
	defer free(cID)
	var detail C.fencepost_error
	var job *C.fencepost_job
	given := answer(C.fencepost_state(db.handle, cID, &job, &detail), &detail)
	if given.Status != OK {
		return nil, given
	}
	defer C.fencepost_job_free(job)
	return copied(job), given
}

func copied(job *C.fencepost_job) *Job {
	return &Job{
		ID:     C.GoString(job.id),
		Owner:  optional(job.owner),
		Until:  float64(job.until),
		Fence:  int64(job.fence),
		Result: optional(job.result),
		Done:   bool(job.done),
	}
}

func optional(text *C.char) *string {
	if text == nil {
		return nil
	}
	copied := C.GoString(text)
	return &copied
}

// EnqueueAt is fencepost_enqueue_at.
func (db *DB) EnqueueAt(id string, notBefore float64) Answer {
	cID := cString(id)
	defer free(cID)
	var detail C.fencepost_error
	return answer(C.fencepost_enqueue_at(db.handle, cID, C.double(notBefore), &detail), &detail)
}

// EnqueueMany is fencepost_enqueue_many.
func (db *DB) EnqueueMany(ids []string) ([]bool, Answer) {
	cIDs := cStrings(ids)
	defer freeAll(cIDs, len(ids))
	added := make([]bool, len(ids))
	var cAdded *C.bool
	if len(ids) > 0 {
		cAdded = (*C.bool)(unsafe.Pointer(&added[0]))
	}
	var detail C.fencepost_error
	status := C.fencepost_enqueue_many(db.handle, cIDs, C.size_t(len(ids)), cAdded, &detail)
	runtime.KeepAlive(added)
	return added, answer(status, &detail)
}

// ReleaseAt is fencepost_release_at.
func (db *DB) ReleaseAt(id, owner string, fence int64, notBefore float64) Answer {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var detail C.fencepost_error
	return answer(C.fencepost_release_at(db.handle, cID, cOwner, C.int64_t(fence), C.double(notBefore), &detail), &detail)
}

// ClaimNext is fencepost_claim_next; the grant is nil unless the status is OK.
func (db *DB) ClaimNext(owner string, now, ttl float64) (*Grant, Answer) {
	cOwner := cString(owner)
	defer free(cOwner)
	var detail C.fencepost_error
	var grant *C.fencepost_grant
	given := answer(C.fencepost_claim_next(db.handle, cOwner, C.double(now), C.double(ttl), &grant, &detail), &detail)
	return taken(grant), given
}

// taken copies a grant and frees the library's.
func taken(grant *C.fencepost_grant) *Grant {
	if grant == nil {
		return nil
	}
	defer C.fencepost_grant_free(grant)
	return &Grant{C.GoString(grant.id), int64(grant.fence)}
}

// ClaimBatch is fencepost_claim_batch.
func (db *DB) ClaimBatch(owner string, now, ttl float64, max uint64) ([]Grant, Answer) {
	cOwner := cString(owner)
	defer free(cOwner)
	var detail C.fencepost_error
	var grants *C.fencepost_grants
	given := answer(
		C.fencepost_claim_batch(db.handle, cOwner, C.double(now), C.double(ttl), C.size_t(max), &grants, &detail), &detail)
	if given.Status != OK {
		return nil, given
	}
	defer C.fencepost_grants_free(grants)
	copies := make([]Grant, 0, grants.count)
	for _, grant := range unsafe.Slice(grants.grants, grants.count) {
		copies = append(copies, Grant{C.GoString(grant.id), int64(grant.fence)})
	}
	return copies, given
}

// CompleteAndClaimNext is fencepost_complete_and_claim_next; a nil result is NULL, and a nil grant none.
func (db *DB) CompleteAndClaimNext(id, owner string, fence int64, now float64, result *string, ttl float64) (*Grant, Answer) {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var cResult *C.char
	if result != nil {
		cResult = cString(*result)
		defer free(cResult)
	}
	var detail C.fencepost_error
	var next *C.fencepost_grant
	given := answer(C.fencepost_complete_and_claim_next(
		db.handle, cID, cOwner, C.int64_t(fence), C.double(now), cResult, C.double(ttl), &next, &detail), &detail)
	return taken(next), given
}

// ForceRelease is fencepost_force_release.
func (db *DB) ForceRelease(id string) (int64, Answer) {
	cID := cString(id)
	defer free(cID)
	var detail C.fencepost_error
	var fence C.int64_t
	given := answer(C.fencepost_force_release(db.handle, cID, &fence, &detail), &detail)
	return int64(fence), given
}

// Requeue is fencepost_requeue.
func (db *DB) Requeue(id string) Answer {
	cID := cString(id)
	defer free(cID)
	var detail C.fencepost_error
	return answer(C.fencepost_requeue(db.handle, cID, &detail), &detail)
}

// Purge is fencepost_purge.
func (db *DB) Purge(before float64, max uint64) (uint64, Answer) {
	var detail C.fencepost_error
	var count C.uint64_t
	given := answer(C.fencepost_purge(db.handle, C.double(before), C.size_t(max), &count, &detail), &detail)
	return uint64(count), given
}

// RaiseFloor is fencepost_raise_floor.
func (db *DB) RaiseFloor(to int64) Answer {
	var detail C.fencepost_error
	return answer(C.fencepost_raise_floor(db.handle, C.int64_t(to), &detail), &detail)
}

// Count is fencepost_count.
func (db *DB) Count(condition int32, now float64) (uint64, Answer) {
	var detail C.fencepost_error
	var count C.uint64_t
	given := answer(C.fencepost_count(db.handle, C.int32_t(condition), C.double(now), &count, &detail), &detail)
	return uint64(count), given
}

// List is fencepost_list; a nil after is NULL.
func (db *DB) List(condition int32, now float64, after *string, max uint64) ([]*Job, Answer) {
	var cAfter *C.char
	if after != nil {
		cAfter = cString(*after)
		defer free(cAfter)
	}
	var detail C.fencepost_error
	var jobs *C.fencepost_jobs
	given := answer(
		C.fencepost_list(db.handle, C.int32_t(condition), C.double(now), cAfter, C.size_t(max), &jobs, &detail), &detail)
	if given.Status != OK {
		return nil, given
	}
	defer C.fencepost_jobs_free(jobs)
	copies := make([]*Job, 0, jobs.count)
	for _, job := range unsafe.Slice(jobs.jobs, jobs.count) {
		copies = append(copies, copied(job))
	}
	return copies, given
}

// Claim is fencepost_claim.
func (db *DB) Claim(id, owner string, now, ttl float64) (int64, Answer) {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var detail C.fencepost_error
	var fence C.int64_t
	given := answer(C.fencepost_claim(db.handle, cID, cOwner, C.double(now), C.double(ttl), &fence, &detail), &detail)
	return int64(fence), given
}

// Renew is fencepost_renew.
func (db *DB) Renew(id, owner string, fence int64, now, ttl float64) Answer {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var detail C.fencepost_error
	return answer(C.fencepost_renew(db.handle, cID, cOwner, C.int64_t(fence), C.double(now), C.double(ttl), &detail), &detail)
}

// Complete is fencepost_complete; a nil result is NULL.
func (db *DB) Complete(id, owner string, fence int64, now float64, result *string) Answer {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var cResult *C.char
	if result != nil {
		cResult = cString(*result)
		defer free(cResult)
	}
	var detail C.fencepost_error
	return answer(C.fencepost_complete(db.handle, cID, cOwner, C.int64_t(fence), C.double(now), cResult, &detail), &detail)
}

// Release is fencepost_release.
func (db *DB) Release(id, owner string, fence int64) Answer {
	cID, cOwner := cString(id), cString(owner)
	defer free(cID)
	defer free(cOwner)
	var detail C.fencepost_error
	return answer(C.fencepost_release(db.handle, cID, cOwner, C.int64_t(fence), &detail), &detail)
}

// ClaimMany is fencepost_claim_many; a fence of 0 is none.
func (db *DB) ClaimMany(id string, owners []string, now, ttl float64) ([]int64, Answer) {
	cID := cString(id)
	defer free(cID)
	fences := make([]int64, len(owners))
	cOwners := cStrings(owners)
	defer freeAll(cOwners, len(owners))
	var cFences *C.int64_t
	if len(owners) > 0 {
		cFences = (*C.int64_t)(unsafe.Pointer(&fences[0]))
	}
	var detail C.fencepost_error
	status := C.fencepost_claim_many(db.handle, cID, cOwners, C.size_t(len(owners)), C.double(now), C.double(ttl), cFences, &detail)
	runtime.KeepAlive(fences)
	return fences, answer(status, &detail)
}
