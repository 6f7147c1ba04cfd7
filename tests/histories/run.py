"""Runs every test in a process of its own, under a time limit, so that a crash or a hang is one failure with a name. With
names of tests (test_histories.Histories.test_...) or of modules it runs those alone.

ROUNDS: how often, each time with the next seed (1). SEED: the first one (1). KEEP: a folder for the histories of tests
that failed."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ROUNDS") or 1)
SECONDS = 60 + 60 * ROUNDS


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id()


def run(name):
    """How it ended and what it printed."""
    # A test that was killed does not take its own folder away.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fencepost-", dir=memory) as folder:
        with subprocess.Popen(
            [sys.executable, "-B", "-m", "unittest", "-q", name],
            cwd=HERE,
            env=dict(os.environ, TMPDIR=folder),
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
            except BaseException:
                # Stopped itself: the clients do not stay behind.
                os.killpg(process.pid, signal.SIGKILL)
                raise
    return process.returncode, output


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    loader = unittest.defaultTestLoader
    sys.path.insert(0, str(HERE))
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(HERE))
    passed = failed = 0
    totals = {"calls": 0, "jobs": 0, "kills": 0}
    for name in names(suite):
        start = time.monotonic()
        status, output = run(name)
        print(f"{'FAILED' if status else 'ok':6} {time.monotonic() - start:5.1f} s  {name}")
        # Of one that passed, the line of each round.
        lines = output.splitlines() if status else [line for line in output.splitlines() if "seed " in line]
        print("\n".join(lines), end="\n" if lines else "", flush=True)
        for what in totals if status == 0 else ():
            totals[what] += sum(int(number) for number in re.findall(rf"(\d+) {what}\b", "\n".join(lines)))
        failed += status != 0
        passed += status == 0
    print(f"{totals['calls']} calls on {totals['jobs']} jobs and {totals['kills']} kills checked")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
