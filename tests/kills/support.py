"""What the tests share: clients that obey, clients under the tracer, and what the table must hold."""

import contextlib
import os
import pathlib
import random
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
CLIENT = HERE / "build/client"
TRACER = HERE / "build/tracer"

FULL, NORMAL = 0, 1
WAL, ROLLBACK = 0, 4  # KEEP_JOURNAL_MODE: a new file of SQLite's has a rollback journal.

# The long form takes all moments, and more kills and stops in each round.
LONG = bool(os.environ.get("LONG"))
SEED = int(os.environ.get("SEED") or 1)

BUSY_TIMEOUT_MS = 5000

# After the end of every lease.
LATE = 1000000000

# The tracer's, when it may not trace.
NOT_ALLOWED = 3

REFUSALS = {"EXISTS", "NOT_FOUND", "HELD", "DONE", "STALE", "EXPIRED"}


class Row(NamedTuple):
    owner: object = None
    until: float = 0.0
    fence: int = 0
    result: object = None
    done: bool = False


class Answer(NamedTuple):
    status: str
    seconds: float
    value: list

    def grants(self):
        """The jobs and fences of a claim that was granted."""
        return [(job, int(fence)) for job, fence in zip(self.value[::2], self.value[1::2])]

    def row(self):
        """The row that a state is."""
        owner, until, fence, result, done = (None if word == "\\N" else word for word in self.value)
        return Row(owner, float(until), int(fence), result, done == "1")


def parse_answer(line):
    _, status, micros, *value = line.split()
    return Answer(status, int(micros) / 1e6, value)


def parse(text):
    """What a client wrote: pairs of an order, in words, and its answer. None for one that it did not get."""
    told = []
    for line in text.splitlines():
        if line.startswith("> "):
            told.append((line[2:].split(), None))
        else:
            told[-1] = (told[-1][0], parse_answer(line))
    return told


def claims(order):
    return order[0] in ("claim", "next", "batch", "complete_next")


# --- the rules ---


def coming_next(rows, now):
    """The jobs that can be claimed, in the order in which they come. `rows` are in the order in which they were added."""
    free = [job for job, row in rows.items() if not row.done and row.until <= now]
    return sorted(free, key=lambda job: (rows[job].until == 0, rows[job].until))


def obeyed(rows, order):
    """The table when the order was carried out. In these tests all are, but for claims that find nothing."""
    what, *words = order
    rows = dict(rows) if rows is not None else None

    def take(job, owner, now, ttl):
        rows[job] = rows[job]._replace(owner=owner, until=float(now) + float(ttl), fence=rows[job].fence + 1)

    if what == "init":
        rows = rows or {}
    elif what in ("enqueue", "enqueue_many"):
        for job in words:
            rows.setdefault(job, Row())
    elif what == "claim":
        take(*words)
    elif what in ("next", "batch"):
        owner, now, ttl, most = [*words, 1][:4]
        for job in coming_next(rows, float(now))[: int(most)]:
            take(job, owner, now, ttl)
    elif what == "renew":
        job, _, _, now, ttl = words
        rows[job] = rows[job]._replace(until=float(now) + float(ttl))
    elif what in ("complete", "complete_next"):
        job, owner, _, now, result, *ttl = words
        rows[job] = rows[job]._replace(result=result, done=True)
        if ttl:
            for following in coming_next(rows, float(now))[:1]:
                take(following, owner, now, ttl[0])
    elif what in ("release", "release_at"):
        job, _, _, *until = words
        rows[job] = rows[job]._replace(owner=None, until=float(until[0]) if until else 0.0)
    elif what not in ("open", "alone", "close", "state"):
        raise ValueError(what)
    return rows


# What init_db makes, all at once.
INIT_DB = {"jobs", "fencepost_claimable", "fencepost_meta"} | {
    f"fencepost_{what}" for what in ("deleted", "renamed", "replacing", "replaced")
}


