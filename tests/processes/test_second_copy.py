"""The host's SQLite (Python's sqlite3) and the library's in one process, on one file.

The comments say what each test shows when the cure is taken away: with the library built so that its SQLite takes
POSIX locks and really closes its files, as SQLite does by itself (an empty `vfs::install`). Every test fails
then. See docs/decisions/second-sqlite-copy.md.
"""

import os
import sqlite3
import threading

from fencepost_ctypes import KEEP_JOURNAL_MODE, NO_WAIT, NORMAL, Db
from support import Case, hold


class SecondCopy(Case):
    def open(self, flags, **options):
        """A handle that stays open until the process of this test ends, so that a test that fails never closes it in
        the middle of a call."""
        return Db(self.path, flags=flags, **options)

    def host(self, timeout=0):
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        self.addCleanup(connection.close)
        return connection

    def make(self, flags, *jobs):
        db = Db(self.path, flags=flags)
        db.init_db().ok()
        for job in jobs:
            db.enqueue(job).ok()
        db.close()

    def busy_while_the_host_writes(self, flags):
        # Without the cure: OK, in both modes, in the middle of the host's transaction.
        self.make(flags, "job")
        db = self.open(flags, busy_timeout_ms=NO_WAIT)
        host = self.host()
        host.execute("BEGIN IMMEDIATE")
        self.assertEqual(db.claim("job", "we", 0, 10).status, "BUSY")
        host.execute("COMMIT")
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)

    def the_host_is_told_busy_while_we_write(self, flags):
        # Without the cure: the host's BEGIN IMMEDIATE succeeds, in both modes.
        self.make(flags, "job")
        db = self.open(flags)
        host = self.host()
        hold.hold_next_commit()
        claim = self.start(db.claim, "job", "we", 0, 10)
        hold.hold_until_reached()
        with self.assertRaisesRegex(sqlite3.OperationalError, "database is locked"):
            host.execute("BEGIN IMMEDIATE")
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)
        host.execute("BEGIN IMMEDIATE")

    def our_close_leaves_the_hosts_lock(self, flags):
        # Without the cure: our close drops it, and the other process gets it, in both modes.
        self.make(flags, "job")
        peer = self.peer()
        host = self.host()
        host.execute("BEGIN IMMEDIATE")
        self.assert_locked(peer)
        db = Db(self.path, flags=flags)
        db.state("job").ok()
        db.close()
        self.assert_locked(peer)
        host.execute("COMMIT")
        peer.sql("BEGIN IMMEDIATE")

    def the_hosts_close_leaves_our_lock(self, flags):
        # Without the cure: with a rollback journal the host can read in the middle of our commit; in WAL mode its close
        # drops our lock, and the other process gets it.
        self.make(flags, "job")
        peer = self.peer()
        db = self.open(flags)
        hold.hold_next_commit()
        claim = self.start(db.claim, "job", "we", 0, 10)
        hold.hold_until_reached()
        self.assert_locked(peer)
        host = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        if flags & KEEP_JOURNAL_MODE:
            with self.assertRaisesRegex(sqlite3.OperationalError, "database is locked"):
                host.execute("SELECT fence FROM jobs")
        else:
            self.assertEqual(host.execute("SELECT fence FROM jobs").fetchall(), [(0,)])
        host.close()
        self.assert_locked(peer)
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)
        self.assertEqual(peer.sql("SELECT owner, fence FROM jobs"), [["we", 1]])

    def both_write_and_nothing_is_lost(self, flags, count, others):
        # Without the cure, everyone going on after an error, in one run each:
        # - WAL: 1,625 of 2,999 granted fences had been granted before; one answer was CORRUPT; the text "ours" of
        #   `jobs` stood in the host's table as the name of a counter; the other process was told "database disk image
        #   is malformed", and integrity_check that an index lacked a row.
        # - Rollback journal: 242 claims and 376 of the host's updates ended in I/O errors, and the other process's
        #   fourth update; 49 fences were granted twice.
        # Without guests and the other process: 1,071 fences twice in WAL mode, and integrity_check ok; 121 with a
        # rollback journal, and 587 I/O errors.
        self.make(flags, "ours")
        host = self.host(timeout=60)
        host.execute("CREATE TABLE counters(name TEXT PRIMARY KEY, n INTEGER NOT NULL)")
        host.execute("INSERT INTO counters VALUES ('host', 0), ('other', 0)")
        other = self.peer()
        db = self.open(flags, busy_timeout_ms=60_000, durability=NORMAL)
        begin, ended = threading.Barrier(3), threading.Event()

        def lease():
            begin.wait()
            fences = []
            for n in range(count):
                fences.append(db.claim("ours", "we", 10 * n, 10).ok())
            return fences

        def count_up():
            begin.wait()
            for _ in range(count):
                host.execute("UPDATE counters SET n = n + 1 WHERE name = 'host'")

        def come_and_go():
            begin.wait()
            while not ended.is_set():
                guest = sqlite3.connect(self.path, timeout=60, isolation_level=None)
                guest.execute("SELECT (SELECT sum(n) FROM counters), (SELECT fence FROM jobs)").fetchall()
                guest.close()

        other.start("increment", "other", others)
        threads = [self.start(lease), self.start(count_up)]
        guests = self.start(come_and_go)
        problems = []
        for thread in [*threads, guests]:
            try:
                thread.join()
            except Exception as error:
                problems.append(repr(error))
            if thread is threads[-1]:
                ended.set()
        other.answer()

        self.assertEqual(problems, [])
        self.assertEqual(threads[0].value, list(range(1, count + 1)))
        self.assertEqual(
            self.rows("SELECT name, n, typeof(n) FROM counters ORDER BY name"),
            [["host", count, "integer"], ["other", others, "integer"]],
        )
        self.assertEqual(self.rows("SELECT * FROM jobs"), [["ours", "we", 10.0 * count, count, None, 0]])
        self.assert_sound()

    def raw_closes_lose_nothing(self, flags, count):
        # A raw close drops all POSIX locks of the process on the file. Without the cure a process is told STALE for a
        # fence that it was given just before, within the first second (WAL, three runs of three), or an I/O error
        # (rollback journal).
        names = ["peer0", "peer1", "peer2"]
        self.make(flags, "shared", *names)
        peers = [self.peer() for _ in names]
        for peer in peers:
            # So that all of them have the file open when they begin.
            self.assertEqual(peer.claim("nothing"), "NOT_FOUND")
        for name, peer in zip(names, peers):
            peer.start("grants", name, count, True)
        fences = sorted(fence for peer in peers for fence in peer.answer())
        self.assertEqual(fences, list(range(1, len(fences) + 1)))
        self.assertEqual(
            self.rows("SELECT * FROM jobs ORDER BY id"),
            [*([name, None, 0, count, None, 0] for name in names), ["shared", None, 0, len(fences), None, 0]],
        )
        self.assert_sound()


