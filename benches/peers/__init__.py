"""Other queues in one SQLite file, each worked off by its own worker program, beside fencepost in the same run.

They are installed at the versions that are written here and in package.json and go.mod, into a folder that git ignores. One that
cannot be installed is left out, and said so.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = HERE / ".installed"
PYTHON = INSTALLED / "python" / "bin" / "python"
GO = INSTALLED / "go"
NODE = INSTALLED / "node"

FROM_PYPI = {"huey": "3.5.4", "litequeue": "0.9", "persist-queue": "1.1.0", "honker": "0.2.4"}

# How long an installation, and a worker, may take.
LIMIT = 900


class Missing(RuntimeError):
    """Why a peer is left out."""


def command(*words, **more):
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{words[0]}: {lines[-1] if lines else done.returncode}")
    return done.stdout.strip()


def from_pypi(name):
    version = FROM_PYPI[name]
    if not PYTHON.exists():
        command(sys.executable, "-m", "venv", INSTALLED / "python")
    command(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{name}=={version}")
    return version


def from_npm():
    NODE.mkdir(parents=True, exist_ok=True)
    for file in "package.json", "worker.mjs":
        shutil.copyfile(HERE / file, NODE / file)
    if not (NODE / "node_modules" / "better-sqlite3" / "build").exists():
        command("npm", "install", "--no-audit", "--no-fund", cwd=NODE)
    # A native part that was not built shows here only.
    command("node", "-e", "new (require('better-sqlite3'))(':memory:')", cwd=NODE)
    return json.loads((HERE / "package.json").read_text())["dependencies"]["plainjob"]


def from_go():
    GO.mkdir(parents=True, exist_ok=True)
    source = HERE / "goqite"
    command("go", "build", "-o", GO / "goqite", ".", cwd=source)
    folder, version = command("go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "maragu.dev/goqite", cwd=source).rsplit(" ", 1)
    shutil.copyfile(pathlib.Path(folder) / "schema_sqlite.sql", GO / "goqite.sql")
    return version.removeprefix("v")


class Contestant:
    def __init__(self, name, shown, program, modes=("own", "full"), install=lambda: ""):
        self.name, self.shown, self.program, self.modes, self.install = name, shown, program, modes, install
        self.version = ""

    def words(self, what, folder, *more):
        return [str(w) for w in (*self.program, self.name, what, folder, *more)]


def contestants(programs):
    """fencepost first: in C, in Python as most of the others, with its call for both steps, and at NORMAL."""
    c, python = [programs / "worker"], [sys.executable, "-B", HERE / "worker.py"]
    yield Contestant("fencepost", "fencepost (C)", c, modes=("full",))
    yield Contestant("fencepost", "fencepost (Python, ctypes)", python, modes=("full",))
    yield Contestant("fencepost-chain", "fencepost, complete_and_claim_next (C)", c, modes=("full",))
    yield Contestant("fencepost-normal", "fencepost at NORMAL (C)", c, modes=("own",))
    yield Contestant("fencepost-normal", "fencepost at NORMAL (Python, ctypes)", python, modes=("own",))
    yield Contestant("plainjob", "plainjob (Node.js)", ["node", NODE / "worker.mjs"], install=from_npm)
    for name in FROM_PYPI:
        modes = ("own",) if name == "honker" else ("own", "full")
        install = lambda name=name: from_pypi(name)
        yield Contestant(name, f"{name} (Python)", [PYTHON, "-B", HERE / "worker.py"], modes, install)
    yield Contestant("goqite", "goqite (Go)", [GO / "goqite"], install=from_go)


def install(programs, say):
    """Those that can run."""
    ready = []
    for contestant in contestants(programs):
        try:
            contestant.version = contestant.install()
        except Missing as why:
            say(f"    left out: {contestant.shown}: {why}")
            continue
        ready.append(contestant)
    return ready


def make(contestant, folder, count):
    folder.mkdir()
    command(*contestant.words("make", folder, count))


def work(contestant, made, folder, mode, workers, count):
    """Works a queue off with so many processes: jobs a second, how many deliveries there were, and the longest one."""
    shutil.rmtree(folder, ignore_errors=True)
    # What fencepost keeps beside the file is about the file that it was made for.
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns("*-fencepost"))
    subprocess.run(["sync", "-f", str(folder)], check=True)
    words = contestant.words("work", folder, *(["full"] if mode == "full" else []))
    processes = []
    # Ends a worker that hangs, and with it the wait for what it prints.
    watch = threading.Timer(LIMIT, lambda: [process.kill() for process in processes])
    watch.daemon = True
    try:
        for _ in range(workers):
            processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        watch.start()
        for process in processes:
            expect(process, "ready")
        begun = time.monotonic()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            expect(process, "done")
        seconds = time.monotonic() - begun
        answers = [json.loads(process.stdout.readline()) for process in processes]
        for process in processes:
            process.wait(LIMIT)
    finally:
        watch.cancel()
        for process in processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
    jobs = [job for answer in answers for job in answer["jobs"]]
    if set(jobs) != set(range(count)):
        raise Missing(f"{len(set(jobs))} of {count} jobs were delivered")
    return {
        "rate": count / seconds,
        "deliveries": len(jobs),
        "longest_ms": max(answer["longest_ms"] for answer in answers),
        "again": sum(answer["again"] for answer in answers),
        "synchronous": answers[0]["synchronous"],
    }


def expect(process, word):
    line = process.stdout.readline().strip()
    if line != word:
        raise Missing("a worker of it failed")


SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class Contest:
    """The line of the table."""

    name = "peers"
    what = "other queues in one SQLite file, at equal sync (FULL): one worker; four"
    bar = "ahead of every one; ahead of every one"

    def __init__(self, programs, count, rounds, say):
        self.programs, self.count, self.rounds, self.say = programs, count, rounds, say
        self.versions = {}

    def measure(self, bench):
        ready = install(self.programs, self.say)
        self.versions = {c.name: c.version for c in ready if c.version}
        results, made = {}, {}
        for number in range(self.rounds):
            for mode in "own", "full":
                for workers in 1, 4:
                    # Beside each other in time are those that are compared.
                    for contestant in ready if number % 2 == 0 else ready[::-1]:
                        if mode not in contestant.modes:
                            continue
                        try:
                            result = self.play(contestant, bench.files.folder, made, mode, workers)
                        except Missing as why:
                            if contestant.name.startswith("fencepost"):
                                raise
                            self.say(f"    left out: {contestant.shown}: {why}")
                            ready = [other for other in ready if other is not contestant]
                            results.pop(contestant.shown, None)
                            continue
                        results.setdefault(contestant.shown, {}).setdefault((mode, workers), []).append(result)
        for folder in made.values():
            shutil.rmtree(folder)
        return {contestant.shown: results[contestant.shown] for contestant in ready}

    def play(self, contestant, folder, made, mode, workers):
        if contestant.name not in made:
            made[contestant.name] = folder / f"made-{contestant.name}"
            make(contestant, made[contestant.name], self.count)
        return work(contestant, made[contestant.name], folder / "working", mode, workers, self.count)

    def shown(self, results):
        for name, by_mode in results.items():
            for (mode, workers), rounds in by_mode.items():
                middle = {key: statistics.median([r[key] for r in rounds]) for key in rounds[0]}
                most, longest = (max(r[key] for r in rounds) for key in ("deliveries", "longest_ms"))
                sync = SYNCHRONOUS[int(middle["synchronous"])]
                yield f"{name}, {workers}", (
                    f"{sync:6}{' (own)' if mode == 'own' else '':6} {middle['rate']:>8,.0f} /s   longest {longest:>8,.1f} ms"
                    f"   {most:,.0f} deliveries of {self.count:,}{self.locked(rounds)}"
                )

    @staticmethod
    def locked(rounds):
        again = sum(r["again"] for r in rounds)
        return f"   locked for too long {again:,.0f} times" if again else ""

    def judge(self, results):
        """Against the nearest of the others, round by round. fencepost counts as it is in Python, its slower client."""
        ours = results["fencepost (Python, ctypes)"]
        others = {name: modes for name, modes in results.items() if not name.startswith("fencepost")}
        for workers in 1, 4:
            key = ("full", workers)
            measured = [
                (statistics.median([a["rate"] / b["rate"] for a, b in zip(ours[key], modes[key])]), name)
                for name, modes in others.items()
                if key in modes
            ]
            if not measured:
                yield "none of them could be installed", None
                continue
            nearest = ", ".join(f"{ratio:.3g} times {name}" for ratio, name in sorted(measured)[:3])
            yield f"the nearest of {len(measured)}: {nearest}", min(measured)[0] > 1
