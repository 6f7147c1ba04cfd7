"""Runs every test in a process of its own, as many at once as there are processors, under a time limit, so that a crash
or a hang is one failure with a name. With names of tests (test_powercut.Wal.test_...) or of modules it runs those alone.

ROUNDS: how often, each time with the next seed (1). SEED: the first one (1). KEEP: a folder for the logs of tests that
failed."""

import concurrent.futures
import os
import pathlib
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
    """How long it took, how it ended and what it printed."""
    start = time.monotonic()
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
    return time.monotonic() - start, process.returncode, output


def main():
    loader = unittest.defaultTestLoader
    sys.path.insert(0, str(HERE))
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(HERE))
    failed = 0
    every = list(names(suite))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, (seconds, status, output) in zip(every, pool.map(run, every)):
            print(f"{'FAILED' if status else 'ok':6} {seconds:5.1f} s  {name}")
            # Of one that passed, the line of each round.
            lines = output.splitlines() if status else [line for line in output.splitlines() if "seed " in line]
            print("\n".join(lines), flush=True)
            failed += status != 0
    print(f"{len(every) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
