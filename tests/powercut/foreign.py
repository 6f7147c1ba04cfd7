"""A program with an SQLite of its own that uses the same file, and obeys a line each on its standard input.

    open PATH
    pages SIZE       makes the database, with pages of that size
    mode MODE        the journal mode
    checkpoint MODE
    read
    close
    take JOB         claims a job, until 1000
    fill COUNT       that many writes of a hundred pages, which leave the checkpoints to the others
    storm COUNT      that many writes to a table of its own, with checkpoints between them
"""

import sqlite3
import sys

# The checkpoints of a storm. All but PASSIVE wait for the others, and begin the log anew.
MODES = ("RESTART", "PASSIVE", "TRUNCATE", "FULL")


def main():
    database = None
    for line in sys.stdin:
        order, argument, *_ = [*line.split(), ""]
        if order == "open":
            database = sqlite3.connect(argument, timeout=60, isolation_level=None)
        elif order == "pages":
            database.execute(f"PRAGMA page_size = {argument}")
            database.execute("CREATE TABLE host(number INTEGER)")
        elif order == "mode":
            database.execute(f"PRAGMA journal_mode = {argument}").fetchall()
        elif order == "checkpoint":
            database.execute(f"PRAGMA wal_checkpoint({argument})").fetchall()
        elif order == "read":
            database.execute("SELECT count(*) FROM sqlite_master").fetchall()
        elif order == "close":
            database.close()
        elif order == "take":
            taken = "UPDATE jobs SET owner = 'foreign', until = 1000, fence = fence + 1 WHERE id = ?"
            database.execute(taken, (argument,))
        elif order == "fill":
            database.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            database.execute("CREATE TABLE IF NOT EXISTS much AS SELECT zeroblob(50000) AS content")
            for _ in range(int(argument)):
                database.execute("UPDATE much SET content = randomblob(50000)")
        elif order == "storm":
            database.execute("CREATE TABLE IF NOT EXISTS host(number INTEGER)")
            for i in range(int(argument)):
                database.execute("INSERT INTO host VALUES (?)", (i,))
                database.execute(f"PRAGMA wal_checkpoint({MODES[i % len(MODES)]})").fetchall()
        print("OK", flush=True)
    if database:
        database.close()


main()
