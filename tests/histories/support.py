"""What the tests share: clients that make calls all at once, and the verdict on what they were answered."""

import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
CHECKER = BUILD / "checker"

C = [BUILD / "client"]
GO = [BUILD / "client-go"]
RUBY = ["ruby", "-I", HERE / "../../bindings/ruby/lib", HERE / "client.rb"]
LANGUAGES = (C, GO, RUBY, C, GO, RUBY)

# Each client has one of these: two agree, the others go wrong in different ways.
CLOCKS = ("true", "true", "ahead", "back", "year", "zero")

THREADS = 3
# Calls of a thread for each dot; as in client.c.
STRIDE = 16

FULL, NORMAL = 0, 1
KEEP_JOURNAL_MODE = 4

PATIENT, IMPATIENT = 60000, 1

ROUNDS = int(os.environ.get("ROUNDS") or 1)
SEED = int(os.environ.get("SEED") or 1)
# A failed test leaves its history in this folder.
KEEP = os.environ.get("KEEP")


def _with_seeds(count):
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for seed in range(SEED, SEED + count):
                with self.subTest(seed=seed), self.folder(seed):
                    test(self, seed)

        return run

    return decorate


# Runs a test ROUNDS times, each with a seed and a folder of its own.
rounds = _with_seeds(ROUNDS)

# Runs it once, however many ROUNDS there are.
once = _with_seeds(1)


class Client(threading.Thread):
    """Follows a process while it makes calls. It kills it once so many dots have come, and starts another one in its
    place, which goes on where that one was."""

    def __init__(self, case, number, arguments, kill_after, at_dot):
        super().__init__(daemon=True)
        self.case = case
        self.number = number
        self.arguments = arguments
        self.kill_after = kill_after
        self.at_dot = at_dot
        self.process = None
        self.kills = 0
        self.failed = None

    def run(self):
        try:
            dots = self.live(0, 0, self.kill_after)
            if self.kills:
                self.live(1, dots * STRIDE // THREADS, None)
        except BaseException as error:  # noqa: B036: the test looks at it
            self.failed = repr(error)

    def live(self, life, first, kill_after):
        """How many dots have come when it ends."""
        command = self.arguments(f"{self.number}-{life}", first, 2 * self.number + life)
        dots = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            self.process = process
            while os.read(process.stdout.fileno(), 1):
                dots += 1
                self.at_dot()
                if dots == kill_after:
                    process.kill()
        if kill_after and process.returncode < 0:
            self.kills += 1
        elif process.returncode != 0:
            self.failed = f"client {self.number} ended by {process.returncode}"
        return dots

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        self.join()


class Case(unittest.TestCase):
    """A test with a folder for each of its rounds."""

    @contextlib.contextmanager
    def folder(self, seed):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="fencepost-"))
        self.path = self.root / "jobs.db"
        self.histories = self.root / "histories"
        self.histories.mkdir()
        self.seed = seed
        try:
            yield
        except BaseException:
            if KEEP:
                kept = pathlib.Path(KEEP) / f"{self.id()}-{seed}"
                shutil.copytree(self.root, kept, dirs_exist_ok=True)
                print(f"the history: {kept}")
            raise
        finally:
            shutil.rmtree(self.root)

    def make_calls(self, calls, durability=FULL, flags=0, kills=0, at_dot=lambda: None):
        """Has the clients make so many calls, and writes down what is stored then. Answers how many were killed."""
        chance = random.Random(self.seed)
        clocks = chance.sample(CLOCKS, len(CLOCKS))
        each = calls // (len(LANGUAGES) * THREADS)
        dots = each // STRIDE * THREADS
        victims = chance.sample(range(len(LANGUAGES)), kills)
        epoch = time.monotonic_ns()

        def arguments(number):
            def of(log, first, seed):
                options = (durability, flags, IMPATIENT if number == 0 else PATIENT)
                place = (f"w{number}", self.path, self.histories / log)
                work = (1000 * self.seed + seed, THREADS, first, each, calls // 120, clocks[number], epoch)
                return [str(word) for word in (*LANGUAGES[number], *place, *work, *options)]

            return of

        clients = [
            Client(self, number, arguments(number), chance.randint(1, dots - 1) if number in victims else None, at_dot)
            for number in range(len(LANGUAGES))
        ]
        try:
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        finally:
            for client in clients:
                client.end()
        self.assertEqual([client.failed for client in clients if client.failed], [])
        self.write_stored("delete" if flags else "wal")
        return sum(client.kills for client in clients)

    def write_stored(self, mode):
        """What SQLite alone reads when all is over."""
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            self.assertEqual(database.execute("PRAGMA journal_mode").fetchall(), [(mode,)])
            rows = database.execute("SELECT id, owner, until, fence, result, done FROM jobs").fetchall()
        with open(self.histories / "stored", "w") as file:
            for job, owner, until, fence, result, done in rows:
                texts = ["null" if text is None else text for text in (owner, result)]
                print("stored", job, texts[0], until, fence, texts[1], ("false", "true")[done], file=file)
            print("stored", file=file)

    def check(self):
        """What the checker says of all that was written down: whether it is linearizable, and what it printed."""
        return check(*sorted(self.histories.iterdir()))

    def assert_linearizable(self, kills=0):
        linearizable, printed = self.check()
        self.assertTrue(linearizable, "\n" + printed)
        counts = json.loads(printed)
        self.assertEqual(counts["errors"], {})
        print(
            f"         seed {self.seed}: {counts['calls']} calls, {counts['jobs']} jobs, {kills} kills; "
            f"{counts['granted']} grants, {counts['busy']} busy, {counts['unanswered']} without an answer"
        )
        return counts


def check(*paths, text=None):
    done = subprocess.run([CHECKER, *paths], input=text, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"the checker ended by {done.returncode}: {done.stdout}")
    return done.returncode == 0, done.stdout
