"""A worker on one of the queues for Python, each used as its README has it. The other workers here do the same.

    worker.py LIBRARY make FOLDER COUNT      makes a queue with this many jobs, named 0, 1, ...
    worker.py LIBRARY work FOLDER [full]     works it off, at the library's own durability or with every commit synced

`work` opens the queue, prints "ready", and waits for a line. Then it takes a job and reports it done, again and again
until there is none, and prints "done", and then one line of JSON: the jobs it was given, the longest that one
took, how often the file was locked for too long and it had to try again, and PRAGMA synchronous, where it can be asked for.
"""

import ctypes
import json
import sqlite3
import sys
import time

SYNCED = "PRAGMA synchronous = FULL"


class Huey:
    """It has no report of its own for a job that is done: it stores the task's result."""

    def __init__(self, folder, full=False):
        import huey

        more = {"fsync": True} if full else {}
        self.huey = huey.SqliteHuey(filename=f"{folder}/queue.db", **more)
        self.task = self.huey.task(name="job")(lambda number: number)

    def put(self, number):
        self.task(number)

    def take(self):
        return self.huey.dequeue()

    def number(self, task):
        return task.args[0]

    def done(self, task):
        self.huey.execute(task)

    def synchronous(self):
        return self.huey.storage.conn.execute("PRAGMA synchronous").fetchone()[0]


class LiteQueue:
    def __init__(self, folder, full=False):
        import litequeue

        self.queue = litequeue.LiteQueue(f"{folder}/queue.db")
        if full:
            self.queue.conn.execute(SYNCED)

    def put(self, number):
        self.queue.put(str(number))

    def take(self):
        return self.queue.pop()

    def number(self, message):
        return int(message.data)

    def done(self, message):
        self.queue.done(message.message_id)

    def synchronous(self):
        return self.queue.conn.execute("PRAGMA synchronous").fetchone()[0]


class PersistQueue:
    def __init__(self, folder, full=False):
        import persistqueue

        self.empty = persistqueue.Empty
        self.queue = persistqueue.SQLiteAckQueue(folder)
        # There is no other way to it.
        self.connection = self.queue._putter
        if full:
            self.connection.execute(SYNCED)

    def put(self, number):
        self.queue.put(number)

    def take(self):
        try:
            return self.queue.get(block=False, raw=True)
        except self.empty:
            return None

    def number(self, item):
        return item["data"]

    def done(self, item):
        self.queue.ack(item)

    def synchronous(self):
        return self.connection.execute("PRAGMA synchronous").fetchone()[0]


class Honker:
    def __init__(self, folder, full=False):
        import honker

        if full:
            sys.exit("its durability is NORMAL, and there is no way to set it")
        self.db = honker.open(f"{folder}/queue.db")
        self.queue = self.db.queue("jobs")

    def put(self, number):
        self.queue.enqueue(number)

    def take(self):
        return self.queue.claim_one("worker")

    def number(self, job):
        return job.payload

    def done(self, job):
        job.ack()

    def synchronous(self):
        return self.db.query("PRAGMA synchronous")[0]["synchronous"]


class Fencepost:
    """Through ctypes. At its own durability every answer is synced; `full` says so as well."""

    class Options(ctypes.Structure):
        _fields_ = [
            ("size", ctypes.c_size_t),
            ("busy_timeout_ms", ctypes.c_int32),
            ("durability", ctypes.c_int32),
            ("flags", ctypes.c_uint32),
        ]

    class Grant(ctypes.Structure):
        _fields_ = [("id", ctypes.c_char_p), ("fence", ctypes.c_int64)]

    def __init__(self, folder, full=False, normal=False):
        self.library = ctypes.CDLL("libfencepost.so.0")
        self.library.fencepost_claim_next.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_double,
            ctypes.c_double,
            ctypes.POINTER(ctypes.POINTER(self.Grant)),
            ctypes.c_void_p,
        ]
        self.library.fencepost_complete.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.c_double,
            ctypes.c_char_p,
            ctypes.c_void_p,
        ]
        self.library.fencepost_grant_free.argtypes = [ctypes.POINTER(self.Grant)]
        self.normal = normal
        self.db = ctypes.c_void_p()
        options = self.Options(ctypes.sizeof(self.Options), 0, int(normal), 0)
        path = f"{folder}/queue.db".encode()
        self.right(self.library.fencepost_open(path, ctypes.byref(options), ctypes.byref(self.db), None))
        self.right(self.library.fencepost_init_db(self.db, None))

    @staticmethod
    def right(status):
        if status != 0:
            raise RuntimeError(f"fencepost answered {status}")

    def put(self, number):
        self.right(self.library.fencepost_enqueue(self.db, str(number).encode(), None))

    def take(self):
        grant = ctypes.POINTER(self.Grant)()
        status = self.library.fencepost_claim_next(self.db, b"worker", time.time(), 60, ctypes.byref(grant), None)
        if status == 2:  # NOT_FOUND
            return None
        self.right(status)
        job = grant.contents.id, grant.contents.fence
        self.library.fencepost_grant_free(grant)
        return job

    def number(self, job):
        return int(job[0])

    def done(self, job):
        self.right(self.library.fencepost_complete(self.db, job[0], b"worker", job[1], time.time(), None, None))

    def synchronous(self):
        return 1 if self.normal else 2


class FencepostNormal(Fencepost):
    """The same at NORMAL."""

    def __init__(self, folder, full=False):
        super().__init__(folder, normal=not full)


LIBRARIES = {
    "huey": Huey,
    "litequeue": LiteQueue,
    "persist-queue": PersistQueue,
    "honker": Honker,
    "fencepost": Fencepost,
    "fencepost-normal": FencepostNormal,
}


def insisting(call, *arguments):
    """What the call gives, and how often it had to be made again because the file was locked."""
    again = 0
    while True:
        try:
            return call(*arguments), again
        except (sqlite3.OperationalError, RuntimeError) as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            again += 1


def work(queue):
    numbers, longest, again = [], 0.0, 0
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        begun = time.monotonic()
        job, tries = insisting(queue.take)
        again += tries
        if job is None:
            break
        numbers.append(queue.number(job))
        again += insisting(queue.done, job)[1]
        longest = max(longest, time.monotonic() - begun)
    print("done", flush=True)
    figures = {"jobs": numbers, "longest_ms": longest * 1e3, "again": again, "synchronous": queue.synchronous()}
    print(json.dumps(figures), flush=True)


def main():
    library, what, folder, *more = sys.argv[1:]
    if what == "make":
        queue = LIBRARIES[library](folder)
        for number in range(int(more[0])):
            queue.put(number)
    else:
        work(LIBRARIES[library](folder, full=more == ["full"]))


main()
