"""Eight processes on one file, each killed and replaced again and again at random moments."""

from storm import Storm, Verdict, claim_all, stored
from support import LONG, ROLLBACK, WAL, Case

# In each round, with each journal.
KILLS = 250 if LONG else 100


class Random(Case):
    def storm(self, flags, kills, mode="-"):
        """The verdict after so many kills."""
        client = self.client().open(flags=flags)
        client.ok("init")
        storm = Storm(self.folder, self.path, self.random, flags, mode)
        storm.run(kills)
        rows = stored(self.path)
        verdict = Verdict(storm.told(), rows)
        verdict.wrong += claim_all(client, rows)
        stored(self.path)
        client.end()
        return verdict

    def assert_stands(self, flags):
        verdict = self.storm(flags, KILLS)
        print(
            f"         {KILLS} kills, {verdict.cut_short} of them in a call; {sum(verdict.answers.values())} answers, "
            f"{verdict.answers['OK']} OK; {sum(map(len, verdict.completed.values()))} completions; "
            f"the slowest call took {1000 * verdict.slowest:.0f} ms",
            flush=True,
        )
        self.assertEqual(verdict.wrong[:10], [])
        self.assertGreater(verdict.answers["OK"], KILLS)

    def test_kills_with_wal(self):
        self.assert_stands(WAL)

    def test_kills_with_a_rollback_journal(self):
        self.assert_stands(ROLLBACK)

    def test_answers_before_the_calls_are_found_out(self):
        """That these tests can fail."""
        wrong = self.storm(WAL, 30, mode="early").wrong
        self.assertTrue([what for what in wrong if what.startswith(("completed twice", "a completion was undone"))])


if __name__ == "__main__":
    import unittest

    unittest.main()
