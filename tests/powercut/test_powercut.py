"""No answer at FULL rests on anything that a power cut could undo; and the tests that say so can fail."""

from support import KEEP_JOURNAL_MODE, NORMAL, Case, rounds


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
        self.ask(self.foreign(), "pages 512")
        clients = [self.client(f"c{i}") for i in range(2)]
        self.at_once(self.storm(clients, seed, count=120, size=15000))
        judge = self.judge(seed)
        self.assert_stands(judge)
        self.assert_begun_anew(judge, 2)


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
        self.at_once(self.storm([self.client(f"c{i}", NORMAL) for i in range(3)], seed))
        judge = self.judge(seed)
        self.assertLessEqual({"claim OK", "complete OK", "state OK"}, self.undone(judge))
        again = [
            (self.prober.fence_after(violation), int(violation.answer.value[0]))
            for violation in judge.violations
            if violation.kind == "claim OK"
        ]
        self.assertTrue(all(fence <= granted for fence, granted in again), again)

    @rounds
    def test_one_sync_that_is_left_out_is_missed(self, seed):
        client = self.client("c", fault=f"ignore:w:{5 + seed % 10}")
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
