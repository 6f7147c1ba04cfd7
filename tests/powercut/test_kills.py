"""Others go on where a process was killed. What it has written and not synced they can see: their answers, refusals and
reads as well, must not rest on that."""

import itertools

from support import AFTER, FULL, KEEP_JOURNAL_MODE, LIFE, NORMAL, Case, seeds

# In place of a write, and right after one: what it has committed may then be in the log, and nobody knows.
WRITES = ("kill-write:w", "kill-wrote:w")

ROLLBACK = ("kill-write:j", "kill-before:j", "kill-unlink:j", "kill-write:d", "kill-before:d")


class Kills(Case):
    def after_each(self, fault, seed, witness, flags=0, durability=FULL):
        """Kills a client at the first such act, at the second, ..., until it gets through; has another one ask. With
        `witness` that one has the file open all along. Where there are many such acts, a part of them by the seed."""
        step = 9 if fault.startswith("kill-wr") else 3 if flags else 1
        for number in itertools.count(1 + seed % step, step):
            with self.database(seed):
                if witness:
                    other = self.client("other", flags=flags)
                lives = self.live(f"{fault}:{number}", flags, durability)
                if not witness:
                    other = self.opened("other", flags)
                self.look(other, number)
                judge = self.judge(seed, flags, quiet=True)
                with self.subTest(fault=fault, number=number, witness=witness):
                    self.assert_stands(judge)
            if lives:
                self.assertGreater(number, 1 + seed % step, f"{fault}: nobody was killed")
                return

    def look(self, other, number):
        """Makes the calls that come after, with another one first each time."""
        first = number % len(AFTER)
        for order in (*AFTER[first:], *AFTER[:first]):
            self.assertIsNotNone(other.ask(order))

    def opened(self, name, flags=0):
        """A client that has only opened the database."""
        client = self.begin(name)
        self.ask(client, f"open {self.recorded.path} {FULL} {flags}")
        return client

    def live(self, fault, flags, durability):
        """Whether it gets through."""
        client = self.begin("killed", fault)
        opening = f"open {self.recorded.path} {durability} {flags}"
        lives = all(self.ask(client, order) for order in (opening, "init", *LIFE))
        return client.end() == 0 and lives

    @seeds
    def test_in_wal_mode_while_others_are_there(self, seed):
        for fault in ("kill-before:w", "kill-after:w", *WRITES):
            self.after_each(fault, seed, witness=True)

    @seeds
    def test_in_wal_mode_when_others_come_later(self, seed):
        for fault in ("kill-before:w", "kill-after:w", *WRITES, "kill-before:d", "kill-before:f", "kill-cut:w"):
            self.after_each(fault, seed, witness=False)

    @seeds
    def test_in_wal_mode_at_normal(self, seed):
        """There whole calls are left unsynced, which were answered."""
        for fault in WRITES:
            for witness in (True, False):
                self.after_each(fault, seed, witness, durability=NORMAL)

    @seeds
    def test_with_a_rollback_journal_while_others_are_there(self, seed):
        for fault in (*ROLLBACK, "kill-before:f", "kill-after:f"):
            self.after_each(fault, seed, witness=True, flags=KEEP_JOURNAL_MODE)

    @seeds
    def test_with_a_rollback_journal_when_others_come_later(self, seed):
        for fault in (*ROLLBACK, "kill-before:f"):
            self.after_each(fault, seed, witness=False, flags=KEEP_JOURNAL_MODE)

    @seeds
    def test_the_work_of_a_program_that_uses_sqlite_alone(self, seed):
        for number, fault in enumerate(("kill-before:w:1", "kill-before:w:2", "kill-after:w:1", "kill-after:w:2")):
            for witness in (True, False):
                with self.database(seed):
                    client = self.client("client")
                    self.ask(client, "enqueue x")
                    if not witness:
                        client.end()
                    foreign = self.foreign(fault=fault)
                    self.assertFalse(self.ask(foreign, "take x") and self.ask(foreign, "take x"))
                    other = client if witness else self.opened("other")
                    self.look(other, number + seed)
                    judge = self.judge(seed, quiet=True)
                    with self.subTest(fault=fault, witness=witness):
                        self.assert_stands(judge)

    @seeds
    def test_in_the_middle_of_much_work(self, seed):
        for fault in ("kill-before:w", *WRITES):
            for number in range(5 + seed % 7, 40, 9):
                with self.database(seed):
                    clients = [self.client("c0", fault=f"{fault}:{number}"), *(self.client(f"c{i}") for i in (1, 2))]
                    self.at_once(self.storm(clients, seed, count=20))
                    judge = self.judge(seed, quiet=True)
                    with self.subTest(fault=fault, number=number):
                        self.assert_stands(judge)
