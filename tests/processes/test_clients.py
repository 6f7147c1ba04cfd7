"""Eight processes in three languages on one file, through the C ABI, the Go and the Ruby wrapper."""

import collections
import subprocess
import unittest

from fencepost_ctypes import Db
from support import BUILD, HERE, RUBY, Case, parse

C, GO, RUBY_CLIENT = [BUILD / "client"], [BUILD / "client-go"], [*RUBY, HERE / "client.rb"]
LANGUAGES = [C, GO, RUBY_CLIENT, C, GO, RUBY_CLIENT, C, GO]


class Client:
    def __init__(self, command, name):
        self.process = subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answers(self):
        return parse(line.rstrip("\n") for line in iter(self.process.stdout.readline, ".\n") if line or self.ended())

    def ended(self):
        raise AssertionError(f"a client ended: {self.process.wait()}")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        if self.process.wait() != 0:
            raise AssertionError(f"a client ended: {self.process.returncode}")


class Clients(Case):
    def setUp(self):
        super().setUp()
        self.clients = [Client(command, f"client{n}") for n, command in enumerate(LANGUAGES)]
        for client in self.clients:
            self.addCleanup(client.end)

    def tell_all(self, command):
        """Gives all of them a command at once; their answers. `command` is given the client's number."""
        for n, client in enumerate(self.clients):
            client.tell(command(n))
        return [client.answers() for client in self.clients]

    def test_one_winner_a_fence_and_one_completion_a_job(self):
        count = 150
        db = Db(self.path)
        db.init_db().ok()
        for job in ["relay", *(f"{kind}-{n}" for kind in ("shared", "taken-over") for n in range(count))]:
            db.enqueue(job).ok()
        db.close()
        opened = self.tell_all(lambda n: f"open {self.path}")
        self.assertEqual(opened, [[("open", "-", 0, "OK")]] * len(self.clients))

        # Each client's clock stands 100 s after the one's before: those behind lose "taken-over" jobs to those ahead.
        told = self.tell_all(lambda n: f"work {count} {100 * n}")

        answers = [answer for client in told for answer in client]
        self.assert_history(answers)
        self.assertEqual(
            {(what, status) for what, _, _, status in answers}
            - {("claim", "HELD"), ("claim", "DONE"), ("complete", "STALE"), ("complete", "DONE")},
            {(what, "OK") for what in ("claim", "renew", "release", "enqueue", "complete")},
        )
        self.assertEqual(self.rows("SELECT count(*), sum(done) FROM jobs"), [[1 + 10 * count, 10 * count]])
        self.assertEqual(self.rows("SELECT owner, until FROM jobs WHERE id = 'relay'"), [[None, 0]])
        for job, owner, fence, result in self.rows("SELECT id, owner, fence, result FROM jobs WHERE done"):
            told_so = [n for n, client in enumerate(told) if ("complete", job, fence, "OK") in set(client)]
            self.assertEqual([f"client{n}" for n in told_so], [owner])
            self.assertEqual(result, f"{owner}:{fence}")

    def test_all_of_them_make_the_same_file(self):
        for n in range(15):
            path = f"{self.path}.{n}"
            told = self.tell_all(lambda _, path=path: f"race {path}")
            counted = collections.Counter((what, status) for client in told for what, _, _, status in client)
            lost = counted.pop(("claim", "HELD"), 0) + counted.pop(("claim", "DONE"), 0)
            self.assertEqual(
                counted,
                {
                    ("open", "OK"): 8,
                    ("init_db", "OK"): 8,
                    ("enqueue", "OK"): 1,
                    ("enqueue", "EXISTS"): 7,
                    ("claim", "OK"): 1,
                    ("complete", "OK"): 1,
                },
            )
            self.assertEqual(lost, 7)


if __name__ == "__main__":
    unittest.main()
