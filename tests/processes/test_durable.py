"""A commit can be seen by others before it is synced; its own caller, and all who rest an answer on it, are told only when
it is. See docs/decisions/speed.md.

The comments say which measure each test fails without.
"""

import os

from fencepost_ctypes import NORMAL, READ_ONLY, Db
from support import Case, hold


class Early(Case):
    def ready(self, *jobs, **options):
        db = Db(self.path, busy_timeout_ms=20_000, **options)
        db.init_db().ok()
        for job in ("before", *jobs):
            db.enqueue(job).ok()
        return db

    def in_sync(self, db, job):
        """A claim that can be seen, and waits for its sync."""
        hold.hold_next_sync()
        claim = self.start(db.claim, job, "we", 0, 10)
        hold.hold_until_reached()
        return claim

    def warm(self, flags=0):
        """Another process that has used its connections before, so that what it syncs now is for its answer."""
        peer = self.peer()
        if flags != READ_ONLY:
            peer.ask("durably", flags, "enqueue", "before")
        peer.ask("durably", flags, "state", "before")
        return peer

    def test_others_write_while_one_syncs(self):
        # The early release.
        db = self.ready("job", "other")
        peer = self.warm()
        claim = self.in_sync(db, "job")
        self.assertEqual(peer.ask("durably", 0, "claim", "other", "peer", 0, 10)[0], "OK")
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)

    def test_a_refusal_that_rests_on_an_unsynced_commit_syncs_it(self):
        # `last_unsynced` in the writer's `store`.
        db = self.ready("job")
        peer = self.warm()
        claim = self.in_sync(db, "job")
        status, syncs = peer.ask("durably", 0, "claim", "job", "peer", 0, 10)
        self.assertEqual((status, syncs > 0), ("HELD", True))
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)
        # It is on the disk now, for all to see.
        self.assertEqual(peer.ask("durably", 0, "claim", "job", "peer", 0, 10), ["HELD", 0])

    def test_a_read_that_rests_on_an_unsynced_commit_syncs_it(self):
        # `make_durable` in the reader.
        db = self.ready("job")
        peer, reader = self.warm(), self.warm(READ_ONLY)
        claim = self.in_sync(db, "job")
        for process, flags in ((peer, 0), (reader, READ_ONLY)):
            status, syncs = process.ask("durably", flags, "state", "job")
            self.assertEqual((status, syncs > 0), ("OK", True))
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)
        for process, flags in ((peer, 0), (reader, READ_ONLY)):
            self.assertEqual(process.ask("durably", flags, "state", "job"), ["OK", 0])

    def test_a_commit_whose_process_was_killed_before_its_sync_is_synced_by_who_sees_it(self):
        # The count of commits outlives the process that counted, and goes up before a commit can be seen.
        db = self.ready()
        for moment in ("sync", "unlock"):
            db.enqueue(moment).ok()
            db.state(moment).ok()
            stopped = self.peer()
            stopped.ask("stop_in", moment, moment)
            stopped.kill()
            before = hold.hold_log_syncs()
            self.assertEqual(db.claim(moment, "we", 0, 10).status, "HELD")
            synced = hold.hold_log_syncs()
            self.assertGreater(synced, before, moment)
            self.assertEqual(db.claim(moment, "we", 0, 10).status, "HELD")
            self.assertEqual(db.state(moment).status, "OK")
            self.assertEqual(hold.hold_log_syncs(), synced)

    def test_an_answer_at_full_that_rests_on_a_commit_at_normal_syncs_it(self):
        # Commits at NORMAL are counted too.
        db = self.ready("job", durability=NORMAL)
        peer = self.warm()
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)
        status, syncs = peer.ask("durably", 0, "complete", "job", "peer", 1, 5, "r")
        self.assertEqual((status, syncs > 0), ("STALE", True))

    def test_after_a_sync_that_fails_the_log_is_written_once_more(self):
        # `mend`. The kernel reports a failure once: the next sync of the log would succeed and mean nothing.
        db = self.ready("job")
        size = os.stat(self.path + "-wal").st_size
        hold.hold_fail_syncs(1)
        before = hold.hold_log_bytes()
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)
        self.assertGreaterEqual(hold.hold_log_bytes() - before, size)
        before = hold.hold_log_bytes()
        self.assertEqual(db.claim("before", "we", 0, 10).ok(), 1)
        self.assertLess(hold.hold_log_bytes() - before, size)
        self.assert_sound()

    def test_so_it_is_when_the_sync_of_what_was_found_fails(self):
        # The note of damage in `sync_what_was_found`.
        db = self.ready("job")
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)
        size = os.stat(self.path + "-wal").st_size
        for operation, expected in ((("claim", "job", "peer", 0, 10), "HELD"), (("state", "job"), "OK")):
            status, written = self.peer().ask("first_after_a_failed_sync", *operation)
            self.assertEqual((status, written >= size), (expected, True), operation)
        self.assert_sound()

    def test_when_that_fails_too_the_answer_is_an_error_until_it_succeeds(self):
        db = self.ready("job", "next")
        db.state("job").ok()
        size = os.stat(self.path + "-wal").st_size
        hold.hold_fail_syncs(1000)
        self.assertEqual(db.claim("job", "we", 0, 10).status, "IO")
        self.assertEqual(db.state("job").status, "IO")
        hold.hold_fail_syncs(0)
        # Not on the word of a sync alone.
        before = hold.hold_log_bytes()
        self.assertEqual(db.claim("next", "we", 0, 10).ok(), 1)
        self.assertGreaterEqual(hold.hold_log_bytes() - before, size)
        self.assertEqual(db.state("job").ok()[1], "we")
        self.assert_sound()
