"""Sweeps each operation in each journal mode in a process of its own, as many at once as there are processors, under a
time limit, so that a crash or a hang is one failure with a name. With names (claim, claim.wal) it sweeps those alone.

SHARE: which part of all faults (0.02). SEED: which ones, and which is first to look at the file (1)."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SHARE = float(os.environ.get("SHARE") or 0.02)
SEED = os.environ.get("SEED") or "1"
SECONDS = 60 + 6000 * SHARE

# The checks must find that what was answered OK was not written.
LIES = ["complete.wal", "complete.delete"]


def run(name, share):
    """How long it took, how it ended and what it printed."""
    operation, _, mode = name.partition(".")
    start = time.monotonic()
    # On a disk in memory, where a sync costs nothing. A sweep that was killed does not take its own folder away.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fencepost-", dir=memory) as folder:
        place = pathlib.Path(folder, "place")
        with subprocess.Popen(
            [sys.executable, "-B", "sweep.py", operation, mode, SEED, str(share)],
            cwd=HERE,
            env=dict(
                os.environ,
                LD_PRELOAD=str(HERE / "build/libfaults.so"),
                FAULTS_FOLDER=folder,
                FAULTS_PLACE=str(place),
                TMPDIR=folder,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
                ended = f"ended by {process.returncode}" if process.returncode not in (0, 1) else None
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, errors = process.communicate()
                ended = f"hung for {SECONDS:.0f} s"
        if ended and place.exists():
            output += f"{ended}, at: {place.read_text().strip()}\n"
    if errors:
        output += "printed: " + errors
    return time.monotonic() - start, process.returncode != 0 or bool(errors), output


def main():
    sys.path.insert(0, str(HERE.parent / "processes"))
    from operations import OPERATIONS

    every = [f"{operation}.{mode}" for operation in OPERATIONS for mode in ("wal", "delete")]
    # There are no checkpoints in the rollback modes.
    every.remove("checkpoint.delete")
    chosen = [name for name in every if not sys.argv[1:] or {name, name.partition(".")[0]} & set(sys.argv[1:])]
    work = [(name, str(SHARE)) for name in chosen] + [(name, "lies") for name in LIES if name in chosen]
    failed = faults = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for (name, share), (seconds, wrong, output) in zip(work, pool.map(run, *zip(*work))):
            if share == "lies":
                name += ", and nothing is written"
                found = ("cannot read the file", "integrity_check", "not stored")
                wrong = "write lies" not in output or not any(what in output for what in found) or "ended by" in output
            print(f"{'FAILED' if wrong else 'ok':6} {seconds:5.1f} s  {name}")
            counted = re.match(r"(\d+) faults in \d+ runs", output)
            if counted:
                faults += int(counted[1])
            if wrong:
                print(output, end="")
            elif counted and share != "lies":
                print("                 " + counted[0])
            sys.stdout.flush()
            failed += wrong
    print(f"{faults} faults injected (share {SHARE} of all, seed {SEED})")
    print(f"{len(work) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
