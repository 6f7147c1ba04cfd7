"""Runs one operation again and again: with the 1st call of a kind failing, the 2nd, and so on until it gets through with
none; for all faults or a part of them. Prints what is wrong, and how many faults were injected.

    python3 sweep.py OPERATION wal|delete SEED SHARE     SHARE: of all faults; with "lies" in its place, writes that are
                                                         not made
"""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../processes"))

import injection  # noqa: E402
from fencepost_ctypes import KEEP_JOURNAL_MODE, NORMAL, Db  # noqa: E402
from injection import Fault  # noqa: E402
from operations import LATER, OPERATIONS, leave_unclean, make_file  # noqa: E402

TIMEOUT_MS = 20
# A call that fails has one of these answers. CORRUPT and the like would blame the file.
ERRORS = {"BUSY", "CANNOT_OPEN", "IO", "FULL", "READ_ONLY", "OUT_OF_MEMORY"}
REOPEN = "close this handle and open it again"
MOST_SHOWN = 20

# What the library has once answered for wrongly, whatever part of all is chosen.
ONCE_FOUND = {
    "claim": [
        # COMMIT was tried again although it had been undone.
        Fault("lock", error=errno.EACCES, persists=True, file="s"),
        # An unlock that failed left the file locked.
        Fault("lock", error=errno.EINTR),
        # A medium that cannot be read was taken for a damaged file.
        Fault("read", error=errno.EIO),
    ],
    # A descriptor that could not be looked at was forgotten, and stayed open.
    "open": [Fault("stat", error=errno.EIO, persists=True, file="d")],
    # The -shm was opened to read only, and stayed so for all connections.
    "open_empty": [Fault("stat", error=errno.EACCES)],
}


class Wrong(Exception):
    """A check that failed."""


def check(holds, *what):
    if not holds:
        raise Wrong(" ".join(map(str, what)))


