"""Checks every answer of a recording against every state of the disk that a power cut could have left behind it.

What the programs see on the way, with no cut, is the history: the contents of the table `jobs`, one after the other. An
answer rests on the first content of the history that it can be true of. A state of the disk is in order when what
SQLite makes of it is one of these contents, and none of the answers given before the cut rests on a later one.

A cut is looked at just before the end of each sync that makes something durable, and at the end. That is every cut
there is: between two such ends more may be on the disk and more may have been answered, but nothing becomes certain, so
the last cut leaves all that the ones before it could, and must be true to all that they must.
"""

import bisect
import pathlib
import random
import sqlite3
import sys
import tempfile
from typing import NamedTuple

import disk
import recording

# Answers that say something about the table. The others are errors, and promise nothing.
TELLING = {"OK", "EXISTS", "NOT_FOUND", "HELD", "DONE", "STALE", "EXPIRED"}

# How many violations of a kind are told.
STORIES = 3

# How many lines tell what is missing on the disk.
LINES = 12


# About how many states are looked at for each cut.
DEPTH = 40


class Row(NamedTuple):
    owner: object
    until: float
    fence: int
    result: object
    done: bool


def told(words):
    """In one line, a long result cut short."""
    return " ".join(word if len(word) < 60 else word[:50].rstrip() + "..." for word in words)


class Call(NamedTuple):
    """A call as client.c writes it, and when it began."""

    begin: int
    floor: int  # The newest content that an answer was given about before it began.
    operation: str
    job: str
    arguments: list

    def __str__(self):
        return told([self.operation, self.job, *self.arguments])


class Answer(NamedTuple):
    at: int
    call: Call
    status: str
    value: list
    rests_on: int

    def __str__(self):
        return f"{self.call} -> {told([self.status, *self.value])}"


class Violation(NamedTuple):
    kind: str  # "claim OK" and so on for an answer that was undone; "unsound", "torn", "untrue" otherwise.
    at: int
    story: str
    answer: object = None
    image: object = None


def _text(word):
    return None if word == "\\N" else word


def explains(call, status, value, row):
    """Whether the answer can be about this row (None: there is none); or rests on one that came before it."""
    operation, arguments = call.operation, call.arguments
    if status == "NOT_FOUND":
        return row is None
    if row is None:
        return False
    if status == "EXISTS":
        return True
    if status == "DONE":
        return row.done
    if operation == "enqueue":
        return True
    if operation == "state":
        owner, until, fence, result, done = value
        return row == Row(_text(owner), float(until), int(fence), _text(result), done == "1")
    if operation == "claim":
        owner, now = arguments[0], float(arguments[1])
        if status == "HELD":
            return not row.done and row.until > now
        fence = int(value[0])
        return row.fence > fence or (row.fence == fence and row.owner == owner)
    owner, fence = arguments[0], int(arguments[1])
    ours = row.owner == owner and row.fence == fence
    if status == "STALE":
        return not row.done and not ours
    if status == "EXPIRED":
        return not row.done and ours and row.until <= float(arguments[2])
    if operation == "complete":
        return row.done and row.fence == fence and row.result == arguments[3]
    if operation == "renew":
        return row.fence > fence or (row.fence == fence and row.until == float(arguments[3]))
    return row.fence > fence or (row.fence == fence and row.owner is None)


class Content:
    """What SQLite makes of a state of the disk: the rows of `jobs` by their ids, None when there is no such table; or
    what is wrong with it."""

    def __init__(self, rows=None, wrong=None):
        self.rows, self.wrong = rows, wrong
        self.key = wrong if wrong else None if rows is None else frozenset(rows.items())


