"""Reads databases with nothing but Python's SQLite, in a process in which nothing fails: a path a line, and an answer a
line."""

import json
import sqlite3
import sys


def read(path):
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN")
        schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        rows = connection.execute("SELECT * FROM jobs ORDER BY id").fetchall() if schema else []
        (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
        connection.execute("ROLLBACK")
        return {"schema": schema, "rows": rows, "sound": sound}
    finally:
        connection.close()


def main():
    for line in sys.stdin:
        try:
            answer = read(line.rstrip("\n"))
        except sqlite3.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()
