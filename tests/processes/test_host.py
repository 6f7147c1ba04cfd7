"""What the host's SQLite may do to the file while our handle is open on it: from this process and from another."""

import os
import sqlite3

from fencepost_ctypes import KEEP_JOURNAL_MODE, NO_WAIT, Db
from support import Case


class Host(Case):
    def ready(self, *jobs, **options):
        db = Db(self.path, **options)
        db.init_db().ok()
        for job in jobs:
            db.enqueue(job).ok()
        return db

    def host(self):
        return sqlite3.connect(self.path, timeout=0, isolation_level=None)

    def hosts(self):
        """Runs of SQL: in this process, and in another."""
        peer = self.peer()
        return [("here", self.host().execute), ("elsewhere", peer.sql)]

    def run_sql(self, run, statement):
        rows = run(statement)
        return [list(row) for row in (rows if isinstance(rows, list) else rows.fetchall())]

    def mode(self):
        return self.rows("PRAGMA journal_mode")[0][0]

    def test_a_long_read_of_the_hosts_holds_up_no_write(self):
        db = self.ready("job", busy_timeout_ms=NO_WAIT)
        db.claim("job", "we", 0, 10).ok()
        for place, run in self.hosts():
            with self.subTest(place):
                before = db.state("job").ok()[3]
                self.run_sql(run, "BEGIN")
                self.assertEqual(self.run_sql(run, "SELECT fence FROM jobs"), [[before]])
                for n in range(before + 1, before + 201):
                    self.assertEqual(db.claim("job", "we", 10 * n, 10).ok(), n)
                self.assertEqual(self.run_sql(run, "SELECT fence FROM jobs"), [[before]])
                self.run_sql(run, "COMMIT")
                self.assertEqual(self.run_sql(run, "SELECT fence FROM jobs"), [[before + 200]])
        db.close()
        self.assert_sound()

    def test_the_log_does_not_grow_for_ever_once_the_read_is_over(self):
        db = self.ready("job")
        host = self.host()
        host.execute("BEGIN").execute("SELECT fence FROM jobs").fetchall()
        clock = 0

        def log_after_claims():
            nonlocal clock
            for _ in range(1500):
                clock += 10
                db.claim("job", "we", clock, 10).ok()
            return os.stat(self.path + "-wal").st_size

        # Without the read it would have begun anew by now.
        size = log_after_claims()
        self.assertGreater(log_after_claims(), size + 1500 * 4096)
        host.execute("COMMIT")
        # The log is written into the file when the next checkpoint comes, and begins anew at its old length.
        for _ in range(20):
            size, before = log_after_claims(), size
            if size == before:
                return
        self.fail(f"the log grows on: {size} bytes")

    def test_vacuum_is_harmless(self):
        db = self.ready("job", *(f"{n}" for n in range(50)), busy_timeout_ms=NO_WAIT)
        fence = 0
        for place, run in self.hosts():
            with self.subTest(place):
                fence = db.claim("job", "we", 10 * fence, 10).ok()
                self.run_sql(run, "VACUUM")
                self.assertEqual(db.state("job").ok()[3], fence)
                self.assertEqual(db.claim("job", "we", 10 * fence, 10).ok(), fence + 1)
                fence += 1
        self.assertEqual(self.rows("SELECT count(*), sum(fence) FROM jobs"), [[51, fence]])
        self.assert_sound()

    def test_a_checkpoint_that_truncates_the_log_is_harmless(self):
        db = self.ready("job", busy_timeout_ms=NO_WAIT)
        fence = 0
        for place, run in self.hosts():
            with self.subTest(place):
                fence = db.claim("job", "we", 10 * fence, 10).ok()
                self.assertEqual(self.run_sql(run, "PRAGMA wal_checkpoint(TRUNCATE)"), [[0, 0, 0]])
                self.assertEqual(os.stat(self.path + "-wal").st_size, 0)
                self.assertEqual(db.state("job").ok()[3], fence)
                self.assertEqual(db.claim("job", "we", 10 * fence, 10).ok(), fence + 1)
                fence += 1
        self.assertEqual(self.rows("SELECT fence FROM jobs"), [[fence]])
        self.assert_sound()

    def test_the_journal_mode_cannot_be_changed_while_our_handle_is_in_use(self):
        db = self.ready("job")
        db.claim("job", "we", 0, 10).ok()
        for place, run in self.hosts():
            with self.subTest(place), self.assertRaisesRegex(Exception, "database is locked"):
                self.run_sql(run, "PRAGMA journal_mode = DELETE")
        self.assertEqual(self.mode(), "wal")
        self.assertEqual(db.claim("job", "we", 10, 10).ok(), 2)
        self.assertEqual(self.rows("SELECT fence FROM jobs"), [[2]])

    def test_after_our_close_the_host_may_change_the_journal_mode_and_open_changes_it_back(self):
        db = self.ready("job")
        db.claim("job", "we", 0, 10).ok()
        db.close()
        for n, (place, run) in enumerate(self.hosts()):
            with self.subTest(place):
                self.assertEqual(self.run_sql(run, "PRAGMA journal_mode = DELETE"), [["delete"]])
                db = Db(self.path, flags=KEEP_JOURNAL_MODE)
                self.assertEqual(db.claim("job", "we", 100 * n + 10, 10).ok(), 2 * n + 2)
                db.close()
                self.assertEqual(self.mode(), "delete")
                db = Db(self.path)
                self.assertEqual(db.claim("job", "we", 100 * n + 20, 10).ok(), 2 * n + 3)
                self.assertEqual(self.mode(), "wal")
                db.close()
        self.assert_sound()

    def test_a_change_of_the_journal_mode_after_a_fork_is_undone_by_the_next_call(self):
        # Then the handle has no connection, and SQLite allows it.
        db = self.ready("job")
        db.claim("job", "we", 0, 10).ok()
        peer = self.peer()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(peer.sql("PRAGMA journal_mode = DELETE"), [["delete"]])
        self.assertEqual(db.claim("job", "we", 10, 10).ok(), 2)
        self.assertEqual(self.mode(), "wal")
        self.assertEqual(peer.sql("SELECT fence FROM jobs"), [[2]])

    def test_a_handle_that_keeps_the_journal_mode_follows_the_host_into_wal(self):
        db = self.ready("job", flags=KEEP_JOURNAL_MODE)
        db.claim("job", "we", 0, 10).ok()
        db.state("job").ok()
        host = self.host()
        self.assertEqual(host.execute("PRAGMA journal_mode = WAL").fetchall(), [("wal",)])
        self.assertEqual(db.claim("job", "we", 10, 10).ok(), 2)
        self.assertEqual(db.state("job").ok()[3], 2)
        self.assertEqual(host.execute("SELECT fence FROM jobs").fetchall(), [(2,)])
        db.close()
        self.assertEqual(host.execute("PRAGMA journal_mode = DELETE").fetchall(), [("delete",)])
        self.assertEqual(self.rows("SELECT fence FROM jobs"), [[2]])

    def test_an_exclusive_host_is_busy_and_no_error(self):
        db = self.ready("job", busy_timeout_ms=NO_WAIT)
        for place, run in self.hosts():
            with self.subTest(place):
                self.run_sql(run, "BEGIN EXCLUSIVE")
                self.assertEqual(db.claim("job", "we", 0, 10).status, "BUSY")
                self.assertEqual(db.state("job").status, "OK")
                self.run_sql(run, "ROLLBACK")
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)

    def test_columns_and_indexes_that_the_host_adds_are_left_alone(self):
        db = self.ready("job")
        db.claim("job", "we", 0, 10).ok()
        host = self.host()
        host.execute("ALTER TABLE jobs ADD COLUMN kind TEXT DEFAULT 'plain'")
        host.execute("CREATE INDEX jobs_kind ON jobs(kind)")
        self.assertEqual(db.claim("job", "we", 10, 10).ok(), 2)
        db.enqueue("new").ok()
        self.assertEqual(self.rows("SELECT id, kind FROM jobs ORDER BY id"), [["job", "plain"], ["new", "plain"]])

    def test_a_table_of_another_shape_made_meanwhile_is_refused(self):
        db = self.ready("job")
        host = self.host()
        host.execute("ALTER TABLE jobs RENAME TO old")
        self.assertEqual(db.claim("job", "we", 0, 10).status, "SCHEMA")
        host.execute("CREATE TABLE jobs(id TEXT PRIMARY KEY, x)")
        self.assertEqual(db.claim("job", "we", 0, 10).status, "SCHEMA")
        host.execute("DROP TABLE jobs")
        host.execute("ALTER TABLE old RENAME TO jobs")
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)