class History:
    """The contents of the table, in their order. The first is no table at all."""

    def __init__(self):
        self.contents = [Content()]
        self.since = [-1]  # The record with which each content was there.
        self._numbers = {None: 0}
        self._jobs = {}  # For each job the numbers of the contents that changed its row, and the rows.

    def number(self, content):
        """None for a content that never was."""
        return self._numbers.get(content.key)

    def add(self, content, at):
        if content.key == self.contents[-1].key:
            return
        before, after = self.contents[-1].rows or {}, content.rows or {}
        number = len(self.contents)
        for job in {*before, *after}:
            row = after.get(job)
            if row != before.get(job):
                numbers, rows = self._jobs.setdefault(job, ([0], [None]))
                numbers.append(number)
                rows.append(row)
        self.contents.append(content)
        self.since.append(at)
        self._numbers[content.key] = number

    def first(self, call, status, value, at):
        """The first content that the answer, given at that record, can be about; None when there is none."""
        last = bisect.bisect_left(self.since, at) - 1
        if call.operation == "init":
            return next((n for n in range(call.floor, last + 1) if self.contents[n].rows is not None), None)
        numbers, rows = self._jobs.get(call.job, ([0], [None]))
        start = bisect.bisect_right(numbers, call.floor) - 1
        for number, row in zip(numbers[start:], rows[start:]):
            if number > last:
                return None
            if explains(call, status, value, row):
                return number
        return None


