"""Forks: no SQLite state crosses one, and parent and child both work on."""

import os
import signal
import subprocess
import sys
import threading

from fencepost_ctypes import KEEP_JOURNAL_MODE, NO_WAIT, NORMAL, Db
from support import BUILD, HERE, RUBY, Case, hold, open_files, parse

ROUNDS = 200


def in_child(work):
    """Runs it in a forked child; the child's number."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def wait_for(child):
    _, status = os.waitpid(child, 0)
    if status:
        raise AssertionError(f"child {child} ended: {status:#x}")

# A checkpoint has a connection of its own, and a reader that must sync has the log open.
MORE = 4


class Worker:
    """What forks.c does, in Python."""

    def __init__(self, path, log, flags):
        self.db = Db(path, durability=NORMAL, flags=flags)
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(self, what, job, fence, status):
        os.write(self.log, f"{what} {job} {fence} {status}\n".encode())

    def claim(self, job, owner, *refusals):
        answer = self.db.claim(job, owner, 0, 10)
        self.tell("claim", job, answer.value or 0, answer.status)
        return None if answer.status in refusals else answer.ok()

    def complete(self, job, owner, fence):
        self.db.complete(job, owner, fence, 0, f"{owner}:{fence}").ok()
        self.tell("complete", job, fence, "OK")

    def work(self, owner, shared, number):
        own = f"own-{owner}-{number}"
        self.db.enqueue(own).ok()
        fence = self.claim(own, owner)
        self.complete(own, owner, fence)
        if self.db.state(own).ok() != (own, owner, 10, fence, f"{owner}:{fence}", True):
            raise AssertionError(self.db.state(own))
        if fence := self.claim(shared, owner, "HELD", "DONE"):
            self.complete(shared, owner, fence)
        if fence := self.claim("relay", owner, "HELD"):
            self.db.release("relay", owner, fence).ok()


class Rounds(Case):
    """Parent, children and children of children work at once, while threads of the parent are in the middle of
    operations at every fork."""

    def setUp(self):
        super().setUp()
        self.log = self.path + ".log"

    def assert_all_told(self, count):
        with open(self.log) as log:
            answers = parse(log)
        self.assert_history(answers)
        self.assertGreater(len({job for _, job, _, _ in answers if job.startswith("own-thread")}), count)
        for owner, number in [("child", count), ("parent", count), ("grandchild", count // 10)]:
            own = {job for what, job, _, _ in answers if what == "complete" and job.startswith(f"own-{owner}-")}
            self.assertEqual(len(own), number, owner)
        self.assertEqual(self.rows("SELECT count(*) FROM jobs WHERE id LIKE 'shared-%' AND NOT done"), [[0]])

    def test_c(self):
        subprocess.run([BUILD / "forks", "rounds", self.path, self.log, str(ROUNDS)], check=True)
        self.assert_all_told(ROUNDS)

    def test_c_with_forks_from_many_threads_at_once(self):
        subprocess.run([BUILD / "forks", "storm", self.path, self.log], check=True)
        with open(self.log) as log:
            self.assert_history(parse(log))
        self.assertEqual(self.rows("SELECT count(*), sum(done) FROM jobs"), [[1 + 50 + 200, 50 + 200]])

    def test_ruby(self):
        subprocess.run([*RUBY, HERE / "forks.rb", self.path, self.log, str(ROUNDS)], check=True)
        self.assert_all_told(ROUNDS)

    def test_python(self):
        self.rounds_in_python(0, ROUNDS)

    def test_python_with_a_rollback_journal(self):
        self.rounds_in_python(KEEP_JOURNAL_MODE, ROUNDS // 8)

    def rounds_in_python(self, flags, count):
        worker = Worker(self.path, self.log, flags)
        worker.db.init_db().ok()
        for job in ("relay", "shared-0"):
            worker.db.enqueue(job).ok()
        worker.work("before", "shared-0", 0)
        descriptors = len(open_files()) + MORE
        ended = threading.Event()

        def work_on(owner):
            number = 0
            while not ended.is_set():
                worker.work(owner, "shared-0", number)
                number += 1

        def in_the_child(shared, number):
            worker.work("child", shared, number)
            if number % 10 == 0:
                child = in_child(lambda: worker.work("grandchild", shared, number))
                worker.work("again", shared, number)
                wait_for(child)
            self.assertLessEqual(len(open_files()), descriptors)
            if number % 2 == 0:
                worker.db.close()

        threads = [self.start(work_on, f"thread{n}") for n in range(2)]
        for number in range(1, count + 1):
            shared = f"shared-{number}"
            worker.db.enqueue(shared).ok()
            child = in_child(lambda: in_the_child(shared, number))
            worker.work("parent", shared, number)
            wait_for(child)
        ended.set()
        for thread in threads:
            thread.join()
        self.assertLessEqual(len(open_files()), descriptors)
        self.assert_all_told(count)


class Forks(Case):
    def ready(self, *jobs, **options):
        db = Db(self.path, **options)
        db.init_db().ok()
        for job in jobs:
            db.enqueue(job).ok()
        return db

    def test_a_fork_during_the_first_open_leaves_the_child_able_to_open(self):
        subprocess.run([BUILD / "forks", "first", self.path], check=True)
        self.assertEqual(self.rows("SELECT count(*) FROM jobs"), [[0]])

    def test_a_bare_clone_is_refused_and_does_no_harm(self):
        subprocess.run([BUILD / "forks", "clone", self.path], check=True)
        self.assertEqual(
            self.rows("SELECT id, owner, until, fence FROM jobs ORDER BY id"),
            [["elsewhere", "elsewhere", 10, 1], ["held", "parent", 10, 1], ["job", "parent", 11, 1]],
        )
        self.assert_sound()

    def test_a_child_does_not_keep_the_locks_of_a_killed_parent(self):
        self.ready("before", "held", "child", "other", "another").close()
        peer, parent = self.peer(), self.peer()
        child = parent.ask("hold_with_child")
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.assertEqual(peer.claim("other"), "BUSY")
        parent.kill()
        self.assertEqual(peer.claim("other"), "OK")
        self.assertEqual(self.peer().claim("another"), "OK")
        # The child was there all the while, and works on.
        os.kill(child, signal.SIGUSR1)
        while not os.path.exists(self.path + ".child"):
            os.sched_yield()
        with open(self.path + ".child") as answer:
            self.assertEqual(answer.read(), "OK")

    def test_a_fork_does_not_wait_for_the_lock_of_another_process(self):
        db = self.ready("job", busy_timeout_ms=20_000)
        peer = self.peer()
        peer.sql("BEGIN IMMEDIATE")
        claim = self.start(db.claim, "job", "we", 0, 10)
        # It tries again and again, and sleeps in between.
        start = claim.sleeps()
        while claim.sleeps() < start + 20:
            os.sched_yield()
        for _ in range(20):
            wait_for(in_child(lambda: None))
        # Only now: the forks are over.
        peer.sql("COMMIT")
        self.assertEqual(claim.join().ok(), 1)

    def test_an_executed_program_inherits_no_descriptor_of_the_file(self):
        db = self.ready("job")
        db.state("job").ok()
        self.assertTrue([name for name in open_files() if name.startswith(self.path)])
        listing = self.path + ".listing"

        def execute():
            out = os.open(listing, os.O_WRONLY | os.O_CREAT, 0o600)
            for fd in map(int, os.listdir("/proc/self/fd")):
                try:
                    # Python makes its own descriptors close-on-exec; ours must be so by themselves.
                    (
                        os.set_inheritable(fd, True)
                        if not os.readlink(f"/proc/self/fd/{fd}").startswith(self.path)
                        else None
                    )
                except OSError:
                    pass
            os.dup2(out, 1)
            os.execlp("ls", "ls", "-l", "/proc/self/fd")

        for use in (lambda: None, lambda: db.claim("job", "child", 0, 10).ok()):
            wait_for(in_child(lambda use=use: (use(), execute())))
            with open(listing) as lines:
                text = lines.read()
            self.assertIn("listing", text)
            self.assertNotIn(f"{self.path}\n", text)
            self.assertNotIn(f"{self.path}-", text)

    def test_spawned_programs_do_no_harm_to_operations_that_run(self):
        db = self.ready("job")
        ended = threading.Event()

        def work_on(owner):
            fences = []
            while not ended.is_set():
                answer = db.claim("job", owner, 0, 10)
                if answer.status != "HELD":
                    fences.append(answer.ok())
                    db.release("job", owner, fences[-1]).ok()
            return fences

        threads = [self.start(work_on, f"thread{n}") for n in range(2)]
        for _ in range(60):
            # posix_spawn or vfork: no handlers run.
            listed = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, check=True, stdout=subprocess.PIPE)
            self.assertNotIn(self.path.encode(), listed.stdout)
        ended.set()
        fences = sorted(fence for thread in threads for fence in thread.join())
        self.assertEqual(fences, list(range(1, len(fences) + 1)))
        self.assertEqual(self.rows("SELECT fence FROM jobs"), [[len(fences)]])
        self.assert_sound()

    def test_a_spawned_program_does_not_wait_for_an_operation(self):
        db = self.ready("job")
        hold.hold_next_commit()
        claim = self.start(db.claim, "job", "we", 0, 10)
        hold.hold_until_reached()
        subprocess.run(["true"], close_fds=False, check=True)
        hold.hold_let_go()
        self.assertEqual(claim.join().ok(), 1)

    def test_a_handle_closed_in_the_child_works_on_in_the_parent(self):
        db = self.ready("job")
        log = os.stat(self.path + "-wal").st_ino
        peer = self.peer()
        self.assertEqual(peer.sql("SELECT fence FROM jobs"), [[0]])
        for n in range(1, 4):
            wait_for(in_child(db.close))
            self.assertEqual(os.stat(self.path + "-wal").st_ino, log)
            self.assertEqual(db.claim("job", "parent", 10 * n, 10).ok(), n)
            self.assertEqual(peer.sql("SELECT fence FROM jobs"), [[n]])

    def test_a_handle_closed_in_the_parent_works_on_in_the_child(self):
        db = self.ready("job")
        closed, close = os.pipe()

        def work():
            os.close(close)
            os.read(closed, 1)
            self.assertEqual(db.claim("job", "child", 0, 10).ok(), 1)
            self.assertEqual(db.state("job").ok(), ("job", "child", 10, 1, None, False))
            db.close()

        child = in_child(work)
        db.close()
        os.close(close)
        wait_for(child)
        self.assertEqual(self.rows("SELECT owner, fence FROM jobs"), [["child", 1]])

    def test_the_hosts_locks_stay_in_the_parent_over_a_fork(self):
        import sqlite3

        db = self.ready("job")
        host = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        host.execute("BEGIN IMMEDIATE")
        peer = self.peer()
        wait_for(in_child(lambda: None))
        db.state("job").ok()
        self.assert_locked(peer)
        host.execute("COMMIT")
        self.assertEqual(db.claim("job", "we", 0, 10).ok(), 1)

    def test_a_child_begins_without_descriptors_of_the_file_and_they_do_not_grow(self):
        db = self.ready("job", busy_timeout_ms=NO_WAIT)
        db.state("job").ok()
        descriptors = len(open_files()) + MORE
        for n in range(1, 51):
            wait_for(in_child(lambda: self.assertEqual([f for f in open_files() if f.startswith(self.path)], [])))
            if n % 10 == 0:
                db.claim("job", "parent", 10 * n, 10).ok()
                db.state("job").ok()
            self.assertLessEqual(len(open_files()), descriptors)

    def test_handles_opened_by_a_child_are_its_own(self):
        db = self.ready("job")

        def work():
            own = Db(self.path)
            self.assertEqual(own.claim("job", "child", 0, 10).ok(), 1)
            db.close()
            self.assertEqual(own.claim("job", "child", 10, 10).ok(), 2)
            own.close()

        wait_for(in_child(work))
        self.assertEqual(db.claim("job", "parent", 20, 10).ok(), 3)
