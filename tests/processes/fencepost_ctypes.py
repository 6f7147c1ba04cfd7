"""fencepost for these tests, through ctypes. Not a Python binding: it leaves out what they do not need."""

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import NamedTuple

NO_WAIT = -1
NORMAL = 1
READ_ONLY = 2
KEEP_JOURNAL_MODE = 4
CLAIMABLE, HELD, DELAYED, DONE = 1, 2, 3, 4


class Error(ctypes.Structure):
    _fields_ = [("sqlite_code", c_int32), ("reserved", c_int32 * 3), ("message", c_char * 496)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("busy_timeout_ms", c_int32), ("durability", c_int32), ("flags", c_uint32)]


class Row(ctypes.Structure):
    _fields_ = [
        ("id", c_char_p),
        ("owner", c_char_p),
        ("until", c_double),
        ("fence", c_int64),
        ("result", c_char_p),
        ("done", c_bool),
    ]


class Rows(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("jobs", POINTER(POINTER(Row)))]


class Grant(ctypes.Structure):
    _fields_ = [("id", c_char_p), ("fence", c_int64)]


class Grants(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("grants", POINTER(POINTER(Grant)))]


class Answer(NamedTuple):
    """What a call answered: the status without its prefix, and what it gave."""

    status: str
    value: object
    message: str

    def ok(self):
        """What it gave, when it is OK."""
        if self.status != "OK":
            raise AssertionError(f"{self.status}: {self.message}")
        return self.value


def _load():
    library = ctypes.CDLL("libfencepost.so.0")
    handle, error = c_void_p, POINTER(Error)
    for name, parameters in {
        "open": [c_char_p, POINTER(Options), POINTER(handle), error],
        "init_db": [handle, error],
        "enqueue": [handle, c_char_p, error],
        "state": [handle, c_char_p, POINTER(POINTER(Row)), error],
        "claim": [handle, c_char_p, c_char_p, c_double, c_double, POINTER(c_int64), error],
        "renew": [handle, c_char_p, c_char_p, c_int64, c_double, c_double, error],
        "complete": [handle, c_char_p, c_char_p, c_int64, c_double, c_char_p, error],
        "release": [handle, c_char_p, c_char_p, c_int64, error],
        "claim_many": [handle, c_char_p, POINTER(c_char_p), c_size_t, c_double, c_double, POINTER(c_int64), error],
        "enqueue_many": [handle, POINTER(c_char_p), c_size_t, POINTER(c_bool), error],
        "claim_next": [handle, c_char_p, c_double, c_double, POINTER(POINTER(Grant)), error],
        "claim_batch": [handle, c_char_p, c_double, c_double, c_size_t, POINTER(POINTER(Grants)), error],
        "complete_and_claim_next": [handle, c_char_p, c_char_p, c_int64]
        + [c_double, c_char_p, c_double, POINTER(POINTER(Grant)), error],
        "count": [handle, c_int32, c_double, POINTER(c_uint64), error],
        "list": [handle, c_int32, c_double, c_char_p, c_size_t, POINTER(POINTER(Rows)), error],
    }.items():
        function = getattr(library, "fencepost_" + name)
        function.argtypes, function.restype = parameters, c_int32
    library.fencepost_close.argtypes, library.fencepost_close.restype = [handle], None
    for name, made in {"job": Row, "jobs": Rows, "grant": Grant, "grants": Grants}.items():
        function = getattr(library, f"fencepost_{name}_free")
        function.argtypes, function.restype = [POINTER(made)], None
    library.fencepost_status_name.argtypes, library.fencepost_status_name.restype = [c_int32], c_char_p
    return library


_library = _load()


def _bytes(text):
    return None if text is None else text.encode()


def _text(given):
    return None if given is None else given.decode()


def _call(name, *arguments, value=lambda: None):
    error = Error()
    status = getattr(_library, "fencepost_" + name)(*arguments, byref(error))
    name = _library.fencepost_status_name(status).decode().removeprefix("FENCEPOST_")
    return Answer(name, value() if status == 0 else None, error.message.decode())


