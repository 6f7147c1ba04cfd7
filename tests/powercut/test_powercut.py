"""No answer at FULL rests on anything that a power cut could undo; and the tests that say so can fail."""

from support import AFTER, FULL, KEEP_JOURNAL_MODE, LIFE, NORMAL, Case, rounds, seeds


class Wal(Case):
    @rounds
    def test_answers_outlive_a_power_cut(self, seed):
        self.at_once(self.storm([self.client(f"c{i}") for i in range(3)], seed))
        self.assert_stands(self.judge(seed))

    @rounds
    def test_they_outlive_it_when_the_log_is_begun_anew(self, seed):
        foreign = self.foreign()
        self.ask(foreign, "pages 512")
        clients = [self.client(f"c{i}") for i in range(2)]
        self.at_once({foreign: "storm 40", **self.storm(clients, seed)})
        judge = self.judge(seed)
        self.assert_stands(judge)
        self.assert_begun_anew(judge, 20)

    @rounds
    def test_they_outlive_it_when_the_log_is_full(self, seed):
        foreign = self.foreign()
        self.ask(foreign, "pages 512")
        clients = [self.client(f"c{i}") for i in range(2)]
        for turn in range(5):
            self.ask(foreign, "fill 11")
            self.at_once({foreign: "fill 2", **self.storm(clients, 10 * seed + turn, count=12)})
        judge = self.judge(seed, depth=8)
        self.assert_stands(judge)
        self.assert_begun_anew(judge, 2)

    @rounds
    def test_they_outlive_it_over_closing_and_opening(self, seed):
        """The last one to close removes the log; the first to open makes another, and need not be the first to write."""
        foreign = self.foreign()
        for turn in range(6):
            if turn % 3 == 2:
                self.ask(foreign, f"open {self.recorded.path}")
                self.ask(foreign, "read")
            clients = [self.client(f"c{turn}{i}") for i in range(2)]
            first, *_ = [*clients[turn % 2 :], *clients[: turn % 2]]
            self.ask(first, f"enqueue job-{turn}")
            self.at_once(self.storm(clients, seed, threads=2, count=10))
            self.ask(foreign, "close")
            for client in clients:
                client.end()
        self.assert_stands(self.judge(seed))

    @rounds
    def test_they_outlive_it_when_all_make_the_table_at_once(self, seed):
        clients = [self.begin(f"c{i}") for i in range(4)]
        self.at_once({client: f"open {self.recorded.path} {FULL} 0" for client in clients})
        self.at_once({client: "init" for client in clients})
        self.at_once(self.storm(clients, seed, threads=1, count=10))
        self.assert_stands(self.judge(seed))

    @rounds
    def test_they_outlive_it_beside_clients_at_normal(self, seed):
        self.at_once(self.storm([self.client("full"), self.client("normal", NORMAL)], seed))
        self.assert_stands(self.judge(seed))

    @rounds
    def test_they_outlive_it_beside_a_handle_at_normal_in_the_same_process(self, seed):
        self.at_once(self.storm([self.both(f"c{i}") for i in range(2)], seed, threads=4, count=30))
        self.assert_stands(self.judge(seed))

    @seeds
    def test_they_outlive_it_right_after_a_call_at_normal_of_the_same_process(self, seed):
        for question in AFTER:
            with self.database(seed):
                client = self.both("c")
                for order in LIFE:
                    for turn in ("other", order, "other", question):
                        self.assertIsNotNone(client.ask(turn))
                judge = self.judge(seed, quiet=True)
                with self.subTest(question=question):
                    self.assert_stands(judge)

    @rounds
    def test_what_is_seen_outlives_it(self, seed):
        """By processes that never write, and so never sync for a reason of their own."""
        writers = [self.client("writer"), self.client("normal", NORMAL)]
        watchers = [self.client("full"), self.both("both")]
        self.at_once({**self.storm(writers, seed, count=30), **self.watch(watchers, seed)})
        self.assert_stands(self.judge(seed))

    @seeds
    def test_they_outlive_it_after_a_sync_has_failed(self, seed):
        """Linux takes what it could not write for written: that no later sync fails proves nothing."""
        for number in range(1 + seed % 5, 20, 5):
            with self.database(seed):
                failing = self.begin("c0", f"fail:w:{number}")
                self.ask(failing, f"open {self.recorded.path} {FULL} 0")
                # It may have been one of these syncs.
                if failing.ask("init") == "IO":
                    self.ask(failing, "init")
                clients = [failing, self.client("c1")]
                self.at_once(self.storm(clients, seed, count=20), "IO")
                judge = self.judge(seed)
                with self.subTest(number=number):
                    self.assert_stands(judge)


