#!/usr/bin/env python3
"""Runs every program in the READMEs and the pages for users as it is written, under scripts/staged: compiles it where that
is needed, runs it, and wants success. Those of one page share a folder, as they share a reader."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
READMES = [ROOT / "README.md", *sorted((ROOT / "bindings").glob("*/README.md")), *sorted((ROOT / "docs").glob("*.md"))]
TABLE = re.search(r"^CREATE TABLE jobs\(.*?\);$", READMES[0].read_text(), re.MULTILINE | re.DOTALL)[0]


def pkg_config() -> list[str]:
    return subprocess.check_output(["pkg-config", "--cflags", "--libs", "fencepost"], text=True).split()


def run(command: list[str], folder: pathlib.Path, **more: str) -> None:
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **more})


def c(source: pathlib.Path, folder: pathlib.Path) -> None:
    sqlite = ["-lsqlite3"] if "<sqlite3.h>" in source.read_text() else []
    run(["cc", "-Wall", "-Wextra", "-Werror", "-o", "c", str(source), *pkg_config(), *sqlite], folder)
    run(["./c"], folder)


def cpp(source: pathlib.Path, folder: pathlib.Path) -> None:
    run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "cpp", str(source), *pkg_config()], folder)
    run(["./cpp"], folder)


def go(source: pathlib.Path, folder: pathlib.Path) -> None:
    module = "github.com/fencepost/fencepost/bindings/go"
    (folder / "go.mod").write_text(
        f"module snippet\n\ngo 1.19\n\nrequire {module} v0.0.0\n\nreplace {module} => {ROOT}/bindings/go\n"
    )
    run(["go", "run", source.name], folder)


def ruby(source: pathlib.Path, folder: pathlib.Path) -> None:
    run(["ruby", "-W", source.name], folder, RUBYLIB=str(ROOT / "bindings/ruby/lib"))


def rust(source: pathlib.Path, folder: pathlib.Path) -> None:
    (folder / "Cargo.toml").write_text(
        f"""[package]
name = "snippet"
version = "0.0.0"
edition = "2024"

[[bin]]
name = "snippet"
path = "{source.name}"

[dependencies]
fencepost = {{ path = "{ROOT}" }}
"""
    )
    (folder / "Cargo.lock").write_text((ROOT / "Cargo.lock").read_text())
    run(["cargo", "run", "--quiet"], folder, CARGO_TARGET_DIR=str(ROOT / "build/readme"))


def sql(source: pathlib.Path, folder: pathlib.Path) -> None:
    """In SQLite's shell, on the page's jobs.db, or on one with the README's table where no program has made it yet."""
    program = source.read_text()
    database = ":memory:" if TABLE in program else "jobs.db"
    if database != ":memory:" and not (folder / database).exists():
        program = TABLE + program
    subprocess.run(["sqlite3", "-bail", database], cwd=folder, check=True, input=program, text=True)


def sh(source: pathlib.Path, folder: pathlib.Path) -> None:
    """The commands that use the staged library, as a reader gives them: in the repository's root, and not under
    scripts/staged already. Those that install something are not run."""
    root = folder / "root"
    root.mkdir()
    for name in ("scripts", "bindings", "build"):
        (root / name).symlink_to(ROOT / name)
    for language, name in (("c", "worker.c"), ("ruby", "worker.rb")):
        (root / name).write_text(min(folder.glob(f"snippet*.{language}")).read_text())
    bare = {name: value for name, value in os.environ.items() if name not in ("PKG_CONFIG_PATH", "LD_LIBRARY_PATH")}
    for command in re.findall(r"^scripts/staged .*$", source.read_text(), re.MULTILINE):
        subprocess.run(["sh", "-c", command], cwd=root, check=True, env=bare)


LANGUAGES = {"c": c, "cpp": cpp, "go": go, "ruby": ruby, "rust": rust, "sh": sh, "sql": sql}


def main() -> int:
    passed = failed = 0
    for readme in READMES:
        with tempfile.TemporaryDirectory(prefix="fencepost-") as name:
            folder = pathlib.Path(name)
            blocks = re.findall(r"^```(\w+)\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
            for number, (language, program) in enumerate(blocks):
                if language not in LANGUAGES or (language == "sh" and not program.startswith("scripts/staged ")):
                    continue
                source = folder / f"snippet{number}.{language}"
                source.write_text(program)
                try:
                    LANGUAGES[language](source, folder)
                    passed += 1
                except subprocess.CalledProcessError as problem:
                    failed += 1
                    print(f"FAILED {readme.relative_to(ROOT)}, block {number + 1} ({language}): {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