def read_rows(path, check=True):
    """What SQLite itself reads, without fencepost; None when there is no table yet."""
    if not os.path.exists(path):
        return None
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5)) as connection:
        if check:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            if found != [("ok",)]:
                raise AssertionError(f"integrity_check: {found}")
        made = {name for name, in connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")}
        if not made:
            return None
        if made != INIT_DB:
            raise AssertionError(f"init_db has made only {made}")
        return {
            job: Row(owner, until, fence, result, bool(done))
            for job, owner, until, fence, result, done in connection.execute(
                "SELECT id, owner, until, fence, result, done FROM jobs ORDER BY rowid"
            )
        }


# --- processes ---


class Client:
    """A process that obeys: client.c."""

    def __init__(self, path, mode="-"):
        self.path = path
        self.process = subprocess.Popen(
            [CLIENT, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.said = b""

    def open(self, durability=FULL, flags=WAL, timeout=BUSY_TIMEOUT_MS):
        self.ok(f"open {self.path} {durability} {flags} {timeout}")
        return self

    def start(self, order):
        """Asks for something, to be waited for with `answer`."""
        self.process.stdin.write(order.encode() + b"\n")

    def line(self):
        """What it says next. Read without a buffer that select(2) does not see."""
        while b"\n" not in self.said:
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"a client ended: {self.process.wait()}")
            self.said += more
        line, _, self.said = self.said.partition(b"\n")
        return line.decode()

    def answer(self):
        line = self.line()
        while not line.startswith("< "):
            line = self.line()
        return parse_answer(line)

    def begins(self):
        """Waits until it is about to do what it was asked for."""
        line = self.line()
        if not line.startswith("> "):
            raise AssertionError(line)

    def ask(self, order):
        self.start(order)
        return self.answer()

    def ok(self, order):
        answer = self.ask(order)
        if answer.status != "OK":
            raise AssertionError(f"{order}: {answer}")
        return answer

    def is_silent(self, seconds):
        """Whether no answer comes within that time. For chances only, never to synchronise."""
        return not self.said and not select.select([self.process.stdout], [], [], seconds)[0]

    def stop(self):
        """Stops it, wherever it is, and waits until it has."""
        os.kill(self.process.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise AssertionError(f"a client ended: {status}")

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Traced:
    """A client that carries out its orders under the tracer, to be killed or stopped at one moment. They are counted
    from its order number `first` on."""

    def __init__(self, folder, orders, first, moment, act="kill", mode="-"):
        self.told = folder / "told"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        log = os.open(self.told, flags, 0o600)
        try:
            # An order is told before and after.
            command = [TRACER, folder / "database", str(2 * first), str(moment), act, CLIENT, mode, *orders]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.PIPE, text=True, bufsize=1
            )
        finally:
            os.close(log)

    def come_to(self):
        """Waits for the moment: the system call of which it is before or after. None when it has lived to its end."""
        line = self.process.stderr.readline()
        found = re.fullmatch("at (.*)\n", line)
        self.last = line
        return found[1] if found else None

    def go_on(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.close()

    def end(self):
        """Waits for its end: how many moments there were when it lived, otherwise None."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        said = self.last + self.process.stderr.read()
        self.process.stderr.close()
        status = self.process.wait()
        if status == NOT_ALLOWED:
            raise AssertionError(said)
        found = re.search("^lived ([0-9]+)$", said, re.MULTILINE)
        if status != 0 or not (found or "killed\n" in said):
            raise AssertionError(f"the tracer ended with {status}: {said}")
        return int(found[1]) if found else None

    def answers(self):
        return parse(self.told.read_text())


class Case(unittest.TestCase):
    """A test with a folder of its own, and in it one for the database."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fencepost-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.database = self.folder / "database"
        self.database.mkdir()
        self.path = self.database / "jobs.db"
        self.random = random.Random(f"{self.id()} {SEED}")

    def client(self, mode="-"):
        client = Client(self.path, mode)
        self.addCleanup(client.end)
        return client

    def put(self, files):
        """Puts these files into the database's folder, and nothing else."""
        for file in self.database.iterdir():
            file.unlink()
        for name, content in files.items():
            (self.database / name).write_bytes(content)

    def taken(self, *but):
        """The files that are there, to be put back; without those whose names end so."""
        return {file.name: file.read_bytes() for file in self.database.iterdir() if not file.name.endswith(but)}