class Wal(SecondCopy):
    def test_we_are_told_busy_while_the_host_writes(self):
        self.busy_while_the_host_writes(0)

    def test_the_host_is_told_busy_while_we_write(self):
        self.the_host_is_told_busy_while_we_write(0)

    def test_our_close_leaves_the_hosts_lock(self):
        self.our_close_leaves_the_hosts_lock(0)

    def test_the_hosts_close_leaves_our_lock(self):
        self.the_hosts_close_leaves_our_lock(0)

    def test_our_close_leaves_the_hosts_log(self):
        # Without the cure: our close takes itself for the last one and deletes the log that the host writes to.
        self.make(0, "job")
        host = self.host()
        host.execute("CREATE TABLE mine(x)")
        log = os.stat(self.path + "-wal").st_ino
        db = Db(self.path)
        db.claim("job", "we", 0, 10).ok()
        db.close()
        self.assertEqual(os.stat(self.path + "-wal").st_ino, log)
        host.execute("INSERT INTO mine VALUES (1)")
        self.assertEqual(self.rows("SELECT fence, x FROM jobs, mine"), [[1, 1]])

    def test_the_hosts_close_leaves_our_log(self):
        # Without the cure: the other way round.
        self.make(0, "job")
        db = self.open(0)
        db.claim("job", "we", 0, 10).ok()
        log = os.stat(self.path + "-wal").st_ino
        host = sqlite3.connect(self.path, isolation_level=None)
        host.execute("CREATE TABLE mine(x)")
        host.close()
        self.assertEqual(os.stat(self.path + "-wal").st_ino, log)
        self.assertEqual(db.claim("job", "we", 10, 10).ok(), 2)
        self.assertEqual(self.rows("SELECT fence FROM jobs"), [[2]])

    def test_both_write_and_nothing_is_lost(self):
        self.both_write_and_nothing_is_lost(0, 3000, 1000)

    def test_raw_closes_lose_nothing(self):
        self.raw_closes_lose_nothing(0, 600)


class RollbackJournal(SecondCopy):
    def test_we_are_told_busy_while_the_host_writes(self):
        self.busy_while_the_host_writes(KEEP_JOURNAL_MODE)

    def test_the_host_is_told_busy_while_we_write(self):
        self.the_host_is_told_busy_while_we_write(KEEP_JOURNAL_MODE)

    def test_our_close_leaves_the_hosts_lock(self):
        self.our_close_leaves_the_hosts_lock(KEEP_JOURNAL_MODE)

    def test_the_hosts_close_leaves_our_lock(self):
        self.the_hosts_close_leaves_our_lock(KEEP_JOURNAL_MODE)

    def test_both_write_and_nothing_is_lost(self):
        self.both_write_and_nothing_is_lost(KEEP_JOURNAL_MODE, 3000, 1000)

    def test_raw_closes_lose_nothing(self):
        self.raw_closes_lose_nothing(KEEP_JOURNAL_MODE, 100)
