"""fencepost for these tests, through ctypes. Not a Python binding: it leaves out what they do not need."""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import NamedTuple

NO_WAIT = -1
NORMAL = 1
READ_ONLY = 2
KEEP_JOURNAL_MODE = 4


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
    }.items():
        function = getattr(library, "fencepost_" + name)
        function.argtypes, function.restype = parameters, c_int32
    library.fencepost_close.argtypes, library.fencepost_close.restype = [handle], None
    library.fencepost_job_free.argtypes, library.fencepost_job_free.restype = [POINTER(Row)], None
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


class Db:
    """A handle. Its calls let other Python threads run."""

    def __init__(self, path, busy_timeout_ms=0, durability=0, flags=0):
        self._handle = c_void_p()
        options = Options(ctypes.sizeof(Options), busy_timeout_ms, durability, flags)
        _call("open", str(path).encode(), byref(options), byref(self._handle)).ok()

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
            r = row.contents
            copy = (_text(r.id), _text(r.owner), r.until, r.fence, _text(r.result), r.done)
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
