"""The faults that can be injected, and the shim that does it: see faults.c."""

import ctypes
import errno
import re
import subprocess
from typing import NamedTuple

KINDS = ["open", "read", "write", "sync", "truncate", "allocate", "lock", "map", "stat", "unlink", "memory"]
HOWS = ["fails", "halves", "lies"]

_shim = ctypes.CDLL(None)
_shim.faults_disarm.restype = ctypes.c_long
_shim.faults_arm.argtypes = [ctypes.c_int] * 3 + [ctypes.c_long, ctypes.c_bool, ctypes.c_char, ctypes.c_bool]
_shim.faults_allocator.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t]


class Fault(NamedTuple):
    """A way to fail, without the number of the call."""

    kind: str
    how: str = "fails"
    error: int = 0
    persists: bool = False
    file: str = "*"

    def __str__(self):
        what = errno.errorcode[self.error] if self.error else self.how
        return f"{self.kind} {what} {'from then on' if self.persists else 'once'} on {self.file}"


# EINTR is a fault of one call: who tries again gets through.
ERRORS = {
    "open": [errno.EIO, errno.EACCES, errno.EMFILE, errno.ENOSPC, errno.EINTR],
    "read": [errno.EIO, errno.EINTR],
    "write": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "sync": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "truncate": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "allocate": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "lock": [errno.EIO, errno.EACCES, errno.ENOLCK, errno.EINTR],
    "map": [errno.ENOMEM, errno.EACCES],
    "stat": [errno.EIO, errno.EACCES],
    "unlink": [errno.EIO, errno.EACCES],
    "memory": [errno.ENOMEM],
}

# On which files there are such calls: see faults.c.
FILES = {
    "open": "dwsjbf",
    "read": "dwsj",
    "write": "dwsj",
    "sync": "dwjf",
    "truncate": "dwsj",
    "allocate": "b",
    "lock": "ds",
    "map": "sb",
    "stat": "dwsjbf",
    "unlink": "wjb",
    "memory": "",
}


def every():
    """All of them: each file's calls of a kind fail from then on, or whichever file's."""
    for kind, errors in ERRORS.items():
        for error in errors:
            yield Fault(kind, error=error)
            if error != errno.EINTR:
                yield from (Fault(kind, error=error, persists=True, file=file) for file in "*" + FILES[kind])
    for kind in ["read", "write"]:
        yield Fault(kind, "halves")
        yield Fault(kind, "halves", persists=True)


def arm(fault, number, on_threads):
    """The `number`-th call from now on fails; with `on_threads` those of the library's own threads alone count."""
    kind, how = KINDS.index(fault.kind), HOWS.index(fault.how)
    _shim.faults_arm(kind, how, fault.error, number, fault.persists, fault.file.encode(), on_threads)


def disarm():
    """Joins the library's own threads. How many calls were made to fail."""
    _shim.faults_join()
    return _shim.faults_disarm()


def find_allocator():
    """Tells the shim where SQLite's own allocator is in the library that is loaded, when it has symbols."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if "libfencepost.so" in line]
    base, path = int(lines[0][0].partition("-")[0], 16), lines[0][5]
    symbols = subprocess.run(["nm", "-S", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    for which, name in enumerate(["sqlite3MemMalloc", "sqlite3MemRealloc"]):
        found = re.search(rf"^(\w+) (\w+) t {name}$", symbols, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{path} has no symbol {name}: build it with its symbols")
        start = base + int(found[1], 16)
        _shim.faults_allocator(which, start, start + int(found[2], 16))
