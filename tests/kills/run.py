"""Runs every test in a process of its own, as many at once as there are processors, under a time limit, so that a crash
or a hang is one failure with a name. With names of tests (test_stops.Stops.test_...) or of modules it runs those alone.

SEED: of all chances (1). LONG: all moments instead of some, and more kills and stops in a round. ROUNDS: how often the
tests of kills and stops at random are run, each time with the next seed (1)."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import LONG, NOT_ALLOWED, SEED, TRACER

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ROUNDS") or 1)
SECONDS = 1800 if LONG else 180


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id()


def run(job):
    """How long it took, how it ended and what it printed."""
    name, seed = job
    start = time.monotonic()
    # A test that was killed does not take its own folder away.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fencepost-", dir=memory) as folder:
        with subprocess.Popen(
            [sys.executable, "-B", "-m", "unittest", "-q", name],
            cwd=HERE,
            env=dict(os.environ, TMPDIR=folder, SEED=str(seed)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output = f"hung for {SECONDS} s\n" + process.communicate()[0]
    return time.monotonic() - start, process.returncode, output


def may_trace():
    """Whether the system lets the tests trace their children; says how to allow it otherwise."""
    tried = subprocess.run([TRACER, HERE, "0", "-1", "kill", TRACER], stderr=subprocess.PIPE, text=True)
    if tried.returncode == NOT_ALLOWED:
        print(tried.stderr, end="", flush=True)
    return tried.returncode != NOT_ALLOWED


def rounds(name):
    """All moments are all moments, whatever the seed."""
    return 1 if LONG and name.startswith("test_moments.") else ROUNDS


def main():
    loader = unittest.defaultTestLoader
    sys.path.insert(0, str(HERE))
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(HERE))
    if not may_trace():
        print("0 passed, 1 failed")
        sys.exit(1)
    jobs = [(name, SEED + n) for name in names(suite) for n in range(rounds(name))]
    failed = kills = stops = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for (name, seed), (seconds, status, output) in zip(jobs, pool.map(run, jobs)):
            print(f"{'FAILED' if status else 'ok':6} {seconds:5.1f} s  {name}, seed {seed}")
            # Of one that passed, the counts.
            for line in output.splitlines():
                if status or line.startswith(" " * 9):
                    print(line, flush=True)
            kills += sum(map(int, re.findall(r"^ {9}.*?(\d+) kills", output, re.MULTILINE)))
            stops += sum(map(int, re.findall(r"^ {9}.*?(\d+) stops", output, re.MULTILINE)))
            failed += status != 0
    print(f"{len(jobs) - failed} passed, {failed} failed; {kills} kills, {stops} stops")
    sys.exit(failed > 0)


main()