def _row(r):
    return (_text(r.id), _text(r.owner), r.until, r.fence, _text(r.result), r.done)


def _grant(grant):
    """The id and the fence, None for no grant; frees it."""
    copy = (_text(grant.contents.id), grant.contents.fence) if grant else None
    _library.fencepost_grant_free(grant)
    return copy


class Db:
    """A handle. Its calls let other Python threads run."""

    def __init__(self, path, busy_timeout_ms=0, durability=0, flags=0):
        self.opened(path, busy_timeout_ms, durability, flags).ok()

    @classmethod
    def try_open(cls, *arguments, **options):
        """The answer to the opening, with the handle as its value."""
        db = cls.__new__(cls)
        return db.opened(*arguments, **options)

    def opened(self, path, busy_timeout_ms=0, durability=0, flags=0):
        self._handle = c_void_p()
        options = Options(ctypes.sizeof(Options), busy_timeout_ms, durability, flags)
        return _call("open", str(path).encode(), byref(options), byref(self._handle), value=lambda: self)

    def close(self):
        _library.fencepost_close(self._handle)
        self._handle = c_void_p()

    def init_db(self):
        return _call("init_db", self._handle)

    def enqueue(self, job):
        return _call("enqueue", self._handle, _bytes(job))

    def state(self, job):
        row = POINTER(Row)()

        def value():
            copy = _row(row.contents)
            _library.fencepost_job_free(row)
            return copy

        return _call("state", self._handle, _bytes(job), byref(row), value=value)

    def claim(self, job, owner, now, ttl):
        fence = c_int64()
        return _call(
            "claim", self._handle, _bytes(job), _bytes(owner), now, ttl, byref(fence), value=lambda: fence.value
        )

    def claim_many(self, job, owners, now, ttl):
        fences = (c_int64 * len(owners))()
        names = (c_char_p * len(owners))(*map(_bytes, owners))
        return _call(
            "claim_many", self._handle, _bytes(job), names, len(owners), now, ttl, fences, value=lambda: list(fences)
        )

    def renew(self, job, owner, fence, now, ttl):
        return _call("renew", self._handle, _bytes(job), _bytes(owner), fence, now, ttl)

    def complete(self, job, owner, fence, now, result):
        return _call("complete", self._handle, _bytes(job), _bytes(owner), fence, now, _bytes(result))

    def release(self, job, owner, fence):
        return _call("release", self._handle, _bytes(job), _bytes(owner), fence)

    def enqueue_many(self, jobs):
        added = (c_bool * len(jobs))()
        ids = (c_char_p * len(jobs))(*map(_bytes, jobs))
        return _call("enqueue_many", self._handle, ids, len(jobs), added, value=lambda: list(added))

    def claim_next(self, owner, now, ttl):
        grant = POINTER(Grant)()
        return _call(
            "claim_next", self._handle, _bytes(owner), now, ttl, byref(grant), value=lambda: _grant(grant)
        )

    def claim_batch(self, owner, now, ttl, most):
        grants = POINTER(Grants)()

        def value():
            given = [grants.contents.grants[n].contents for n in range(grants.contents.count)]
            copy = [(_text(grant.id), grant.fence) for grant in given]
            _library.fencepost_grants_free(grants)
            return copy

        return _call("claim_batch", self._handle, _bytes(owner), now, ttl, most, byref(grants), value=value)

    def complete_and_claim_next(self, job, owner, fence, now, result, ttl):
        grant = POINTER(Grant)()
        arguments = (_bytes(job), _bytes(owner), fence, now, _bytes(result), ttl)
        return _call(
            "complete_and_claim_next", self._handle, *arguments, byref(grant), value=lambda: _grant(grant)
        )

    def count(self, condition, now):
        number = c_uint64()
        return _call("count", self._handle, condition, now, byref(number), value=lambda: number.value)

    def list(self, condition, now, after, most):
        rows = POINTER(Rows)()

        def value():
            copy = [_row(rows.contents.jobs[n].contents) for n in range(rows.contents.count)]
            _library.fencepost_jobs_free(rows)
            return copy

        return _call("list", self._handle, condition, now, _bytes(after), most, byref(rows), value=value)
