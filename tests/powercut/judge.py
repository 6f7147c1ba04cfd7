"""Checks every answer of a recording against every state of the disk that a power cut could have left behind it.

What the programs see on the way, with no cut, is the history: the contents of the table `jobs`, one after the other. An
answer rests on the first content of the history that it can be true of. A state of the disk is in order when what
SQLite makes of it is one of these contents, and none of the answers given before the cut rests on a later one.

A cut is looked at just before the end of each sync that makes something durable, and at the end. That is every cut
there is: between two such ends more may be on the disk and more may have been answered, but nothing becomes certain, so
the last cut leaves all that the ones before it could, and must be true to all that they must.
"""

import bisect
import itertools
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


# How many jobs client.c adds or claims at once, at most.
MANY = 3

# A job that was just added.
NEW = Row(None, 0.0, 0, None, False)


class Call(NamedTuple):
    """A call as client.c writes it, and when it began."""

    begin: int
    floor: int  # The newest content that an answer was given about before it began.
    operation: str
    job: str
    arguments: tuple
    weak: bool  # At NORMAL, where a power cut may undo the answer.
    alone: bool  # No other thread of the process has called: no other change is in its transaction.

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

    def grants(self):
        """The jobs and fences that were granted."""
        if self.status != "OK":
            return []
        if self.call.operation == "claim":
            return [(self.call.job, int(self.value[0]))]
        if self.call.operation in ("claim_next", "claim_batch", "complete_and_claim_next"):
            return [(job, int(fence)) for job, fence in zip(self.value[::2], self.value[1::2])]
        return []


class Violation(NamedTuple):
    kind: str  # "claim OK" and so on for an answer that was undone; "unsound", "torn", "untrue" otherwise.
    at: int
    story: str
    answer: object = None
    image: object = None


def _text(word):
    return None if word == "\\N" else word


def about_jobs(call, status, value):
    """What the answer says of single jobs: pairs of a job and a test that its row passes, when it is the one that the
    answer is about, or one that came after that (None: there is none). Empty for an answer that says nothing of the
    kind."""
    operation, job, arguments = call.operation, call.job, call.arguments
    if operation == "enqueue_many":
        return [(job, _is_there) for job in arguments]
    if operation in ("claim_next", "claim_batch"):
        return [_granted(job, fence, arguments[0]) for job, fence in zip(value[::2], value[1::2])]
    if status == "NOT_FOUND":
        return [(job, lambda row: row is None)]
    if status == "EXISTS" or operation in ("enqueue", "enqueue_at"):
        return [(job, _is_there)]
    if status == "DONE":
        return [(job, lambda row: row is not None and row.done)]
    if operation == "state":
        return [(job, lambda row: row == _row(*value))]
    if operation == "claim":
        if status == "HELD":
            return [(job, lambda row: row is not None and not row.done and row.until > float(arguments[1]))]
        return [_granted(job, value[0], arguments[0])]
    owner, fence = arguments[0], int(arguments[1])
    tests = {
        "STALE": lambda row: row is not None and not row.done and (row.owner, row.fence) != (owner, fence),
        "EXPIRED": lambda row: row is not None
        and not row.done
        and (row.owner, row.fence) == (owner, fence)
        and row.until <= float(arguments[2]),
        "OK": lambda row: row is not None and (row.fence > fence or (row.fence == fence and _done(call, row))),
    }
    parts = [(job, tests[status])]
    if operation == "complete_and_claim_next" and status == "OK" and value[0] != "\\N":
        parts.append(_granted(*value, owner))
    return parts


def _is_there(row):
    return row is not None


def _granted(job, fence, owner):
    fence = int(fence)
    return job, lambda row: row is not None and (row.fence > fence or (row.fence == fence and row.owner == owner))


def _done(call, row):
    """Whether the row is as the call, which was granted, has made it."""
    if call.operation == "renew":
        return row.until == float(call.arguments[3])
    if call.operation in ("release", "release_at"):
        return row.owner is None
    return row.done and row.result == call.arguments[3]


