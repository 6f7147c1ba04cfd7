"""The checker tells histories that one job could have answered from those that none could. A history here is as the clients
write it, START CALL => END ANSWER; see the README."""

import unittest

from support import check


class Checker(unittest.TestCase):
    def assert_can_be(self, history):
        linearizable, printed = check(text=history)
        self.assertTrue(linearizable, printed)

    def assert_cannot_be(self, history, why="no order of its calls explains all answers"):
        linearizable, printed = check(text=history)
        self.assertFalse(linearizable, printed)
        self.assertIn(why, printed)


class WhatCanBe(Checker):
    def test_nothing_at_all(self):
        self.assert_can_be("")

    def test_the_stale_worker_is_refused(self):
        self.assert_can_be("""
            10 enqueue x => 19 OK
            20 claim x A 100 10 => 29 OK 1
            30 claim x B 109.75 10 => 39 HELD
            40 claim x B 110 10 => 49 OK 2
            50 complete x B 2 115 result => 59 OK
            60 complete x A 1 116 late => 69 DONE
            70 state x => 79 OK B 120 2 result true
            stored x B 120 2 result true
            stored
        """)

    def test_every_refusal(self):
        self.assert_can_be("""
            10 state x => 11 NOT_FOUND
            12 renew x A 1 100 10 => 13 NOT_FOUND
            14 enqueue_at x 90 => 15 OK
            16 enqueue x => 17 EXISTS
            18 claim x A 89 10 => 19 HELD
            20 claim x A 90 10 => 21 OK 1
            22 renew x A 2 90 10 => 23 STALE
            24 renew x B 1 90 10 => 25 STALE
            26 renew x A 1 100 10 => 27 EXPIRED
            28 complete x A 1 100 r => 29 EXPIRED
            30 release_at x A 1 200 => 31 OK
            32 release x A 1 => 33 STALE
            34 claim x A 199 10 => 35 HELD
            36 claim x A 200 10 => 37 OK 2
            38 complete x A 2 209 null => 39 OK
            40 claim x A 900 10 => 41 DONE
            42 state x => 43 OK A 210 2 null true
        """)

    def test_calls_at_the_same_time_in_an_order_of_their_own(self):
        """The one that began last was first."""
        self.assert_can_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 90 HELD
            30 state x => 80 OK B 110 1 null false
            40 claim x B 100 10 => 70 OK 1
        """)

    def test_a_chain_of_calls_that_overlap(self):
        self.assert_can_be("""
            10 enqueue x => 11 OK
            20 release x B 2 => 90 OK
            20 claim x B 110 10 => 90 OK 2
            20 renew x A 1 99 10 => 90 OK
            20 claim x A 90 10 => 90 OK 1
            95 state x => 99 OK null 0 2 null false
        """)

    def test_a_killed_client_whose_claim_has_happened(self):
        self.assert_can_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10
            30 state x => 39 OK null 0 0 null false
            40 state x => 49 OK A 110 1 null false
        """)

    def test_a_killed_client_whose_claim_has_not_happened(self):
        self.assert_can_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10
            30 claim x B 100 10 => 39 OK 1
            stored x B 110 1 null false
            stored
        """)

    def test_a_killed_client_that_wrote_half_an_answer(self):
        self.assert_can_be("10 enqueue x => 1")

    def test_a_killed_client_that_has_claimed_the_next_one(self):
        for killed in (
            "20 claim_next A 100 10",
            "20 claim_batch A 100 10 3",
            "20 complete_and_claim_next y A 1 100 r 10",
        ):
            self.assert_can_be(f"""
                10 enqueue x => 11 OK
                {killed}
                30 claim x B 105 10 => 39 HELD
                40 claim x B 110 10 => 49 OK 2
            """)

    def test_a_call_that_failed_and_has_happened(self):
        self.assert_can_be("""
            10 enqueue x => 11 IO
            20 state x => 29 OK null 0 0 null false
        """)

    def test_parts_of_calls_on_several_jobs(self):
        self.assert_can_be("""
            10 enqueue_many x y z => 11 OK true true true
            12 enqueue_many z w => 13 OK false true
            14 enqueue_many z w => 15 EXISTS
            20 claim_batch A 100 10 3 => 21 OK x 1 y 1
            22 complete_and_claim_next x A 1 105 done 20 => 23 OK z 1
            24 complete_and_claim_next y A 1 110 late 20 => 25 EXPIRED
            26 claim_next B 110 10 => 27 OK y 2
            28 complete_and_claim_next z A 1 120 null 20 => 29 OK
            30 claim_next B 0 10 => 31 NOT_FOUND
            32 claim_many w 100 10 A B C => 33 OK 0 1 0
            34 claim_many w 100 10 A B C => 35 HELD
            stored w B 110 1 null false
            stored x A 110 1 done true
            stored y B 120 2 null false
            stored z A 125 1 null true
            stored
        """)


class WhatCannotBe(Checker):
    def test_a_fence_granted_twice(self):
        self.assert_cannot_be(
            """
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            20 claim x B 100 10 => 30 OK 1
            """,
            "fence 1 was granted twice",
        )

    def test_a_fence_granted_twice_over_a_release(self):
        self.assert_cannot_be(
            """
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            31 release x A 1 => 32 OK
            33 claim_next B 100 10 => 34 OK x 1
            """,
            "fence 1 was granted twice",
        )

    def test_a_fence_that_goes_back(self):
        self.assert_cannot_be(
            """
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 2
            40 claim x B 200 10 => 50 OK 1
            """,
            "a fence went back",
        )

    def test_a_fence_that_nobody_was_granted(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 2
        """)

    def test_a_stored_fence_below_one_that_was_granted(self):
        self.assert_cannot_be(
            """
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            stored x null 0 0 null false
            stored
            """,
            "fence 0 is stored",
        )

    def test_two_owners_at_once(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            20 claim x B 100 10 => 30 OK 2
        """)

    def test_a_lease_that_outlives_its_end(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 renew x A 1 110 10 => 50 OK
        """)

    def test_a_stale_complete_that_is_accepted(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 claim x B 110 10 => 50 OK 2
            60 complete x A 1 105 late => 70 OK
        """)

    def test_a_stale_complete_and_a_sound_one_that_are_both_accepted(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 claim x B 110 10 => 50 OK 2
            60 complete x A 1 105 late => 90 OK
            60 complete x B 2 115 sound => 90 OK
        """)

    def test_an_acknowledged_result_that_changes(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 complete x A 1 105 result => 50 OK
            60 state x => 70 OK A 110 1 other true
        """)

    def test_an_acknowledged_result_that_is_not_stored(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 complete x A 1 105 result => 50 OK
            stored x A 110 1 null false
            stored
        """)

    def test_a_state_that_goes_back(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 90 OK 1
            30 state x => 40 OK A 110 1 null false
            50 state x => 60 OK null 0 0 null false
        """)

    def test_a_state_that_comes_too_late(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 state x => 50 OK null 0 0 null false
        """)

    def test_a_state_that_comes_too_soon(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 state x => 30 OK A 110 1 null false
            40 claim x A 100 10 => 50 OK 1
        """)

    def test_a_refusal_that_has_changed_something(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10 => 30 OK 1
            40 renew x A 1 110 50 => 50 EXPIRED
            60 state x => 70 OK A 160 1 null false
        """)

    def test_busy_that_has_changed_something(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 BUSY
            20 state x => 30 OK null 0 0 null false
        """)

    def test_a_half_of_a_claim(self):
        """That of a killed client, who may have done all of it or nothing."""
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10
            30 state x => 40 OK A 110 0 null false
        """)

    def test_a_claim_of_a_killed_client_that_is_undone(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 claim x A 100 10
            30 state x => 40 OK A 110 1 null false
            50 claim x B 100 10 => 60 OK 1
        """)

    def test_a_killed_client_that_claimed_before_it_began(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            20 state x => 30 OK A 110 1 null false
            40 claim x A 100 10
        """)

    def test_a_job_that_is_lost(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            stored
        """)

    def test_a_job_that_is_enqueued_twice(self):
        self.assert_cannot_be("""
            10 enqueue x => 11 OK
            12 enqueue_many x y => 13 OK true true
        """)

    def test_a_job_that_nobody_made(self):
        self.assert_cannot_be("""
            stored x null 0 0 null false
            stored
        """)

    def test_one_wrong_answer_in_a_long_history(self):
        calls = ["0 enqueue x => 1 OK"]
        for fence in range(1, 2001):
            start = 10 * fence
            calls.append(f"{start} claim x A {start} 5 => {start + 4} OK {fence}")
            calls.append(f"{start + 2} claim x B {start} 5 => {start + 6} HELD")
        self.assert_can_be("\n".join(calls) + "\n")
        calls[2000] = calls[2000].replace("HELD", "STALE")
        self.assert_cannot_be("\n".join(calls) + "\n")

    def test_a_line_that_makes_no_sense(self):
        for line in ("x", "10 claim x A 100 => 11 OK 1", "10 enqueue x => 9 OK", "10 dequeue x => 11 OK"):
            with self.assertRaisesRegex(AssertionError, "the checker ended by 2"):
                check(text=line + "\n")