class Rollback(Case):
    @rounds
    def test_answers_outlive_a_power_cut(self, seed):
        clients = [self.client(f"c{i}", flags=KEEP_JOURNAL_MODE) for i in range(2)]
        self.at_once(self.storm(clients, seed, count=25))
        self.assert_stands(self.judge(seed, KEEP_JOURNAL_MODE))

    @rounds
    def test_they_outlive_it_beside_other_kinds_of_journals(self, seed):
        for mode in ("TRUNCATE", "PERSIST"):
            foreign = self.foreign()
            self.ask(foreign, f"mode {mode}")
            clients = [self.client(f"c{i}", flags=KEEP_JOURNAL_MODE) for i in range(2)]
            self.at_once({foreign: "storm 30", **self.storm(clients, seed, count=15)})
            self.assert_stands(self.judge(seed, KEEP_JOURNAL_MODE))


class Doubt(Case):
    """Where the promise is not kept, that is seen."""

    def undone(self, judge):
        """The kinds of answers that a power cut could undo."""
        return {violation.kind for violation in judge.violations}

    @rounds
    def test_normal_grants_a_fence_twice_and_loses_a_completion(self, seed):
        clients = [self.client(f"c{i}", NORMAL) for i in range(3)]
        self.at_once(self.storm(clients, seed))
        for order in LIFE:
            self.ask(clients[0], order)
        judge = self.judge(seed, strict=True)
        self.assertLessEqual({"claim OK", "complete OK", "state OK"}, self.undone(judge))
        again = [
            (self.prober.fence_after(violation), int(violation.answer.value[0]))
            for violation in judge.violations
            if violation.kind == "claim OK"
        ]
        self.assertTrue(all(fence <= granted for fence, granted in again), again)

    @rounds
    def test_what_is_seen_at_normal_is_not_sure(self, seed):
        """Though all that is written is written at FULL."""
        writers = [self.client(f"c{i}") for i in range(2)]
        # Several: one may never look between a commit and its sync.
        watchers = [self.client(f"watcher{i}", NORMAL) for i in range(4)]
        self.at_once({**self.storm(writers, seed), **self.watch(watchers, seed)})
        undone = self.undone(self.judge(seed, strict=True))
        self.assertTrue(undone)
        self.assertLessEqual(undone, {"state OK", "count OK", "list OK"})

    @rounds
    def test_a_handle_at_normal_promises_nothing_beside_one_at_full(self, seed):
        self.at_once(self.storm([self.both(f"c{i}") for i in range(2)], seed, threads=4, count=20))
        self.assertTrue(self.undone(self.judge(seed, strict=True)))

    @rounds
    def test_one_sync_that_is_left_out_is_missed(self, seed):
        # By then all that was found is synced, each of its two connections has seen to that: there is no sync too many.
        client = self.client("c", fault=f"ignore:w:{10 + seed % 10}")
        self.ask(client, "enqueue x")
        self.ask(client, "state x")
        self.at_once(self.storm([client], seed, threads=1, count=60))
        self.assertTrue(self.undone(self.judge(seed)))

    @rounds
    def test_syncs_of_a_checkpoint_that_are_left_out_are_missed(self, seed):
        foreign = self.foreign(fault="ignore:d:*")
        self.at_once({foreign: "storm 40", **self.storm([self.client("c")], seed)})
        self.assertTrue(self.undone(self.judge(seed)))

    @rounds
    def test_syncs_of_a_journal_that_are_left_out_are_missed(self, seed):
        client = self.client("c", flags=KEEP_JOURNAL_MODE, fault="ignore:j:*")
        self.at_once(self.storm([client], seed, count=10))
        self.assertTrue(self.undone(self.judge(seed, KEEP_JOURNAL_MODE)))

    @rounds
    def test_syncs_of_the_folder_that_are_left_out_are_missed(self, seed):
        client = self.client("c", flags=KEEP_JOURNAL_MODE, fault="ignore:f:*")
        self.at_once(self.storm([client], seed, count=10))
        self.assertTrue(self.undone(self.judge(seed, KEEP_JOURNAL_MODE)))