def about_all(call, value):
    """What the answer says of the whole table: a test that its rows pass; None when it says nothing of the kind."""
    if call.operation == "init":
        return lambda rows: rows is not None
    if call.operation in ("claim_next", "claim_batch") and not value and call.alone:
        # Otherwise it can have been true of no content, but between two changes of a transaction.
        return lambda rows: not any(_claimed(row, *call.arguments[:3]) for row in (rows or {}).values())
    if call.operation not in ("count", "list"):
        return None
    condition, now = call.arguments[0], float(call.arguments[1])
    conditions = {
        "1": lambda row: not row.done and row.until <= now,
        "2": lambda row: not row.done and row.until > now and row.owner is not None,
        "3": lambda row: not row.done and row.until > now and row.owner is None,
        "4": lambda row: row.done,
    }

    def found(rows):
        return sorted(job for job, row in (rows or {}).items() if conditions[condition](row))

    if call.operation == "count":
        return lambda rows: len(found(rows)) == int(value[0])
    told = {value[i]: _row(*value[i + 1 : i + 6]) for i in range(0, len(value), 6)}
    most = int(call.arguments[2])
    return lambda rows: found(rows)[:most] == sorted(told) and all(rows[job] == row for job, row in told.items())


def _row(owner, until, fence, result, done):
    return Row(_text(owner), float(until), int(fence), _text(result), done == "1")


def effects(call, rows, wanted):
    """What the call may do to these rows on the way to the wanted ones: for each way {job: its new row}. Whatever is
    done to a row, it is never again as it was."""
    operation, job, arguments = call.operation, call.job, call.arguments
    row = rows.get(job)
    if operation == "enqueue_many":
        return [{job: NEW for job in arguments if job not in rows}]
    if operation == "claim_next":
        return _grants(rows, wanted, arguments, 1)
    if operation == "claim_batch":
        return _grants(rows, wanted, arguments, MANY)
    if operation in ("enqueue", "enqueue_at") and row is None:
        return [{job: NEW._replace(until=float(arguments[0])) if arguments else NEW}]
    if operation == "claim" and row is not None and _claimed(row, *arguments):
        return [{job: _claimed(row, *arguments)}]
    if operation not in ("renew", "complete", "complete_and_claim_next", "release", "release_at"):
        return []
    if row is None or row.done or (row.owner, row.fence) != (arguments[0], int(arguments[1])):
        return []
    if operation in ("release", "release_at"):
        return [{job: row._replace(owner=None, until=float(arguments[2]) if arguments[2:] else 0.0)}]
    if row.until <= float(arguments[2]):
        return []
    if operation == "renew":
        return [{job: row._replace(until=float(arguments[3]))}]
    done = {job: row._replace(result=arguments[3], done=True)}
    if operation == "complete":
        return [done]
    lease = arguments[0], arguments[2], arguments[4]
    return [done, *({**done, **grant} for grant in _grants({**rows, **done}, wanted, lease, 1))]


def _grants(rows, wanted, lease, most):
    """The ways to grant up to so many of the jobs."""
    others = {job: _claimed(row, *lease) for job, row in rows.items() if row != wanted.get(job)}
    grants = [(job, row) for job, row in others.items() if row]
    return [dict(some) for count in range(most) for some in itertools.combinations(grants, count + 1)]


def _claimed(row, owner, now, until):
    """The row when it is claimed; None when it cannot be."""
    if row.done or row.until > float(now):
        return None
    return Row(owner, float(until), row.fence + 1, row.result, False)


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

    def rests_on(self, call, status, value, at):
        """The first content that the answer, given at that record, can be about; None when there is none, and 0 when it
        can be about any."""
        last = bisect.bisect_left(self.since, at) - 1
        test = about_all(call, value)
        if test:
            numbers = (number for number in range(call.floor, last + 1) if test(self.contents[number].rows))
            return next(numbers, None)
        found = [self._first(job, test, call.floor, last) for job, test in about_jobs(call, status, value)]
        return None if None in found else max(found, default=0)

    def _first(self, job, test, floor, last):
        numbers, rows = self._jobs.get(job, ([0], [None]))
        start = bisect.bisect_right(numbers, floor) - 1
        for number, row in zip(numbers[start:], rows[start:]):
            if number > last:
                break
            if test(row):
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


