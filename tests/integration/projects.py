"""A project of one's own: configuration, repositories and data, on the engine of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENGINE_DATA = Path(os.environ.get("TOUCHSTONE_DATA", PROJECT / "data"))
"""Data folder whose engine the tests use."""


class Project:
    """A configuration file with local repositories only, and the command line to run it with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        known = ENGINE_DATA / "engine.json"
        if known.is_file():
            address = json.loads(known.read_text()) | {"owned": False}
            (self.data / "engine.json").write_text(json.dumps(address))
        self.repositories: list[str] = []
        self.settings = ""

    def add(self, name: str, files: dict[str, str | bytes], *, language: str = "python") -> Path:
        """A repository of these files, listed in the configuration."""
        root = self.folder / name
        for path, content in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        root.mkdir(exist_ok=True)
        self.repositories.append(f'[[sources.local.paths]]\npath = "{name}"\nlanguage = "{language}"\n')
        self.write()
        return root

    def write(self) -> None:
        head = f'{self.settings}\n[sources]\nuse = ["local"]\n'
        (self.folder / "touchstone.toml").write_text(head + "\n".join(self.repositories))

    def command(self, *arguments: str) -> list[str]:
        place = ["--config", str(self.folder / "touchstone.toml"), "--data", str(self.data)]
        return [sys.executable, "-m", "assets.cli", *arguments, *place]

    def environment(self) -> dict[str, str]:
        names = ("DAGSTER_HOME", "TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG")
        return {name: value for name, value in os.environ.items() if name not in names} | {"COLUMNS": "200"}

    def touchstone(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            self.command(*arguments),
            cwd=PROJECT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    def status(self) -> dict[str, object]:
        status: dict[str, object] = json.loads(self.touchstone("status", "--json").stdout.splitlines()[-1])
        return status


DOCKERFILE = "FROM debian:bookworm-slim\nCOPY . /workspace/{name}\nWORKDIR /workspace/{name}\n"


def word_tools(name: str, words: list[str]) -> dict[str, str | bytes]:
    """A small repository with documented commands whose results can be judged; `words` make it unlike others."""
    listed = "\n".join(words)
    return {
        "LICENSE": MIT,
        "Dockerfile": DOCKERFILE.format(name=name),
        "words.txt": listed + "\n",
        "wordtool.py": WORD_TOOL,
        "README.md": README.format(name=name, first=words[0], last=words[-1]),
    }


WORD_TOOL = '''"""Counts and sorts words."""
import collections, json, sys
command, path = sys.argv[1], sys.argv[2]
words = open(path).read().split()
if command == "frequency":
    print(json.dumps(dict(sorted(collections.Counter(words).items())), indent=1))
elif command == "lengths":
    print("\\n".join(f"{len(word)},{word}" for word in sorted(set(words))))
elif command == "index":
    with open("index.csv", "w") as out:
        out.write("letter,words\\n")
        for letter in sorted({word[0] for word in words}):
            out.write(f"{letter},{sum(word[0] == letter for word in set(words))}\\n")
'''

README = """# {name}

Looks at the vocabulary of {name}, from {first} to {last}.

## Frequencies

How often each word of the list occurs is printed as a JSON object whose keys are in alphabetical order:

```sh
python3 wordtool.py frequency words.txt
```

## Lengths

For a quick impression of the vocabulary, the different words are shown beside the number of their letters:

```console
$ python3 wordtool.py lengths words.txt
```

## Index

An overview by initial letter, a table with one line for each letter, is left in a file of its own:

```sh
python3 wordtool.py index words.txt
```
"""


def ledger(name: str) -> dict[str, str | bytes]:
    """Another repository, whose tasks have nothing in common with those of `word_tools`."""
    return {
        "LICENSE": MIT,
        "Dockerfile": DOCKERFILE.format(name=name),
        "bookings.csv": "account,amount\nrent,-700\nwages,2400\nfood,-310\nrent,-700\ninterest,12\n",
        "ledger.py": LEDGER,
        "README.md": LEDGER_README,
    }


LEDGER = '''"""Adds up bookings."""
import csv, json, sqlite3, sys
rows = list(csv.DictReader(open(sys.argv[2])))
totals = {}
for row in rows:
    totals[row["account"]] = totals.get(row["account"], 0) + int(row["amount"])
if sys.argv[1] == "balance":
    print("account,total")
    for account in sorted(totals):
        print(f"{account},{totals[account]}")
elif sys.argv[1] == "store":
    database = sqlite3.connect(sys.argv[3])
    database.execute("create table totals (account text primary key, total integer)")
    database.executemany("insert into totals values (?, ?)", sorted(totals.items()))
    database.commit()
'''

LEDGER_README = """# Pocket ledger

A household writes down what comes in and goes out; this program answers what is left.

## Balance of every account

Bookings of one account are added together, and a line per account with its sum appears in comma-separated form:

```sh
python3 ledger.py balance bookings.csv
```

## Keeping sums in a database

People who prefer queries let the program create an SQLite file holding one table of accounts and their sums:

```sh
python3 ledger.py store bookings.csv sums.db
```
"""

MIT = """MIT License

Copyright (c) 2026 Nobody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

FRUIT = ["apple", "banana", "banana", "cherry", "date", "elderberry", "fig", "apple", "grape", "apricot"]
