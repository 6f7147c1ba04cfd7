"""Takes out each safety measure in turn and sees that its test fails.

    make mutants                       # all, about a minute each
    make mutants ONLY="fence sync"     # those with such a word in their names
    run.py --texts                      # only that each text is still in its file, once

A copy of the sources in build/mutants is changed, never the sources. A test that passes without its measure is a
defect of the test; a text that is no longer in its file is one of this list.
"""

import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPY = ROOT / "build/mutants"

# A test that hangs without its measure has failed as well.
LIMIT = 300
HANGS = -1


class Measure(NamedTuple):
    what: str
    test: str
    file: str
    old: str
    new: str


ENTRY = re.compile(
    r"^## ([^\n]+)\ntest: ([^\n]+)\nfile: ([^\n]+)\n<<<<\n(.*?)\n====\n(.*?)\n?>>>>$", re.MULTILINE | re.DOTALL
)

MEASURES = [Measure(*entry) for entry in ENTRY.findall((HERE / "mutants.txt").read_text())]


def copy_sources():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            place(name, (ROOT / name).read_bytes())


def place(name, content):
    """Writes only what differs, so that little is built again."""
    file = COPY / name
    if file.exists() and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    shutil.copymode(ROOT / name, file)


def run(command):
    """Its exit status and what it printed."""
    ours = ("MAKE", "MFLAGS", "CARGO_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with subprocess.Popen(
        command,
        shell=True,
        cwd=COPY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return HANGS, ""
    return process.returncode, output


def build(test):
    return run("cargo test --no-run" if test.startswith("cargo") else "make stage")


def end(test):
    return run(test if test.startswith("cargo") else f"scripts/staged {test}")


@functools.cache
def passes(test):
    """Whether it passes with all measures in their places."""
    return build(test)[0] == 0 and end(test)[0] == 0


def misplaced(measure):
    """What is wrong with the measure's text, if anything."""
    count = (ROOT / measure.file).read_text().count(measure.old)
    return "" if count == 1 else f"the text is {count} times in {measure.file}"


def look(measure):
    """How the test ends without the measure; and what is wrong when it does not fail."""
    content = (ROOT / measure.file).read_text()
    if wrong := misplaced(measure):
        return "NOT SEEN", wrong
    if not passes(measure.test):
        return "NOT SEEN", "the test fails with it as well"
    place(measure.file, content.replace(measure.old, measure.new).encode())
    try:
        status, output = build(measure.test)
        if status:
            return "NOT SEEN", "it cannot be built so:\n" + "\n".join(output.splitlines()[-20:])
        status, _ = end(measure.test)
        if status == HANGS:
            return "hangs", ""
        return ("seen", "") if status else ("NOT SEEN", "the test passes without it")
    finally:
        place(measure.file, content.encode())


def look_at_texts():
    wrong = [f"{measure.what}: {why}" for measure in MEASURES if (why := misplaced(measure))]
    print("\n".join(wrong) or f"{len(MEASURES)} measures are in their places")
    return int(bool(wrong))


def main():
    if sys.argv[1:] == ["--texts"]:
        return look_at_texts()
    words = os.environ.get("ONLY", "").split()
    chosen = [m for m in MEASURES if not words or any(word in m.what for word in words)]
    copy_sources()
    bad = 0
    for measure in chosen:
        begun = time.monotonic()
        verdict, wrong = look(measure)
        bad += bool(wrong)
        print(f"{verdict:9} {time.monotonic() - begun:5.0f} s  {measure.what}: {measure.test}", flush=True)
        if wrong:
            print(re.sub("^", "    ", wrong, flags=re.MULTILINE), flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} measures are seen to be missing by their tests")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