def _unanswered(records):
    """The records of the calls that never came back, because their process was killed."""
    begun = {}
    for record in records:
        if record.type == recording.CALL:
            begun[record.thread] = record.at
        elif record.type == recording.ANSWER:
            del begun[record.thread]
    return set(begun.values())


class Judge:
    """`probe(image, rows, fences)`, when given, looks at a sample of the states in a way of its own; `fences` are the
    highest that were granted by then. It answers None, or what is wrong. `strict`: answers at NORMAL are held to the
    same as those at FULL."""

    def __init__(self, records, folder, seed, depth=DEPTH, probe=None, share=0.01, strict=False):
        self.records = records
        self.looker = Looker(folder)
        self.seed, self.depth = seed, depth
        self.probe, self.share = probe, share
        self.strict = strict
        self.history = History()
        self.disk = disk.Disk()
        self.answers = []
        self.violations = []
        self.cuts = self.states = self.probed = 0
        self._told = 0  # The newest content that an answer was given about,
        self._promised = 0  # and that one of those rests on which must outlive a cut.
        self._calls = {}
        self._threads = {}  # For each process those that have called.
        self._unanswered = _unanswered(records)
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
                self._call(record)
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

    def _call(self, record):
        operation, job, *arguments = record.text.decode().split("\t")
        threads = self._threads.setdefault(record.process, set())
        threads.add(record.thread)
        self._calls[record.thread] = Call(
            record.at,
            self._told,
            operation.lstrip("~"),
            job,
            tuple(arguments),
            weak=operation.startswith("~") and not self.strict,
            alone=len(threads) == 1,
        )

    def _answer(self, record):
        call = self._calls.pop(record.thread)
        status, *value = record.text.decode().split("\t")
        if status not in TELLING:
            return
        rests_on = self.history.rests_on(call, status, value, record.at)
        answer = Answer(record.at, call, status, value, rests_on)
        if rests_on is None:
            self._violate("untrue", record.at, f"record {record.at}: {answer}: the table said otherwise", answer)
            return
        self._told = max(self._told, rests_on)
        if not call.weak:
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
        if number is None and content.rows is not None and self._went_on(content):
            return
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

    def _went_on(self, content):
        """Whether calls that their process did not outlive make this content of one that may be there.

        One that is killed while it writes its transaction leaves the begin of it in the log, and the next one writes
        over that. A cut can leave some pages of the one and some of the other. Where what they write to the end of the
        transaction is the same, that can be the whole of the one that was killed, though no program has seen it."""
        calls = frozenset(call for call in self._calls.values() if call.begin in self._unanswered)
        may_be_there = self.history.contents[self._promised :]
        return bool(calls) and any(self._lead(calls, old.rows or {}, content.rows, set()) for old in may_be_there)

    def _lead(self, calls, rows, wanted, seen):
        """Whether some of these calls, each once and in any order, make the wanted rows of these."""
        different = sum(row != rows.get(job) for job, row in wanted.items())
        if not different:
            return len(rows) == len(wanted)
        state = calls, frozenset(rows.items())
        if different > MANY * len(calls) or state in seen:
            return False
        seen.add(state)
        return any(
            self._lead(calls - {call}, {**rows, **change}, wanted, seen)
            for call in calls
            for change in effects(call, rows, wanted)
        )

    def _fences(self):
        fences = {}
        for answer in self.answers:
            for job, fence in answer.grants():
                fences[job] = max(fence, fences.get(job, 0))
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
