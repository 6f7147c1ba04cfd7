"""A client is killed before and after each system call by which it touches the files: what it was told stands, what it
was not told happened whole or not at all, and nobody else is held up."""

import sqlite3

from support import FULL, LATE, LONG, NORMAL, ROLLBACK, WAL, Case, Traced, claims, obeyed, read_rows

# A table in which every kind of call finds something to do,
TABLE = (
    "init",
    "enqueue_many x d a b c e",
    "claim d Z 0 5",
    "claim x A 1 49",
    "claim e Z 1 10",
    "complete e Z 1 2 result-of-e",
)

# and those calls. Moments are counted in the last one; "close" makes a checkpoint.
CALLS = {
    "open": [],
    "enqueue": ["enqueue n"],
    "claim": ["claim a A 10 50"],
    "renew": ["renew x A 1 20 100"],
    "complete": ["complete x A 1 20 result"],
    "release": ["release x A 1"],
    "release_at": ["release_at x A 1 70"],
    "claim_next": ["next A 10 50"],
    "claim_batch": ["batch A 10 50 3"],
    "complete_and_claim_next": ["complete_next x A 1 20 result 50"],
    "enqueue_many": ["enqueue_many n1 n2 n3"],
    "close": ["enqueue n", "close"],
}

# Others: there are none, one that has the file open, and one that calls while the killed one holds what it holds.
ALONE, OPEN, CALLING = "alone", "open", "calling"
OTHERS = (ALONE, OPEN, CALLING)

# A page in the log, with its header.
FRAME = 4096 + 24

# How many moments of each are looked at in the short form.
FEW = 8


class Moments(Case):
    """Counts what it does, for the line that each test prints."""

    def setUp(self):
        super().setUp()
        self.kills = self.waited = 0
        self.slowest = 0.0
        # What is put there before each kill, and what the table holds then.
        self.files, self.rows = {}, None

    def say(self, of):
        print(
            f"         {of}: {self.kills} kills; {self.waited} with another one waiting; "
            f"the slowest call of another one took {1000 * self.slowest:.0f} ms",
            flush=True,
        )

    def make(self, flags):
        """The files of a table that nobody has open."""
        client = self.client().open(NORMAL, flags)
        for order in (*TABLE, "close"):
            client.ok(order)
        client.end()
        self.files = self.taken("-shm")
        self.rows = read_rows(self.path)

    def at_every_moment(self, orders, first, flags, durability, few=FEW):
        """Kills it at the first moment, the second, ... until it gets through; in the short form at some of them."""
        for other in OTHERS:
            count = self.at(-1, orders, first, flags, durability, other)
            self.assertGreater(count, 0, "it touches no file")
            if LONG and count < 2000:
                moment = 0
                while self.at(moment, orders, first, flags, durability, other) is None:
                    moment += 1
            else:
                for moment in self.random.sample(range(count), min(count, 200 if LONG else few)):
                    self.at(moment, orders, first, flags, durability, other)

    def at(self, moment, orders, first, flags, durability, others):
        """Kills it at this moment and looks at what is left. How many there are, when it was not killed."""
        self.put(self.files)
        other = None
        if others != ALONE:
            other = self.client().open(durability, flags)
            if self.files:
                other.ok("state x")
        traced = Traced(
            self.folder,
            [f"open {self.path} {durability} {flags} 5000", *orders],
            first,
            moment,
            "hold" if others == CALLING else "kill",
        )
        at = traced.come_to()
        asked = None
        if at and others == CALLING:
            # It may have to wait for what the killed one holds. Then it goes on when that one dies.
            asked = "claim c W 10 50" if self.files else "init"
            other.start(asked)
            other.begins()
            self.waited += other.is_silent(0.004)
        traced.go_on()
        count = traced.end()
        self.kills += count is None
        with self.subTest(moment=moment, at=at, others=others, orders=orders, flags=flags, durability=durability):
            self.assertEqual(count is None, at is not None)
            meanwhile = self.fine(asked, other.answer()) if asked else None
            self.look(traced.answers(), meanwhile, asked, other, flags, durability, first=moment % 2)
        if other:
            other.end()
        return count

    def fine(self, order, answer):
        """That another one was held up no longer than it allows, and got no error."""
        self.slowest = max(self.slowest, answer.seconds)
        self.assertNotIn("BUSY", answer.status, order)
        self.assertIn(answer.status, ("OK", "HELD", "EXISTS"), order)
        self.assertLess(answer.seconds, 5, order)
        return answer

    def possible(self, told):
        """What the table may hold."""
        rows = self.rows
        for number, (order, answer) in enumerate(told):
            done = obeyed(rows, order)
            if answer is None:
                self.assertEqual(number, len(told) - 1)
                return [rows, done]
            self.assertEqual(answer.status, "OK", order)
            if claims(order):
                granted = [
                    (job, row.fence) for job, row in done.items() if row.fence != rows.get(job, row).fence
                ]
                self.assertEqual(sorted(answer.grants()), sorted(granted), order)
            rows = done
        return [rows]

    def look(self, told, meanwhile, asked, other, flags, durability, first):
        """Holds what is left against what was told: with SQLite first, or with fencepost, which may mend it."""
        possible = self.possible(told)
        if asked:
            # The other one's call may have come before or after; they are about different jobs.
            self.assertEqual(meanwhile.status, "OK", asked)
            possible = [obeyed(rows, asked.split()) for rows in possible]
        if first:
            self.assertIn(read_rows(self.path), possible)
        if other is None:
            other = self.client().open(durability, flags)
        self.fine("init", other.ask("init"))
        rows = read_rows(self.path)
        self.assertIn(rows, [{} if each is None else each for each in possible])
        for job, row in rows.items():
            self.assertEqual(self.fine("state", other.ask(f"state {job}")).row(), row, job)
        self.work_on(other, rows)
        other.end()

    def work_on(self, other, rows):
        """Every job that is not done is granted to another one, with a higher fence, and it completes it."""
        for job in sorted(rows):
            if rows[job].done:
                self.assertEqual(other.ask(f"claim {job} B {LATE} 10").status, "DONE")
                continue
            claimed = self.fine("claim", other.ask(f"claim {job} B {LATE} 10"))
            self.assertEqual(claimed.status, "OK")
            self.assertGreater(claimed.grants()[0][1], rows[job].fence)
            order = f"complete {job} B {rows[job].fence + 1} {LATE} theirs"
            self.assertEqual(self.fine("complete", other.ask(order)).status, "OK")
            rows = obeyed(rows, order.split())
            rows[job] = rows[job]._replace(owner="B", until=float(LATE + 10), fence=rows[job].fence + 1)
        self.assertEqual(self.fine("enqueue", other.ask("enqueue last")).status, "OK")
        self.assertEqual(read_rows(self.path), obeyed(rows, ["enqueue", "last"]))


