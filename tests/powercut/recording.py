"""Reads the log that recorder.c has written (see recorder.h)."""

import mmap
import struct
from typing import NamedTuple

CREATE, UNLINK, RENAME, WRITE, SIZE, SYNC, SYNCED, CALL, ANSWER, TROUBLE, LOST = range(1, 12)

_HEAD = struct.Struct("<QQ")
_RECORD = struct.Struct("<IIIIQQ")


class Record(NamedTuple):
    """One record. `at` is its number in the log, from 0."""

    at: int
    type: int
    process: int
    thread: int
    file: int
    number: int
    text: bytes


def read(path):
    """The records of a log, in their order."""
    records = []
    with open(path, "rb") as log:
        end, position = _HEAD.unpack(log.read(_HEAD.size))
        # Most of the file's length was never written: mapped, that takes no memory.
        with mmap.mmap(log.fileno(), 0, prot=mmap.PROT_READ) as whole:
            while position < end:
                kind, size, process, thread, file, number = _RECORD.unpack_from(whole, position)
                position += _RECORD.size
                records.append(
                    Record(len(records), kind, process, thread, file, number, whole[position : position + size])
                )
                position += (size + 7) // 8 * 8
    return records
