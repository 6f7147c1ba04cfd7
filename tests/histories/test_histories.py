"""What many clients are answered could have been answered by jobs that take their calls one after the other; and the tests
that say so can fail."""

import contextlib
import itertools
import random
import re
import sqlite3

from support import FULL, KEEP_JOURNAL_MODE, NORMAL, Case, once, rounds

# With a rollback journal readers and writers wait for each other, and much longer.
CALLS = {0: 7000, KEEP_JOURNAL_MODE: 3000}
KILLS = 3

# In a run that something is wrong with.
MANY = 3000

OPERATIONS = {
    "enqueue",
    "enqueue_at",
    "enqueue_many",
    "state",
    "claim",
    "claim_many",
    "claim_next",
    "claim_batch",
    "renew",
    "complete",
    "complete_and_claim_next",
    "release",
    "release_at",
}


class Histories(Case):
    def judge(self, durability, flags=0):
        kills = self.make_calls(CALLS[flags], durability, flags, KILLS)
        counts = self.assert_linearizable(kills)
        self.assertGreater(counts["calls"], CALLS[flags] * 0.8)
        self.assertTrue(kills, "nobody was killed")
        self.assert_varied(counts["answers"])

    def assert_varied(self, answers):
        """That there was something to decide."""
        asked, statuses = (set(words) for words in zip(*map(str.split, answers)))
        self.assertEqual(asked, OPERATIONS)
        self.assertEqual(statuses, {"OK", "EXISTS", "NOT_FOUND", "HELD", "DONE", "STALE", "EXPIRED"})

    @rounds
    def test_in_wal_mode(self, seed):
        self.judge(FULL)

    @rounds
    def test_in_wal_mode_at_normal(self, seed):
        self.judge(NORMAL)

    @rounds
    def test_with_a_rollback_journal(self, seed):
        self.judge(FULL, KEEP_JOURNAL_MODE)

    @rounds
    def test_with_a_rollback_journal_at_normal(self, seed):
        self.judge(NORMAL, KEEP_JOURNAL_MODE)


class Faults(Case):
    """The same clients, and something that is not as it should be. Once is enough."""

    @once
    def test_one_answer_that_is_changed_is_found(self, seed):
        self.make_calls(MANY)
        self.assert_linearizable()
        chance = random.Random(seed)
        for operation, wrong in (
            ("claim", lambda values: ["OK", str(int(values[1]) + 1)]),
            ("complete|complete_and_claim_next", lambda values: ["STALE"]),
            ("enqueue", lambda values: ["EXISTS"]),
            ("release", lambda values: ["DONE"]),
            ("state", lambda values: [*values[:3], str(int(values[3]) + 1), *values[4:]]),
        ):
            path, line = self.pick(chance, rf"\d+ ({operation}) .* OK.*")
            with self.subTest(line=line):
                text = path.read_text()
                call, values = line.split(" OK")
                changed = " ".join([call, *wrong(["OK", *values.split()])])
                path.write_text(text.replace(line, changed))
                self.assertFalse(self.check()[0], changed)
                path.write_text(text)

    def pick(self, chance, pattern):
        """One of the lines that were written down, and its file."""
        lines = [(path, line) for path in sorted(self.histories.iterdir()) for line in path.read_text().splitlines()]
        return chance.choice([(path, line) for path, line in lines if re.fullmatch(pattern, line)])

    @once
    def test_a_fence_that_another_program_sets_back_is_found(self, seed):
        self.assert_found("UPDATE jobs SET fence = fence - 1 WHERE fence > 1")

    @once
    def test_a_lease_that_another_program_takes_is_found(self, seed):
        self.assert_found("UPDATE jobs SET owner = 'thief', fence = fence + 1 WHERE NOT done")

    @once
    def test_a_result_that_another_program_changes_is_found(self, seed):
        self.assert_found("UPDATE jobs SET result = 'other' WHERE done")

    def assert_found(self, statement):
        """Has it executed in the middle of the work, once it changes something."""
        dots = itertools.count()
        changed = []

        def at_dot():
            if next(dots) >= 30 and not changed:
                with contextlib.closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as database:
                    if database.execute(statement).rowcount > 0:
                        changed.append(statement)

        self.make_calls(MANY, at_dot=at_dot)
        self.assertTrue(changed)
        self.assertFalse(self.check()[0])
