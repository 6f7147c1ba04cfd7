// Package capi is the whole of the cgo code: fencepost.h in Go's types, and nothing decided.
//
// Strings must be free of NUL bytes; times are seconds.
package capi

/*
#cgo pkg-config: fencepost
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
	return &Job{
		ID:     C.GoString(job.id),
		Owner:  optional(job.owner),
		Until:  float64(job.until),
		Fence:  int64(job.fence),
		Result: optional(job.result),
		Done:   bool(job.done),
	}, given
}

func optional(text *C.char) *string {
	if text == nil {
		return nil
	}
	copied := C.GoString(text)
	return &copied
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
	var cOwners **C.char
	var cFences *C.int64_t
	if len(owners) > 0 {
		// An array of C's: Go's memory may not hold pointers that C reads through.
		cOwners = (**C.char)(C.calloc(C.size_t(len(owners)), C.size_t(unsafe.Sizeof(cID))))
		defer C.free(unsafe.Pointer(cOwners))
		copies := unsafe.Slice(cOwners, len(owners))
		for index, owner := range owners {
			copies[index] = cString(owner)
			defer free(copies[index])
		}
		cFences = (*C.int64_t)(unsafe.Pointer(&fences[0]))
	}
	var detail C.fencepost_error
	status := C.fencepost_claim_many(db.handle, cID, cOwners, C.size_t(len(owners)), C.double(now), C.double(ttl), cFences, &detail)
	runtime.KeepAlive(fences)
	return fences, answer(status, &detail)
}
