"""What many clients are answered could have been answered by jobs that take their calls one after the other; and the tests
that say so can fail."""

import contextlib
import random
import sqlite3

from support import FULL, KEEP_JOURNAL_MODE, NORMAL, Case, rounds

# With a rollback journal readers and writers wait for each other, and much longer.
CALLS = {0: 7000, KEEP_JOURNAL_MODE: 3000}
KILLS = 3

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
    """The same clients, and something that is not as it should be."""

    @rounds
    def test_one_answer_that_is_changed_is_found(self, seed):
        self.make_calls(1000)
        self.assert_linearizable()
        chance = random.Random(seed)
        for operation, wrong in (
            ("claim", lambda words: [*words[:-1], str(int(words[-1]) + 1)]),
            ("complete", lambda words: [*words[:-1], "STALE"]),
            ("enqueue", lambda words: [*words[:-1], "EXISTS"]),
            ("release", lambda words: [*words[:-1], "DONE"]),
            ("state", lambda words: [*words[:-3], str(int(words[-3]) + 1), *words[-2:]]),
        ):
            path, number, lines = self.pick(chance, operation)
            with self.subTest(line=lines[number]):
                changed = [*lines[:number], " ".join(wrong(lines[number].split())), *lines[number + 1 :]]
                path.write_text("\n".join(changed) + "\n")
                self.assertFalse(self.check()[0])
                path.write_text("\n".join(lines) + "\n")

    def pick(self, chance, operation):
        """One of the calls that were answered with OK."""
        found = []
        for path in sorted(self.histories.iterdir()):
            lines = path.read_text().splitlines()
            found += [(path, n, lines) for n, line in enumerate(lines) if f" {operation} " in line and " OK" in line]
        return chance.choice(found)

    @rounds
    def test_a_fence_that_another_program_sets_back_is_found(self, seed):
        self.make_calls(1000, at_dot=self.once("UPDATE jobs SET fence = fence - 1 WHERE fence > 1"))
        self.assertFalse(self.check()[0])

    @rounds
    def test_a_lease_that_another_program_takes_is_found(self, seed):
        self.make_calls(1000, at_dot=self.once("UPDATE jobs SET owner = 'thief', fence = fence + 1"))
        self.assertFalse(self.check()[0])

    @rounds
    def test_a_result_that_another_program_changes_is_found(self, seed):
        self.make_calls(1000, at_dot=self.once("UPDATE jobs SET result = 'other' WHERE done", 50))
        self.assertFalse(self.check()[0])

    def once(self, statement, dot=30):
        """Executes it when so many dots have come."""
        dots = iter(range(1, 1_000_000))

        def at_dot():
            if next(dots) == dot:
                with contextlib.closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as database:
                    self.assertGreater(database.execute(statement).rowcount, 0)

        return at_dot