class EachCall(Moments):
    def each(self, name, flags):
        self.make(flags)
        orders = CALLS[name]
        for durability in (FULL, NORMAL):
            self.at_every_moment(orders, len(orders), flags, durability)
        self.say(name)


def add_tests():
    for name in CALLS:
        for flags, journal in ((WAL, "wal"), (ROLLBACK, "rollback_journal")):
            setattr(
                EachCall,
                f"test_{name}_with_{journal}",
                lambda self, name=name, flags=flags: self.each(name, flags),
            )


add_tests()


class NewFile(Moments):
    def init_db(self, flags):
        for durability in (FULL, NORMAL):
            self.at_every_moment(["init"], 0, flags, durability, few=10)
        self.say("open and init_db")

    def test_init_db_with_wal(self):
        self.init_db(WAL)

    def test_init_db_with_rollback_journal(self):
        self.init_db(ROLLBACK)


class Waiting(Moments):
    """It is killed while it waits for the lock of another program."""

    def test_one_that_waits_for_the_lock(self):
        self.make(WAL)
        waits = 0
        for moment in range(60) if LONG else self.random.sample(range(60), 15):
            self.put(self.files)
            other = self.client().open(self.random.choice((FULL, NORMAL)))
            other.ok("state x")
            program = sqlite3.connect(self.path)
            program.execute("BEGIN IMMEDIATE")
            # It waits again and again, with many calls, for longer than these moments.
            orders = [f"open {self.path} {FULL} {WAL} 60000", "claim a A 10 50"]
            traced = Traced(self.folder, orders, 1, 100 + 3 * moment)
            waits += traced.come_to() == "futex"
            self.assertIsNone(traced.end())
            self.kills += 1
            program.rollback()
            program.close()
            with self.subTest(moment=moment):
                self.look(traced.answers(), None, None, other, WAL, FULL, first=moment % 2)
            other.end()
        self.say("waiting for the lock")
        self.assertGreater(waits, 0, "none was killed while it slept")


class Checkpoint(Moments):
    """The log is nearly long enough, so that the call makes a checkpoint in a thread of its own."""

    def make_long_log(self):
        client = self.client().open(NORMAL)
        for order in TABLE:
            client.ok(order)
        # While somebody reads what is there now, the log does not begin anew.
        reader = sqlite3.connect(self.path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM jobs").fetchone()
        log = self.database / "jobs.db-wal"
        while log.stat().st_size < 1000 * FRAME:
            client.ok("grow x A 1 20 20")
        client.ok("alone")
        # Killed, it leaves the log.
        client.end()
        reader.rollback()
        self.files = self.taken("-shm")
        reader.close()
        self.rows = read_rows(self.path)

    def assert_copied(self, order):
        """That the call makes a checkpoint: it changes the database, though another one has that open."""
        self.put(self.files)
        other = self.client().open()
        other.ok("state x")
        worker = self.client().open()
        worker.ok(order)
        worker.ok("alone")
        self.assertTrue(self.taken()["jobs.db"] != self.files["jobs.db"], "there was no checkpoint")
        worker.end()
        other.end()

    def test_while_a_checkpoint_is_made(self):
        self.make_long_log()
        self.assert_copied("enqueue n")
        for durability in (FULL, NORMAL):
            self.at_every_moment(["enqueue n", "alone", "close"], 1, WAL, durability, few=20)
        self.say("checkpoint")


class Liar(Moments):
    """That these tests can fail: a client that tells before it calls is found out."""

    def test_an_answer_before_the_call_is_found_out(self):
        self.make(WAL)
        found = 0
        # Counted after both of its answers: it tells the second one before that call, too.
        for moment in range(0, 30, 4):
            self.put(self.files)
            traced = Traced(self.folder, [f"open {self.path} 0 0 5000", "enqueue n"], 2, moment, mode="early")
            traced.come_to()
            if traced.end() is not None:
                break
            try:
                self.look(traced.answers(), None, None, None, WAL, FULL, first=1)
            except AssertionError as error:
                found += "not found in" in str(error)
        self.assertGreater(found, 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
