"""What the tests share: clients under the recorder, and the verdict on what they were told."""

import contextlib
import ctypes
import functools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import disk
import recording
from judge import DEPTH, Judge, Looker

HERE = pathlib.Path(__file__).resolve().parent
RECORDER = HERE / "build/librecorder.so"
FOREIGN = [sys.executable, "-B", HERE / "foreign.py"]

sys.path.append(str(HERE / "../processes"))
from fencepost_ctypes import KEEP_JOURNAL_MODE, NORMAL, Db  # noqa: E402

FULL = 0

# These outlive no power cut and need not.
SIDE_FILES = ("-shm", "-fencepost")

# After the end of every lease.
LATE = 1e12

# What one client does with one job,
LIFE = (
    "enqueue x",
    "claim x 10 50",
    "renew x 1 20 50",
    "release x 1",
    "claim x 80 50",
    "complete x 2 90 result",
)

# and what another one asks that must not trust it: most of it is refused.
AFTER = (
    "state x",
    "next 25 1",
    "claim x 30 1",
    "renew x 7 30 50",
    "state x",
    "claim x 500 50",
    "complete x 9 505 other",
)

ROUNDS = int(os.environ.get("ROUNDS") or 1)
SEED = int(os.environ.get("SEED") or 1)
# A failed test leaves its log in this folder.
KEEP = os.environ.get("KEEP")


class Client:
    """A process that obeys: client.c, or with `program` another one that reads its orders a line each."""

    def __init__(self, recorded, name, fault=None, program=None):
        self.fault = fault
        environment = dict(
            os.environ,
            LD_PRELOAD=str(RECORDER),
            RECORDER_LOG=str(recorded.log),
            RECORDER_FOLDER=str(recorded.folder),
            RECORDER_DELAY="200",
        )
        if fault:
            environment["RECORDER_FAULT"] = fault
        self.process = subprocess.Popen(
            [*(program or [HERE / "build/client"]), name],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, order):
        # Has it been killed, then `answer` will tell.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()

    def answer(self):
        """The status; None when the process has been killed."""
        return self.process.stdout.readline().strip() or None

    def ask(self, order):
        self.start(order)
        return self.answer()

    def end(self):
        """Lets it end; answers how it did."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        return status


class Recorded:
    """A folder for a database that is not there yet, and the log of all that is done to it."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="fencepost-")).resolve()
        self.folder = self.root / "database"
        self.images = self.root / "images"
        self.log = self.root / "log"
        self.path = self.folder / "jobs.db"
        self.folder.mkdir()
        self.images.mkdir()
        (self.root / "probe").mkdir()
        recorder = ctypes.CDLL(str(RECORDER))
        if recorder.recorder_make(os.fsencode(self.log), os.fsencode(self.folder)) != 0:
            raise OSError("the log cannot be made")

    def sides(self):
        """The files that outlive no power cut, as they are now: each alone, and all."""
        found = {side: file for side in SIDE_FILES if (file := pathlib.Path(f"{self.path}{side}")).exists()}
        contents = {side: file.read_bytes() for side, file in found.items()}
        return [contents, *({side: content} for side, content in contents.items())]

    def remove(self):
        shutil.rmtree(self.root)


def seeds(test):
    """Runs a test ROUNDS times, each with a seed of its own."""

    @functools.wraps(test)
    def run(self):
        for seed in range(SEED, SEED + ROUNDS):
            with self.subTest(seed=seed):
                test(self, seed)

    return run


def rounds(test):
    """The same, each time with a database of its own."""

    @seeds
    @functools.wraps(test)
    def run(self, seed):
        with self.database(seed):
            test(self, seed)

    return run


