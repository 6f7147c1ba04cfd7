"""Many clients that share jobs and are killed at random moments, and what all of them were told held against the file."""

import collections
import mmap
import os
import subprocess
import time

from support import CLIENT, FULL, LATE, NORMAL, REFUSALS, claims, parse, read_rows

CLIENTS = 8

# The longest that one is let live before the next one is killed.
LONGEST = 0.016


class Storm:
    def __init__(self, folder, path, chance, flags, mode="-"):
        self.folder, self.path, self.chance, self.flags, self.mode = folder, path, chance, flags, mode
        self.board = folder / "board"
        self.board.write_bytes(bytes(mmap.PAGESIZE))
        self.logs = []

    def run(self, kills):
        running = [self.start(slot) for slot in range(CLIENTS)]
        try:
            for _ in range(kills):
                time.sleep(self.chance.uniform(0, LONGEST))
                slot = self.chance.randrange(CLIENTS)
                self.kill(running[slot])
                running[slot] = self.start(slot)
        finally:
            for process in running:
                process.kill()
                process.wait()

    def start(self, slot):
        owner = f"c{slot}.{len(self.logs)}"
        log = self.folder / owner
        self.logs.append(log)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        durability = self.chance.choice((FULL, NORMAL))
        try:
            return subprocess.Popen(
                [
                    CLIENT,
                    self.mode,
                    f"open {self.path} {durability} {self.flags} 10000",
                    f"storm {owner} {self.chance.getrandbits(60)} {self.board}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
            )
        finally:
            os.close(file)

    @staticmethod
    def kill(process):
        process.kill()
        if process.wait() != -9:
            raise AssertionError(f"a client ended by itself: {process.returncode}")

    def told(self):
        """All orders and answers of each client."""
        return [parse(log.read_text()) for log in self.logs]


class Verdict:
    """What is wrong, in `wrong`; nothing, it is to be hoped."""

    def __init__(self, told, rows):
        self.wrong = []
        self.answers = collections.Counter()
        self.cut_short = 0
        self.slowest = 0.0
        # The owners that each fence was granted to, and the calls that may have been granted one unheard.
        self.granted = collections.defaultdict(list)
        self.unheard = collections.Counter()
        self.unheard_next = set()
        # Completions by job: (owner, fence, result) that were told, and that were not.
        self.completed = collections.defaultdict(list)
        self.attempted = collections.defaultdict(list)
        # What the rows may be: the owner and the end of each lease, by job and fence.
        self.leases = collections.defaultdict(set)
        for client in told:
            for order, answer in client:
                self.note(order, answer)
        self.judge(rows)

    def note(self, order, answer):
        if answer is None:
            self.cut_short += 1
        else:
            self.answers[answer.status] += 1
            self.slowest = max(self.slowest, answer.seconds)
            if answer.status != "OK" and answer.status not in REFUSALS:
                self.wrong.append(f"an error: {order} {answer}")
        ok = answer is not None and answer.status == "OK"
        if claims(order):
            owner, now, ttl = claimer(order)
            if ok:
                for job, fence in answer.grants():
                    self.granted[job, fence].append(owner)
                    self.leases[job, fence].add((owner, now + ttl))
            elif answer is None:
                self.unheard_next.add((owner, now + ttl))
                self.unheard[owner] += 1
        if order[0] in ("complete", "complete_next"):
            job, owner, fence, result = order[1], order[2], int(order[3]), order[5]
            if ok:
                self.completed[job].append((owner, fence, result))
            elif answer is None:
                self.attempted[job].append((owner, fence, result))
        elif ok or answer is None:
            if order[0] == "renew":
                _, job, owner, fence, now, ttl = order
                self.leases[job, int(fence)].add((owner, float(now) + float(ttl)))
            elif order[0] == "release":
                self.leases[order[1], int(order[3])].add((None, 0.0))
            elif order[0] == "release_at":
                self.leases[order[1], int(order[3])].add((None, float(order[4])))
        if ok and order[0] == "enqueue":
            self.leases[order[1], 0].add((None, 0.0))

    def judge(self, rows):
        for key, owners in self.granted.items():
            if len(owners) > 1:
                self.wrong.append(f"a fence was granted twice: {key} to {owners}")
        missing = {job for job, _ in self.granted} | set(self.completed)
        missing |= {job for job, fence in self.leases if fence == 0}
        self.wrong += [f"lost: {job}" for job in missing - set(rows)]
        unheard = 0
        fences = collections.defaultdict(set)
        for job, fence in self.granted:
            fences[job].add(fence)
        for job, row in rows.items():
            told = fences[job]
            if told and max(told) > row.fence:
                self.wrong.append(f"a grant was undone: {job} {max(told)}, stored {row}")
            unheard += row.fence - len(told)
            self.judge_completions(job, row)
            if row.fence in told or row.fence == 0:
                known = self.leases[job, row.fence] | ({(None, 0.0)} if row.fence == 0 else set())
            else:
                # Granted to one who was killed before it heard: it has done nothing with it.
                known = self.unheard_next
            if (row.owner, row.until) not in known:
                self.wrong.append(f"a write that nobody had the lease for: {job} {row}, known {sorted(map(str, known))}")
        if unheard > sum(self.unheard.values()):
            self.wrong.append(f"{unheard} fences were granted to nobody, {sum(self.unheard.values())} claims not answered")

    def judge_completions(self, job, row):
        told, attempted = self.completed[job], self.attempted[job]
        if len(told) > 1:
            self.wrong.append(f"completed twice: {job} {told}")
        if told and not row.done:
            self.wrong.append(f"a completion was undone: {job} {told}, stored {row}")
        stored = (row.owner, row.fence, row.result)
        if row.done and stored not in (told or attempted):
            self.wrong.append(f"a stale result is stored: {job} {row}, told {told}, not answered {attempted}")
        if not row.done and row.result is not None:
            self.wrong.append(f"a result of a job that is not done: {job} {row}")


def claimer(order):
    """Who claims, when and for how long."""
    if order[0] == "complete_next":
        return order[2], float(order[4]), float(order[6])
    owner = 1 if order[0] in ("next", "batch") else 2
    return order[owner], float(order[owner + 1]), float(order[owner + 2])


def claim_all(client, rows):
    """Has another client claim every job that is not done. What is wrong with that."""
    wrong = []
    for job, row in rows.items():
        answer = client.ask(f"claim {job} heir {LATE} 10")
        if row.done:
            if answer.status != "DONE":
                wrong.append(f"{job} is done, a claim is {answer}")
        elif answer.status != "OK" or answer.grants() != [(job, row.fence + 1)]:
            wrong.append(f"{job} is {row}, a claim is {answer}")
    return wrong


def stored(path):
    return read_rows(path) or {}
