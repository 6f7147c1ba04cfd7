"""What the tests share: a folder each, other processes to talk to, and the check of what many clients were told."""

import collections
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
RUBY = ["ruby", "-I", str(HERE / "../../bindings/ruby/lib")]

# hold.c, which run.py preloads.
hold = ctypes.CDLL(None)


class Refused(Exception):
    """Another process could not do what it was asked."""


class Peer:
    """Another process, at work on the same file: see peer.py."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "peer.py", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, what, *arguments):
        """Asks for something, to be waited for with `answer`."""
        self.process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the other process ended: {self.process.wait()}")
        outcome, value = json.loads(line)
        if outcome == "refused":
            raise Refused(value)
        return value

    def ask(self, what, *arguments):
        self.start(what, *arguments)
        return self.answer()

    def sql(self, statement):
        return self.ask("sql", statement)

    def claim(self, job, owner="peer", now=0, ttl=10):
        """The status of a claim that waits for no lock."""
        return self.ask("claim", job, owner, now, ttl)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Case(unittest.TestCase):
    """A test with a folder of its own, and a file in it that is not there yet."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="fencepost-")
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "jobs.db")

    def peer(self):
        peer = Peer(self.path)
        self.addCleanup(peer.end)
        return peer

    def start(self, function, *arguments):
        """Runs it in a thread; `join` of what this gives answers its value, or raises what it raised."""
        return Running(function, *arguments)

    def assert_locked(self, peer):
        """That another process cannot begin to write, and does not wait."""
        with self.assertRaisesRegex(Refused, "database is locked"):
            peer.sql("BEGIN IMMEDIATE")

    def assert_sound(self):
        self.assertEqual(self.rows("PRAGMA integrity_check"), [["ok"]])

    def rows(self, statement):
        """What a new process reads with nothing but the host's SQLite."""
        peer = Peer(self.path)
        try:
            return peer.sql(statement)
        finally:
            peer.end()

    def assert_history(self, answers):
        """That answers (operation, job, fence, status) of any number of clients and the final rows agree: no fence
        twice, none lost, each job completed once, by the one that was told so."""
        granted = collections.Counter(
            (job, fence) for what, job, fence, status in answers if (what, status) == ("claim", "OK")
        )
        completed = collections.Counter(
            (job, fence) for what, job, fence, status in answers if (what, status) == ("complete", "OK")
        )
        self.assertEqual({key: n for key, n in granted.items() if n > 1}, {}, "fences given twice")
        self.assertEqual({key: n for key, n in completed.items() if n > 1}, {}, "completions told twice")
        rows = self.rows("SELECT id, fence, done, result FROM jobs")
        self.assertEqual(
            {(job, n + 1) for job, fence, _, _ in rows for n in range(fence)}, set(granted), "fences stored and told"
        )
        done = {(job, fence) for job, fence, is_done, _ in rows if is_done}
        self.assertEqual(done, set(completed), "completions stored and told")
        for job, fence, is_done, result in rows:
            self.assertEqual(result.rpartition(":")[2] if is_done else result, str(fence) if is_done else None, job)
        self.assert_sound()


class Running:
    def __init__(self, function, *arguments):
        self.value = self.error = None

        def run():
            try:
                self.value = function(*arguments)
            except BaseException as error:  # noqa: B036: raised again by join
                self.error = error

        # A test that failed does not wait for it.
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def sleeps(self):
        """How often it has gone to sleep so far."""
        with open(f"/proc/self/task/{self.thread.native_id}/status") as status:
            return int(re.search("^voluntary_ctxt_switches:(.*)", status.read(), re.MULTILINE)[1])

    def join(self):
        self.thread.join()
        if self.error:
            raise self.error
        return self.value


def parse(lines):
    """Answers as the clients print them."""
    return [(what, job, int(fence), status) for what, job, fence, status in map(str.split, lines)]


def open_files():
    """What the descriptors of this process lead to."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink("/proc/self/fd/" + fd))
        except FileNotFoundError:
            pass  # The listing's own.
    return found