class Judge:
    def __init__(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [sys.executable, "-B", os.path.join(HERE, "judge.py")]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, path):
        self.process.stdin.write(path + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        check("error" not in found, "another program cannot read the file:", found)
        check(found["sound"] == "ok", "integrity_check:", found["sound"])
        return found

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Sweep:
    def __init__(self, name, wal, seed):
        self.operation = OPERATIONS[name]
        self.wal = wal
        self.random = random.Random(f"{seed} {name} {wal}")
        self.root = os.environ["FAULTS_FOLDER"]
        self.judge = Judge()
        self.injected = self.tries = 0
        self.wrong = []
        self.place = os.open(os.environ["FAULTS_PLACE"], os.O_WRONLY | os.O_CREAT, 0o600)
        self.template = os.path.join(self.root, "template")
        os.mkdir(self.template)
        make_file(os.path.join(self.template, "jobs.db"), wal, self.operation.with_table)
        if self.operation.unclean:
            leave_unclean(os.path.join(self.template, "jobs.db"), wal)
        os.mkdir(os.path.join(self.root, "other"))
        self.other = os.path.join(self.root, "other", "other.db")
        self.expected = {}

    def end(self):
        self.judge.end()
        shutil.rmtree(self.template)

    def note_place(self, text):
        """Where a crash or a hang would be."""
        os.pwrite(self.place, text.ljust(200).encode(), 0)

    def run(self, faults):
        for fault, durability, used in faults:
            number = 1
            while True:
                place = f"{fault}, call {number}, durability {durability}, {'used' if used else 'new'} handle"
                self.note_place(place)
                struck = 0
                try:
                    struck = self.one(fault, number, durability, used)
                except Wrong as wrong:
                    struck = 1
                    self.wrong.append(f"{place}: {wrong}")
                self.tries += 1
                self.injected += struck
                if not struck:
                    break
                # A checkpoint writes thousands of pages: the first ones, and then fewer and fewer.
                number += 1 + max(0, number - 40) // 2 if self.operation.on_threads else 1

    def folder(self):
        folder = tempfile.mkdtemp(dir=self.root)
        shutil.copytree(self.template, folder, dirs_exist_ok=True)
        return folder

    def options(self, durability):
        return {"busy_timeout_ms": TIMEOUT_MS, "durability": durability, "flags": 0 if self.wal else KEEP_JOURNAL_MODE}

    def expect(self, durability, used):
        """What is stored before, after, and the answer, when nothing fails."""
        key = durability, used
        if key not in self.expected:
            self.expected[key] = None
            folder = self.folder()
            path = os.path.join(folder, "jobs.db")
            db = self.prepared(path, durability, used)
            before = self.judge.read(path)
            answer, opened = self.call(db, path, durability)
            injection.disarm()
            self.expected[key] = before, self.judge.read(path), answer
            if opened:
                opened.close()
            shutil.rmtree(folder)
        return self.expected[key]

    def prepared(self, path, durability, used):
        if self.operation.opens:
            return None
        db = Db(path, **self.options(durability))
        if used:
            # It has its connections and the page that the processes share.
            if self.operation.with_table:
                db.enqueue("used").ok()
                db.state("used").ok()
        self.operation.prepare(db)
        return db

    def call(self, db, path, durability):
        """The status and the value, and the handle that there is then."""
        if self.operation.opens:
            answer = self.operation.run(path, **self.options(durability))
            return answer._replace(value=None), answer.value
        answer = self.operation.run(db)
        return answer, db if db._handle else None

    def one(self, fault, number, durability, used):
        """Runs it with one fault. How many calls were made to fail."""
        before, after, expected = self.expect(durability, used)
        folder = self.folder()
        path = os.path.join(folder, "jobs.db")
        db = self.prepared(path, durability, used)
        try:
            injection.arm(fault, number, self.operation.on_threads)
            answer, db = self.call(db, path, durability)
            struck = injection.disarm()
            self.check_answer(answer, expected, struck, fault)
            # The library is the first to come again, every other time. It always is where a lock could not be given up:
            # that takes another call.
            if db is None and fault.kind == "lock":
                db = Db(path, **self.options(durability))
            if db and (fault.kind == "lock" or self.random.random() < 0.5):
                self.works(db.state("free"), *("OK",) if self.operation.with_table else ("SCHEMA", "NOT_FOUND"))
                self.works(db.claim("none", "me", 0, 1), "NOT_FOUND", "SCHEMA")
            self.check_stored(answer, before, after, self.judge.read(path))
            db = self.check_goes_on(db, path, durability)
        finally:
            injection.disarm()
            if db:
                db.close()
            shutil.rmtree(folder)
        self.check_descriptors()
        return struck

    def check_answer(self, answer, expected, struck, fault):
        if answer.status == expected.status:
            check(answer.value == expected.value, "answered", answer.value, "instead of", expected.value)
            return
        check(struck, "with nothing failing:", answer)
        check(not self.operation.on_threads, "a fault of the checkpoint is the answer:", answer)
        check(fault.how != "halves", "half a read or write is an error:", answer)
        check(answer.status in ERRORS, "not a clear answer:", answer)
        if fault.kind == "memory":
            check(answer.status == "OUT_OF_MEMORY", "memory ran out:", answer)

    def check_stored(self, answer, before, after, found):
        if answer.status == "OK":
            check(found == after, "answered OK, and not stored:", found)
        elif answer.status == "BUSY" or answer.status not in ERRORS:
            check(found == before, answer.status, "and something was stored:", found)
        else:
            check(found in (before, after), "stored in part:", found)

    def works(self, answer, *statuses):
        check(answer.status in (statuses or ("OK",)), "it does not work again:", answer)

    def check_goes_on(self, db, path, durability):
        """The handle works on, every fence is a new one, and what is answered is stored."""
        if db is None:
            db = Db(path, **self.options(durability))
        answer = db.init_db()
        if REOPEN in answer.message:
            db.close()
            db = Db(path, **self.options(durability))
            answer = db.init_db()
        self.works(answer)
        self.works(db.enqueue("again"))
        rows = self.judge.read(path)["rows"]
        check(["again", None, 0.0, 0, None, 0] in rows, "not stored:", rows)
        for job, _, _, fence, _, done in rows:
            answer = db.claim(job, "next", LATER, 1)
            if done:
                check(answer.status == "DONE", job, answer)
            else:
                check(answer.value == fence + 1, job, "had fence", fence, "and now", answer)
        told = {job: fence if done else fence + 1 for job, _, _, fence, _, done in rows}
        stored = {job: fence for job, _, _, fence, *_ in self.judge.read(path)["rows"]}
        check(stored == told, "fences told and stored:", told, stored)
        return db

    def check_descriptors(self):
        # The files are gone: the library lets go of them with the next file that it opens.
        Db(self.other).close()
        left = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                left.append(os.readlink("/proc/self/fd/" + fd))
            except FileNotFoundError:
                pass  # The listing's own.
        left = [name for name in left if name.endswith("(deleted)") and name.startswith(self.root)]
        if left:
            for fd in map(int, os.listdir("/proc/self/fd")):
                # Not to be counted again in the next try.
                try:
                    if os.readlink(f"/proc/self/fd/{fd}").endswith("(deleted)"):
                        os.close(fd)
                except OSError:
                    pass
        check(not left, "left open:", left)


def chosen(sweep, name, share):
    """All ways to inject, or a part of them."""
    if share == "lies":
        return [(Fault("write", "lies"), 0, used) for used in (False, True)]
    every = [
        (fault, durability, used)
        for fault in injection.every()
        for durability in (0, NORMAL)
        for used in ((False,) if sweep.operation.opens else (False, True))
    ]
    share = float(share)
    if share == 1:
        return every
    part = sweep.random.sample(every, max(1, round(share * len(every))))
    return part + [way for way in every if way[0] in ONCE_FOUND.get(name, [])]


def main():
    name, mode, seed, share = sys.argv[1:]
    injection.find_allocator()
    sweep = Sweep(name, mode == "wal", seed)
    sweep.run(chosen(sweep, name, share))
    sweep.end()
    print(f"{sweep.injected} faults in {sweep.tries} runs")
    for wrong in sweep.wrong[:MOST_SHOWN]:
        print(wrong)
    if len(sweep.wrong) > MOST_SHOWN:
        print(f"and {len(sweep.wrong) - MOST_SHOWN} more")
    sys.exit(1 if sweep.wrong else 0)


main()
