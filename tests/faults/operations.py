"""The operations, each on a file with the same five jobs."""

import os
import shutil
import sqlite3
from typing import Callable, NamedTuple

from fencepost_ctypes import CLAIMABLE, Answer, Db

NOW = 10
LATER = 1e9
# More than 2000 pages of the smallest size: then a checkpoint is due, and its second part too.
PAGE = 512
LONG = "x" * (2200 * PAGE)

TABLE = """CREATE TABLE jobs(
    id TEXT PRIMARY KEY,
    owner TEXT,
    until REAL NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    done INTEGER NOT NULL DEFAULT 0);
CREATE INDEX fencepost_claimable ON jobs(until) WHERE done = 0;"""

JOBS = [
    ("done", "me", 20, 5, "result", 1),
    ("free", None, 0, 0, None, 0),
    ("held", "me", 1e6, 3, None, 0),
    ("over", "other", 5, 7, None, 0),
    ("released", None, 0, 2, None, 0),
]


def make_file(path, wal, with_table=True):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {PAGE}")
    connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
    if with_table:
        connection.executescript(TABLE)
        connection.executemany("INSERT INTO jobs VALUES(?, ?, ?, ?, ?, ?)", JOBS)
    connection.commit()
    connection.close()


def leave_unclean(path, wal):
    """As after a writer was killed: what is committed is in the log, or a journal is to be rolled back."""
    folder, name = os.path.split(path)
    other = os.path.join(folder, "killed")
    os.mkdir(other)
    shutil.copy(path, other)
    connection = sqlite3.connect(os.path.join(other, name), isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO jobs(id, result) VALUES('killed', ?)", ["x" * 20 * PAGE])
    if wal:
        connection.execute("COMMIT")
    for suffix in ["", "-wal"] if wal else ["", "-journal"]:
        shutil.copy(os.path.join(other, name) + suffix, path + suffix)
    connection.close()
    shutil.rmtree(other)


class Operation(NamedTuple):
    run: Callable
    # What is done before, with nothing failing.
    prepare: Callable = lambda db: None
    # Whether `run` takes a path and the options, and its value is a handle.
    opens: bool = False
    with_table: bool = True
    unclean: bool = False
    # Whether the faults are those of a thread of the library's own, of which the answer knows nothing.
    on_threads: bool = False


def close(db):
    db.close()
    return Answer("OK", None, "")


OPERATIONS = {
    "open": Operation(Db.try_open, opens=True),
    "open_empty": Operation(Db.try_open, opens=True, with_table=False),
    "open_unclean": Operation(Db.try_open, opens=True, unclean=True),
    "init_db": Operation(Db.init_db, with_table=False),
    "enqueue": Operation(lambda db: db.enqueue("new")),
    "enqueue_many": Operation(lambda db: db.enqueue_many(["new", "free", "newer"])),
    "claim": Operation(lambda db: db.claim("over", "me", NOW, 10)),
    "renew": Operation(lambda db: db.renew("held", "me", 3, NOW, 1e7)),
    "complete": Operation(lambda db: db.complete("held", "me", 3, NOW, "result")),
    "release": Operation(lambda db: db.release("held", "me", 3)),
    "state": Operation(lambda db: db.state("held")),
    "claim_next": Operation(lambda db: db.claim_next("me", NOW, 10)),
    "claim_batch": Operation(lambda db: db.claim_batch("me", NOW, 10, 3)),
    "complete_and_claim_next": Operation(lambda db: db.complete_and_claim_next("held", "me", 3, NOW, "result", 10)),
    "count": Operation(lambda db: db.count(CLAIMABLE, NOW)),
    "list": Operation(lambda db: db.list(CLAIMABLE, NOW, None, 10)),
    "close": Operation(close, prepare=lambda db: db.enqueue("new").ok()),
    "refused": Operation(lambda db: db.claim("held", "other", NOW, 10)),
    "checkpoint": Operation(lambda db: db.complete("held", "me", 3, NOW, LONG), on_threads=True),
}