class Looker:
    """Puts images into a folder and reads them with a plain SQLite."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "jobs.db"

    def put(self, image):
        for name, content in image.items():
            (self.folder / name).write_bytes(content)

    def clear(self):
        for file in self.folder.iterdir():
            file.unlink()

    def read(self, image):
        self.put(image)
        try:
            database = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            try:
                return self._content(database)
            finally:
                database.close()
        except sqlite3.Error as error:
            return Content(wrong=str(error))
        finally:
            self.clear()

    @staticmethod
    def _content(database):
        # What the checkpoint at its end writes is thrown away.
        database.execute("PRAGMA synchronous = OFF")
        found = database.execute("PRAGMA integrity_check").fetchall()
        if found != [("ok",)]:
            return Content(wrong=str(found))
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchall():
            return Content()
        rows = database.execute("SELECT id, owner, until, fence, result, done FROM jobs")
        return Content({job: Row(*values, bool(done)) for job, *values, done in rows})


class Judge:
    """`probe(image, rows, fences)`, when given, looks at a sample of the states in a way of its own; `fences` are the
    highest that were granted by then. It answers None, or what is wrong. `weak`: the processes that were promised
    nothing."""

    def __init__(self, records, folder, seed, depth=DEPTH, probe=None, share=0.01, weak=()):
        self.records = records
        self.looker = Looker(folder)
        self.seed, self.depth = seed, depth
        self.probe, self.share = probe, share
        self.weak = weak
        self.history = History()
        self.disk = disk.Disk()
        self.answers = []
        self.violations = []
        self.cuts = self.states = self.probed = 0
        self._told = 0  # The newest content that an answer was given about,
        self._promised = 0  # and that one of those rests on which must outlive a cut.
        self._calls = {}
        self._by_key = {}
        self._by_digest = {}

    def run(self):
        """All that is wrong with the recording, up to a few stories of a kind."""
        since = 0  # The first record that has no cut behind it yet.
        for record in self.records:
            if record.type == recording.TROUBLE:
                self._violate("trouble", record.at, f"the log cannot express it: {record.text.decode()}")
            if self.disk.will_make_durable(record):
                self._cut(since, record.at)
                since = record.at
            self.disk.play(record)
        self._cut(since, len(self.records))
        return self.violations

    def whole(self):
        """The files as the programs have left them, by the log."""
        return self.disk.image([(act, None) for act in self.disk.unsynced])

    def _cut(self, since, at):
        self.cuts += 1
        chance = random.Random(f"{self.seed} {at}")
        states = []
        for act, chosen in self.disk.prefixes(since):
            if self._goes_on(act.at) and chance.random() > self.depth / 200:
                continue
            states.append(chosen)
            content = self._content(chosen)
            if content.wrong:
                self._violate("unsound", act.at, f"with no power cut: {content.wrong}")
            else:
                self.history.add(content, act.at)
        for record in self.records[since:at]:
            if record.type == recording.CALL:
                operation, job, *arguments = record.text.decode().split("\t")
                self._calls[record.thread] = Call(record.at, self._told, operation, job, arguments)
            elif record.type == recording.ANSWER:
                self._answer(record)
        states.extend(self.disk.choices(chance, self.depth))
        done = set()
        for chosen in states:
            key = self.disk.key(chosen)
            if key not in done:
                done.add(key)
                self._check(chosen, chance, at)

    def _goes_on(self, at):
        """Whether this record and the next one are writes of one thread: nobody else sees what is between them."""
        record, after = self.records[at : at + 2] if at + 1 < len(self.records) else (None, None)
        return (
            record is not None
            and record.type == after.type == recording.WRITE
            and record.thread == after.thread
        )

    def _answer(self, record):
        call = self._calls.pop(record.thread)
        status, *value = record.text.decode().split("\t")
        if status not in TELLING:
            return
        rests_on = self.history.first(call, status, value, record.at)
        answer = Answer(record.at, call, status, value, rests_on)
        if rests_on is None:
            self._violate("untrue", record.at, f"record {record.at}: {answer}: the table said otherwise", answer)
            return
        self._told = max(self._told, rests_on)
        if record.process not in self.weak:
            self.answers.append(answer)
            self._promised = max(self._promised, rests_on)

    def _content(self, chosen):
        key = self.disk.key(chosen)
        if key not in self._by_key:
            image = self.disk.image(chosen)
            digest = disk.digest(image)
            if digest not in self._by_digest:
                self._by_digest[digest] = self.looker.read(image)
                self.states += 1
            self._by_key[key] = self._by_digest[digest]
        return self._by_key[key]

    def _check(self, chosen, chance, at):
        content = self._content(chosen)
        number = self.history.number(content)
        if number is None:
            kind, why = ("unsound", content.wrong) if content.wrong else ("torn", "a content that never was")
            self._violate(kind, at, self._story(at, chosen, [why]), image=self.disk.image(chosen))
        elif number < self._promised:
            told = {}
            for answer in self.answers:
                if answer.rests_on > number:
                    told.setdefault(f"{answer.call.operation} {answer.status}", answer)
            for kind, answer in told.items():
                row = (content.rows or {}).get(answer.call.job)
                why = [f"record {answer.at}: {answer}", f"after the cut: {row}"]
                self._violate(kind, at, self._story(at, chosen, why), answer, self.disk.image(chosen))
        elif self.probe and content.rows is not None and chance.random() < self.share:
            self.probed += 1
            wrong = self.probe(self.disk.image(chosen), content.rows, self._fences())
            if wrong:
                self._violate("probe", at, self._story(at, chosen, [wrong]), image=self.disk.image(chosen))

    def _fences(self):
        fences = {}
        for answer in self.answers:
            if answer.call.operation == "claim" and answer.status == "OK":
                fences[answer.call.job] = max(int(answer.value[0]), fences.get(answer.call.job, 0))
        return fences

    def _story(self, at, chosen, why):
        missing = disk.describe(self.disk, chosen)
        if len(missing) > LINES:
            missing[LINES // 2 : -LINES // 2] = [f"  ... {len(missing) - LINES} more ..."]
        return "\n".join([*why, f"a cut before record {at}, where", *(missing or ["  nothing is missing"])])

    def _violate(self, kind, at, story, answer=None, image=None):
        if sum(violation.kind == kind for violation in self.violations) < STORIES:
            # What is durable goes on, and the image would with it.
            image = image and {name: bytes(content) for name, content in image.items()}
            self.violations.append(Violation(kind, at, story, answer, image))


def main(path, seed=1, depth=DEPTH):
    with tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
        judge = Judge(recording.read(path), pathlib.Path(folder), int(seed), int(depth))
        judge.run()
    print(f"{len(judge.answers)} answers, {judge.cuts} cuts, {judge.states} states")
    for violation in judge.violations:
        print(f"\n{violation.kind}\n{violation.story}")
    sys.exit(bool(judge.violations))


if __name__ == "__main__":
    main(*sys.argv[1:])
