"""Runs every test in a process of its own, under a time limit, so that a crash or a hang is one failure with a name.
With names of tests (test_fork.Forks.test_...) or of modules it runs those alone."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id()


def run(name, folder):
    """What it printed, when it failed."""
    command = [sys.executable, "-B", "-m", "unittest", "-q", name]
    environment = dict(
        os.environ, LD_PRELOAD=str(HERE / "build/libhold.so"), PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder
    )
    with subprocess.Popen(
        command,
        cwd=HERE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"hung for {SECONDS} s\n" + process.communicate()[0]
    return output or f"ended by {process.returncode}" if process.returncode else None


def main():
    loader = unittest.defaultTestLoader
    sys.path.insert(0, str(HERE))
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(HERE))
    passed = failed = 0
    for name in names(suite):
        start = time.monotonic()
        # A test that was killed does not take its own folder away.
        with tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
            output = run(name, folder)
        print(f"{'FAILED' if output else 'ok':6} {time.monotonic() - start:5.1f} s  {name}", flush=True)
        if output:
            failed += 1
            print(output, flush=True)
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
