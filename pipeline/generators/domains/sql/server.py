"""The PostgreSQL server of the image: how it is filled before a task, started in one, and asked by verifiers.

No tasks here: each subject has a file of its own.
"""

from __future__ import annotations

from pipeline.generators.drafts import TaskFile

START = "pg_ctlcluster 15 main start"
"""Starts the server; it is back when the server answers."""
STOP = "pg_ctlcluster 15 main stop"
WRITTEN = "psql -q -U postgres -c checkpoint"
"""Brings the pages of the tables to their files: one that is still empty looks like any other empty page."""

# The protocol itself: a program of the judged state could lie.
ASK = '''
import socket
import struct


def ask(question, user="postgres", port=5432):
    """All rows as tuples of texts, or the code of the error."""
    with socket.create_connection(("127.0.0.1", port), timeout=8) as line:
        stream = line.makefile("rb")
        greeting = f"user\\0{user}\\0database\\0__BASE__\\0\\0".encode()
        line.sendall(struct.pack("!ii", len(greeting) + 8, 196608) + greeting)
        rows, fault, sent = [], "", False
        while not (sent and kind == b"Z"):
            kind, size = struct.unpack("!ci", stream.read(5))
            body = stream.read(size - 4)
            if kind == b"E":
                fault = next(part[1:].decode() for part in body.split(b"\\0") if part[:1] == b"C")
                if not sent:
                    return fault
            elif kind == b"Z" and not sent:
                text = question.encode() + b"\\0"
                line.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
                sent, kind = True, b""
            elif kind == b"D":
                rows.append(cells(body))
        return fault or rows


def cells(body):
    found, place = [], 2
    for _ in range(int.from_bytes(body[:2], "big")):
        size = struct.unpack_from("!i", body, place)[0]
        place += 4
        found.append(None if size < 0 else body[place : place + size].decode())
        place += max(size, 0)
    return tuple(found)
'''


def asking(base: str, tests: str) -> str:
    """The template of a verifier: tests that may call `ask`."""
    return ASK.replace("__BASE__", base) + tests


def psql(base: str, script: str) -> str:
    """Run a script as the superuser of the server, which is running; the first error ends it."""
    return f"psql -q -U postgres -v ON_ERROR_STOP=1 -d {base} <<'EOF'\n{script.strip()}\nEOF"


def loaded(base: str, script: str) -> tuple[tuple[TaskFile, ...], tuple[str, ...]]:
    """Files and preparation: a database made from a script, and neither server nor script left behind."""
    path = "/work/begin.sql"
    load = f"psql -q -U postgres -v ON_ERROR_STOP=1 -d {base} -f {path} > /dev/null"
    commands = (START, f"createdb -U postgres {base}", load, STOP, f"rm {path}")
    return (TaskFile(path=path, text=script),), commands
