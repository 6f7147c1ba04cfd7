"""The story: a worker claims and is stopped, another one takes over when the lease is over, the first one goes on and
completes. No stale write is stored, and what each was told is what is in the file."""

from support import FULL, LONG, NORMAL, ROLLBACK, WAL, Case, Traced, read_rows

# How many stops in a round, of each kind and with each journal.
STOPS = 100 if LONG else 25

# How long the other one waits for a lock of the stopped one, and how much later the machine may let it say so.
TIMEOUT_MS = 20
LATER = 2.0

CLAIM = "claim x A 0 10"
# By its own clock, before the end of its lease: it has stood still like the worker.
COMPLETE = "complete x A 1 5 A's"


class Stops(Case):
    def setUp(self):
        super().setUp()
        self.stops = self.busy = self.taken_over = self.in_time = 0

    def say(self):
        print(
            f"         {self.stops} stops: in {self.busy} the file was locked, in {self.taken_over} the job was taken "
            f"over, in {self.in_time} the stopped one had completed it",
            flush=True,
        )

    def begin(self, flags):
        """A new file with a job, and the other worker."""
        self.put({})
        other = self.client().open(FULL, flags, TIMEOUT_MS)
        for order in ("init", "enqueue x"):
            other.ok(order)
        return other

    def take_over(self, other):
        """What another worker does once the lease is over, while the first one is stopped. Its status, and whether it
        has completed the job."""
        self.stops += 1
        claimed = self.within_timeout(other, "claim x B 20 100")
        self.assertIn(claimed.status, ("OK", "DONE", "BUSY"))
        # A writer holds off a reader for a moment only, and with a write-ahead log never.
        looked = self.within_timeout(other, "state x")
        self.assertIn(looked.status, ("OK", "BUSY"))
        self.busy += claimed.status == "BUSY"
        if claimed.status == "OK":
            self.assertEqual(claimed.grants(), [("x", 2)])
            if self.random.random() < 0.5:
                completed = self.within_timeout(other, "complete x B 2 21 B's")
                self.assertIn(completed.status, ("OK", "BUSY"))
                return claimed.status, completed.status == "OK"
        return claimed.status, False

    def within_timeout(self, other, order):
        answer = other.ask(order)
        self.assertLess(answer.seconds, TIMEOUT_MS / 1000 + LATER, order)
        return answer

    def assert_true(self, other, first, claimed, completed):
        """That what each was told is what is in the file. `first`: what the first one was told at last."""
        row = read_rows(self.path)["x"]
        if claimed == "OK":
            self.taken_over += 1
            self.assertEqual(first, "DONE" if completed else "STALE")
            self.assertEqual(row[:1] + row[2:], ("B", 2, "B's" if completed else None, completed))
            if not completed:
                # Its lease still runs.
                self.assertEqual(other.ask("complete x B 2 22 B's").status, "OK")
                row = read_rows(self.path)["x"]
            self.assertEqual(row, ("B", 120.0, 2, "B's", True))
        else:
            self.in_time += claimed == "DONE"
            self.assertEqual(first, "OK")
            self.assertEqual(row, ("A", 10.0, 1, "A's", True))
            # The others go on when the first one has.
            self.assertEqual(other.ask("claim x B 30 100").status, "DONE")
        self.assertEqual(other.ask("enqueue y").status, "OK")

    def at_a_random_time(self, flags, mode="-"):
        """It is stopped while it completes, a little before that, or after."""
        other = self.begin(flags)
        worker = self.client(mode).open(self.random.choice((FULL, NORMAL)), flags)
        worker.ask(CLAIM)
        worker.start(COMPLETE)
        if self.random.random() < 0.8:
            worker.begins()
        for _ in range(int(10 ** self.random.uniform(2, 5.7))):
            pass
        worker.stop()
        claimed, completed = self.take_over(other)
        worker.go_on()
        self.assert_true(other, worker.answer().status, claimed, completed)
        worker.end()
        other.end()

    def at_a_call(self, moment, flags, durability):
        """It is stopped at one of its system calls. How many there are, when it was not."""
        other = self.begin(flags)
        orders = [f"open {self.path} {durability} {flags} 5000", CLAIM, COMPLETE]
        traced = Traced(self.folder, orders, 2, moment, "stop")
        at = traced.come_to()
        claimed, completed = self.take_over(other) if at else (None, None)
        traced.go_on()
        count = traced.end()
        if at:
            with self.subTest(moment=moment, at=at, flags=flags, durability=durability):
                self.assert_true(other, traced.answers()[-1][1].status, claimed, completed)
        other.end()
        return count if not at else None

    def test_at_a_random_time_with_wal(self):
        for _ in range(STOPS):
            self.at_a_random_time(WAL)
        self.say()

    def test_at_a_random_time_with_a_rollback_journal(self):
        for _ in range(STOPS):
            self.at_a_random_time(ROLLBACK)
        self.say()

    def at_calls(self, flags):
        for durability in (FULL, NORMAL):
            count = self.at_a_call(-1, flags, durability)
            moments = range(count) if LONG else self.random.sample(range(count), min(count, STOPS // 2 + 1))
            for moment in moments:
                self.at_a_call(moment, flags, durability)
        self.say()
        self.assertGreater(self.busy, 0, "none was stopped inside a transaction")

    def test_at_system_calls_with_wal(self):
        self.at_calls(WAL)

    def test_at_system_calls_with_a_rollback_journal(self):
        self.at_calls(ROLLBACK)


class Liar(Stops):
    """That these tests can fail: a worker that tells before it calls is found out."""

    test_at_a_random_time_with_wal = test_at_a_random_time_with_a_rollback_journal = None
    test_at_system_calls_with_wal = test_at_system_calls_with_a_rollback_journal = None

    def test_an_answer_before_the_call_is_found_out(self):
        found = 0
        for _ in range(20):
            try:
                self.at_a_random_time(WAL, mode="early")
            except AssertionError as error:
                found += "'OK' != 'STALE'" in str(error) or "'OK' != 'DONE'" in str(error)
        self.assertGreater(found, 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
