"""Another process on the file: does what support.Peer asks, a line of JSON each. It loads the host's SQLite or
fencepost only when it is asked to use it."""

import functools
import json
import os
import signal
import sys
import threading

path = sys.argv[1]


class Refused(Exception):
    pass


@functools.cache
def host(timeout):
    import sqlite3

    return sqlite3.connect(path, timeout=timeout, isolation_level=None)


@functools.cache
def fencepost(busy_timeout_ms):
    from fencepost_ctypes import KEEP_JOURNAL_MODE, NORMAL, Db

    return Db(path, busy_timeout_ms=busy_timeout_ms, durability=NORMAL, flags=KEEP_JOURNAL_MODE)


def sql(statement):
    import sqlite3

    try:
        return host(0).execute(statement).fetchall()
    except sqlite3.Error as error:
        raise Refused(str(error)) from error


def claim(job, owner, now, ttl):
    return fencepost(-1).claim(job, owner, now, ttl).status


@functools.cache
def durable(flags):
    from fencepost_ctypes import Db

    return Db(path, busy_timeout_ms=20_000, flags=flags)


def durably(flags, operation, *arguments):
    """The status of an operation at FULL, and how often this process has synced the log for it."""
    import ctypes

    hold = ctypes.CDLL(None)
    before = hold.hold_log_syncs()
    answer = getattr(durable(flags), operation)(*arguments)
    return answer.status, hold.hold_log_syncs() - before


def first_after_a_failed_sync(operation, *arguments):
    """The status of a first operation at FULL whose first sync of the log fails, and how many bytes it has written there."""
    import ctypes

    hold = ctypes.CDLL(None)
    hold.hold_log_bytes.restype = ctypes.c_long
    db = durable(0)
    hold.hold_fail_syncs(1)
    before = hold.hold_log_bytes()
    return getattr(db, operation)(*arguments).status, hold.hold_log_bytes() - before


def stop_in(moment, job):
    """Claims at FULL, and stops for ever when the claim can be seen and is not synced: at the begin of its "sync", or
    in the "unlock" before that."""
    import ctypes

    # What it has found is synced with its first answer.
    durable(0).enqueue("before")
    hold = ctypes.CDLL(None)
    {"sync": hold.hold_next_sync, "unlock": hold.hold_next_unlock}[moment]()
    threading.Thread(target=durable(0).claim, args=(job, "stopped", 0, 10), daemon=True).start()
    hold.hold_until_reached()


def increment(name, count):
    """Through the host's SQLite."""
    for _ in range(count):
        host(60).execute("UPDATE counters SET n = n + 1 WHERE name = ?", [name])


def grants(owner, count, raw):
    """Claims and releases a job of its own and one that others want too, so many times each; the fences of the second.
    With `raw`, a thread opens, reads and closes the three files all the while."""
    ended = threading.Event()

    def touch():
        while not ended.is_set():
            for suffix in ("", "-wal", "-shm"):
                try:
                    fd = os.open(path + suffix, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                os.read(fd, 100)
                os.close(fd)

    thread = threading.Thread(target=touch, daemon=True)
    if raw:
        thread.start()
    db = fencepost(30_000)
    fences = []
    for n in range(1, count + 1):
        if db.claim(owner, owner, 0, 10).ok() != n:
            raise AssertionError(f"{db.state(owner)} instead of fence {n}")
        db.release(owner, owner, n).ok()
        answer = db.claim("shared", owner, 0, 10)
        if answer.status != "HELD":
            fences.append(answer.ok())
            db.release("shared", owner, fences[-1]).ok()
    ended.set()
    if raw:
        thread.join()
    return fences


def hold_with_child():
    """Forks a child that lives on; then stops in the middle of a claim, for ever. At SIGUSR1 the child claims without a
    wait for locks, and puts the status into a file. Answers the child's number."""
    import ctypes

    from fencepost_ctypes import NO_WAIT, Db

    db = Db(path, busy_timeout_ms=NO_WAIT)
    db.claim("before", "parent", 0, 10).ok()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    child = os.fork()
    if child == 0:
        # Else the test would wait for the end of this process's output.
        os.close(1)
        signal.sigwait([signal.SIGUSR1])
        answer = db.claim("child", "child", 0, 10)
        with open(path + ".child.new", "w") as file:
            file.write(answer.status)
        os.rename(path + ".child.new", path + ".child")
        signal.pause()
    hold = ctypes.CDLL(None)
    hold.hold_next_commit()
    threading.Thread(target=db.claim, args=("held", "parent", 0, 10), daemon=True).start()
    hold.hold_until_reached()
    return child


def main():
    functions = (sql, claim, durably, first_after_a_failed_sync, stop_in, increment, grants, hold_with_child)
    known = {f.__name__: f for f in functions}
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = "ok", known[name](*arguments)
        except (Refused, AssertionError) as refused:
            answer = "refused", str(refused)
        print(json.dumps(answer), flush=True)


main()