class Case(unittest.TestCase):
    """A test, see `rounds`; or with `seeds` and any number of databases, one after the other."""

    @contextlib.contextmanager
    def database(self, seed):
        self.recorded = Recorded()
        self.clients = []
        self.seed = seed
        try:
            yield
        except BaseException:
            self.keep()
            raise
        finally:
            for client in self.clients:
                client.end()
            self.recorded.remove()

    def keep(self):
        """Saves the log when that is asked for. (A test can have several.)"""
        if KEEP:
            kept = pathlib.Path(KEEP) / f"{self.id()}-{self.seed}-{self.recorded.root.name}.log"
            with open(self.recorded.log, "rb") as log, open(kept, "wb") as copy:
                end = int.from_bytes(log.read(8), "little")
                log.seek(0)
                copy.write(log.read(end))
            print(f"the log: {kept}")

    def client(self, name, durability=FULL, flags=0, fault=None):
        """A client with the database open and the table made, unless the fault has killed it before."""
        client = self.begin(name, fault)
        self.ask(client, f"open {self.recorded.path} {durability} {flags}")
        self.ask(client, "init")
        return client

    def both(self, name):
        """A client with two handles on the database: a half of the threads of its storms is at NORMAL."""
        client = self.client(name)
        self.ask(client, f"also {self.recorded.path} {NORMAL}")
        return client

    def foreign(self, name="foreign", fault=None):
        """A program with an SQLite of its own."""
        client = self.begin(name, fault, FOREIGN)
        self.ask(client, f"open {self.recorded.path}")
        return client

    def begin(self, name, fault=None, program=None):
        client = Client(self.recorded, name, fault, program)
        self.clients.append(client)
        return client

    def ask(self, client, order):
        """Has the order carried out. Answers whether the client's fault has let it live."""
        status = client.ask(order)
        if status is None and client.fault:
            return False
        self.assertEqual(status, "OK", order)
        return True

    def at_once(self, orders, *also):
        """Gives each client its order and waits for all of them. What they may answer beside OK."""
        for client, order in orders.items():
            client.start(order)
        for client in orders:
            self.assertIn(client.answer(), {"OK", *also, *([None] if client.fault else [])})

    def storm(self, clients, seed, threads=3, count=40, kind="storm"):
        """What to tell these clients, for `at_once`."""
        return {client: f"{kind} {threads} {count} {1000 * seed + i}" for i, client in enumerate(clients)}

    def watch(self, clients, seed, threads=2, count=80):
        """The same for some that only look."""
        return self.storm(clients, seed, threads, count, "watch")

    def judge(self, seed, flags=0, strict=False, depth=DEPTH, quiet=False):
        """The verdict on all that was recorded, once every client has ended. `strict`: on answers at NORMAL as well."""
        recorded = self.recorded
        sides = [{}, *recorded.sides()]
        for client in self.clients:
            client.end()
        self.prober = Prober(recorded.root / "probe", seed, sides, flags)
        judge = Judge(
            recording.read(recorded.log),
            recorded.images,
            seed,
            depth=depth,
            probe=self.prober.probe,
            strict=strict,
        )
        judge.run()
        tell = print if not quiet else lambda *_, **__: None
        tell(
            f"         seed {seed}: {len(judge.records)} records, {len(judge.answers)} answers, "
            f"{judge.cuts} cuts, {judge.states} states, {judge.probed} of them with fencepost",
            flush=True,
        )
        left = {file.name: file.read_bytes() for file in recorded.folder.iterdir()}
        for name in [name for name in left if name.endswith(SIDE_FILES)]:
            del left[name]
        self.assertEqual(disk.digest(judge.whole()), disk.digest(left), "something was written past the recorder")
        return judge

    def assert_begun_anew(self, judge, times):
        """That the log was checkpointed and written from its first byte on again, so many times or more."""
        logs = {record.file for record in judge.records if record.type == recording.CREATE and b"-wal" in record.text}
        begun = [r for r in judge.records if r.type == recording.WRITE and r.file in logs and r.number == 0]
        self.assertGreaterEqual(len(begun), times)

    def assert_stands(self, judge):
        """That no power cut could undo an answer."""
        if judge.violations:
            self.keep()
            self.fail("\n\n".join(["", *(f"{found.kind}\n{found.story}" for found in judge.violations)]))


class Prober:
    """Opens states with fencepost, beside whatever a cut may have left of the files that need not outlive it."""

    def __init__(self, folder, seed, sides, flags):
        self.looker = Looker(folder)
        self.chance = random.Random(f"probe {seed}")
        garbage = self.chance.getrandbits(8 * 32768).to_bytes(32768, "little")
        kind = next((side["-fencepost"][:8] for side in sides if "-fencepost" in side), b"")
        self.sides = [
            *sides,
            {"-shm": garbage},
            {"-shm": bytes(32768)},
            {"-fencepost": b""},
            {"-fencepost": bytes(4096)},
            # What tells its kind is written once, in one sector; the rest may be anything.
            {"-fencepost": (kind + garbage)[:4096]},
        ]
        self.flags = flags

    def probe(self, image, rows, fences):
        """What is wrong: it must read what SQLite read, and grant no fence again."""
        sides = self.chance.choice(self.sides)
        self.looker.put({**image, **{f"jobs.db{side}": content for side, content in sides.items()}})
        try:
            db = Db(self.looker.path, flags=self.flags)
            try:
                for job in self.chance.sample(sorted(rows), min(3, len(rows))):
                    self._job(db, job, rows[job], fences.get(job, 0))
            finally:
                db.close()
        except AssertionError as wrong:
            return f"fencepost, beside {sorted(sides)}: {wrong}"
        finally:
            self.looker.clear()
        return None

    @staticmethod
    def _job(db, job, row, fence):
        read = db.state(job).ok()
        if read[1:] != tuple(row):
            raise AssertionError(f"{job} is {read[1:]}, SQLite says {tuple(row)}")
        claim = db.claim(job, "probe", LATE, 10)
        if row.done:
            if claim.status != "DONE":
                raise AssertionError(f"{job} is done, a claim is {claim.status}")
        elif claim.ok() <= fence:
            raise AssertionError(f"{job}: fence {claim.value} was granted again")

    def fence_after(self, violation):
        """The fence that fencepost grants next, for the job of a violation, in that state of the disk."""
        self.looker.put(violation.image)
        db = Db(self.looker.path)
        try:
            db.init_db().ok()
            db.enqueue(violation.answer.call.job)
            return db.claim(violation.answer.call.job, "probe", LATE, 10).ok()
        finally:
            db.close()
            self.looker.clear()
