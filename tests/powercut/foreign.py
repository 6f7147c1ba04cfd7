"""A program with an SQLite of its own that uses the same file, and obeys a line each on its standard input.

    open PATH
    pages SIZE       makes the database, with pages of that size
    mode MODE        the journal mode
    checkpoint MODE
    storm COUNT      that many writes to a table of its own, with checkpoints between them
"""

import sqlite3
import sys

# The checkpoints of a storm. All but PASSIVE wait for the others, and begin the log anew.
MODES = ("RESTART", "PASSIVE", "TRUNCATE", "FULL")


def main():
    database = None
    for line in sys.stdin:
        order, argument = line.split()
        if order == "open":
            database = sqlite3.connect(argument, timeout=60, isolation_level=None)
        elif order == "pages":
            database.execute(f"PRAGMA page_size = {argument}")
            database.execute("CREATE TABLE host(number INTEGER)")
        elif order == "mode":
            database.execute(f"PRAGMA journal_mode = {argument}").fetchall()
        elif order == "checkpoint":
            database.execute(f"PRAGMA wal_checkpoint({argument})").fetchall()
        elif order == "storm":
            database.execute("CREATE TABLE IF NOT EXISTS host(number INTEGER)")
            for i in range(int(argument)):
                database.execute("INSERT INTO host VALUES (?)", (i,))
                database.execute(f"PRAGMA wal_checkpoint({MODES[i % len(MODES)]})").fetchall()
        print("OK", flush=True)
    if database:
        database.close()


main()
