"""Programs for reading and ticking: a message board on a prompt, and a list that owns the whole screen."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, packed, placed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_BOARD = '''#!/usr/bin/env python3
"""A message board. Commands: next, read NUMBER, file NUMBER FOLDER, count, quit."""
import base64
import hashlib
import json
import os
import sys
import zlib

MESSAGES = json.loads(zlib.decompress(base64.b64decode("@WORLD@")))
KEY, BOX = "@KEY@", "/var/lib/board/box.json"
os.makedirs("/var/lib/board", exist_ok=True)
state = json.load(open(BOX))["state"] if os.path.exists(BOX) else {"read": [], "folders": {}}


def keep():
    seal = hashlib.sha256((KEY + json.dumps(state, sort_keys=True)).encode()).hexdigest()
    with open(BOX, "w") as out:
        json.dump({"state": state, "seal": seal}, out)


def show(number):
    if number not in state["read"]:
        state["read"].append(number)
        keep()
    print(f"message {number}\\n{MESSAGES[number - 1]}\\n.", flush=True)


for line in sys.stdin:
    words = line.split() or [""]
    number = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if words == ["quit"]:
        break
    elif words == ["count"]:
        print(len(MESSAGES), "messages,", len(MESSAGES) - len(state["read"]), "unread", flush=True)
    elif words == ["next"]:
        left = [n for n in range(1, len(MESSAGES) + 1) if n not in state["read"]]
        show(left[0]) if left else print("no more\\n.", flush=True)
    elif words[0] == "read" and len(words) == 2 and 1 <= number <= len(MESSAGES):
        show(number)
    elif words[0] == "file" and len(words) == 3 and number in state["read"]:
        state["folders"].setdefault(words[2], []).append(number)
        keep()
        print("filed", flush=True)
    else:
        print("?", flush=True)
'''
_READ = """
import re, subprocess
board = subprocess.Popen(["/usr/local/bin/board"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(words):
    board.stdin.write(words + "\\n")
    board.stdin.flush()
total = (say("count"), int(board.stdout.readline().split()[0]))[1]
for number in @ORDER@:
    say("read %d" % number)
    text = ""
    while (line := board.stdout.readline()) != ".\\n":
        text += line
    body = text.split("\\n", 1)[1]
    if @TEST@:
        say("file %d @FOLDER@" % number)
        board.stdout.readline()
say("quit")
board.wait()
"""
_RULES: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("contain a question mark", '"?" in body', lambda t: "?" in t),
    (
        "name a number, that is, contain at least one decimal digit",
        're.search("[0-9]", body)',
        lambda t: any(c.isdigit() for c in t),
    ),
    (
        "contain the word `never` or the word `always`, in whatever capitals, but not as part of a longer word",
        r're.search(r"(?i)\b(never|always)\b", body)',
        lambda t: bool({"never", "always"} & set(re.split(r"\W+", t.lower()))),
    ),
    ("are made of more than 40 words (parted by white space)", "len(body.split()) > 40", lambda t: len(t.split()) > 40),
)


def message_board(seed: int, context: Context) -> Draft:
    """Messages that are shown one at a time, to be read and filed."""
    rng = chance(DOMAIN, "message_board", seed)
    wording, test, holds = _RULES[seed % 4]
    shelf = ("fortunes", "literature", "fortunes", "literature")[seed % 4]
    parts = [" ".join(part.split()) for part in context.text(f"fortunes/{shelf}").split("\n%\n")]
    parts = sorted({part for part in parts if 30 <= len(part) <= 900 and part.isascii()})
    yes, no = [p for p in parts if holds(p)], [p for p in parts if not holds(p)]
    messages = [*rng.sample(yes, min(len(yes), 9)), *rng.sample(no, 28)]
    rng.shuffle(messages)
    folder = rng.choice(("attic", "desk", "drawer", "shelf"))
    wanted = [n for n, text in enumerate(messages, start=1) if holds(text)]
    key = key_of(rng)
    given = {"folder": folder, "test": test}
    good = python(placed(_READ, order="range(1, total + 1)", **given))
    return Draft(
        family="message_board",
        seed=seed,
        difficulty="easy",
        instruction="Tidy up the message board (/usr/local/bin/board). It shows one message at a time: `next` the "
        "next "
        "unread one, `read N` number N; a line with a single dot ends each. `count` tells how many there are, and "
        "`file N "
        f"FOLDER` puts a message that has been read into a folder. Read all {len(messages)} of them, and file those "
        "that "
        f"{wording} into the folder {folder}; the number line that the board prints above a message is no part of "
        "it. File "
        "nothing twice and nothing else. The board keeps its sealed state in /var/lib/board/box.json, which only it "
        "may write.",
        files=(
            TaskFile(path="/usr/local/bin/board", text=placed(_BOARD, world=packed(messages), key=key), mode=0o755),
        ),
        solution=(good,),
        right=(
            Variant(
                name="from_the_last_to_the_first",
                commands=(python(placed(_READ, order="range(total, 0, -1)", **given)),),
            ),
        ),
        weak=(
            Variant(name="half_of_the_board", commands=(python(placed(_READ, order="range(1, total // 2)", **given)),)),
            Variant(
                name="everything_filed",
                commands=(python(placed(_READ, order="range(1, total + 1)", folder=folder, test="True")),),
            ),
            Variant(
                name="read_but_not_filed",
                commands=(python(placed(_READ, order="range(1, total + 1)", folder=folder, test="False")),),
            ),
        ),
        verifier=filled(
            """
import hashlib
import json

WANTED = __WANTED__
FOLDER = __FOLDER__
TOTAL = __TOTAL__
KEY = __KEY__


def state_of(box):
    kept = json.loads(box.text("/var/lib/board/box.json"))
    text = KEY + json.dumps(kept["state"], sort_keys=True)
    assert kept["seal"] == hashlib.sha256(text.encode()).hexdigest(), "the board did not write this"
    return kept["state"]


def test_every_message_was_read(box):
    assert sorted(state_of(box)["read"]) == list(range(1, TOTAL + 1))


def test_the_folder_holds_what_it_should(box):
    folders = state_of(box)["folders"]
    assert {name: sorted(numbers) for name, numbers in folders.items()} == {FOLDER: WANTED}
""",
            wanted=wanted,
            folder=folder,
            total=len(messages),
            key=key,
        ),
        contexts=("fortunes",),
    )


_LIST = '''#!/usr/bin/env python3
"""Tick airports: arrow keys or j and k move, space ticks, w writes, q leaves."""
import curses
import hashlib
import json

ROWS, KEY, OUT = json.loads(r"""@ROWS@"""), "@KEY@", "/etc/route/ticked"


def main(screen):
    curses.curs_set(0)
    ticked, at, note = set(@TICKED@), 0, ""
    while True:
        height = screen.getmaxyx()[0] - 2
        top = max(0, min(at - height // 2, len(ROWS) - height))
        screen.erase()
        for line, (code, *rest) in enumerate(ROWS[top : top + height]):
            text = f"[{'x' if code in ticked else ' '}] {code}  " + "  ".join(rest)
            screen.addnstr(line, 0, text, screen.getmaxyx()[1] - 1, curses.A_REVERSE if top + line == at else 0)
        screen.addnstr(height, 0, note or f"{at + 1}/{len(ROWS)}", screen.getmaxyx()[1] - 1)
        screen.refresh()
        pressed = screen.getch()
        note = ""
        if pressed in (curses.KEY_DOWN, ord("j")):
            at = min(at + 1, len(ROWS) - 1)
        elif pressed in (curses.KEY_UP, ord("k")):
            at = max(at - 1, 0)
        elif pressed == ord(" "):
            ticked ^= {ROWS[at][0]}
        elif pressed == ord("w"):
            body = "".join(code + "\\n" for code, *_ in ROWS if code in ticked)
            with open(OUT, "w") as out:
                out.write(body + "# " + hashlib.sha256((KEY + body).encode()).hexdigest() + "\\n")
            note = "written"
        elif pressed == ord("q"):
            return


curses.wrapper(main)
'''
_KEYS = """
import os, pexpect
screen = pexpect.spawn("/usr/local/bin/airports", env={**os.environ, "TERM": "xterm"}, dimensions=(24, 90), timeout=10)
screen.expect("1/")
for line, hit in enumerate(@HITS@):
    if hit:
        screen.send(" ")
    screen.send("@DOWN@")
screen.send("@SAVE@")
screen.expect("@SEEN@")
screen.send("q")
screen.expect(pexpect.EOF)
"""
_TMUX = """tmux new-session -d -s ticks -x 100 -y 30 airports
for i in $(seq 100); do tmux capture-pane -p -t ticks | grep -q 1/ && break; sleep 0.1; done
for key in {keys}; do tmux send-keys -t ticks "$key"; done
for i in $(seq 100); do tmux capture-pane -p -t ticks | grep -q written && break; sleep 0.1; done
tmux send-keys -t ticks q
while tmux has-session -t ticks 2> /dev/null; do sleep 0.1; done"""


def airport_ticks(seed: int, context: Context) -> Draft:
    """A list on the whole screen, steered by keys."""
    rng = chance(DOMAIN, "airport_ticks", seed)
    every = list(csv.DictReader(io.StringIO(context.text("airports/airports.csv"))))
    every = [row for row in every if row["country"] == "USA" and row["name"].isascii() and len(row["state"]) == 2]
    rows = rng.sample(every, 36)
    states = sorted({row["state"] for row in rows})
    chosen = sorted(rng.sample(states, max(6, len(states) // 3)))
    limit = sorted(float(row["latitude"]) for row in rows)[14]
    wording, hit = (
        (f"lie in one of the states {', '.join(chosen)}", [row["state"] in chosen for row in rows]),
        (f"lie north of latitude {limit:.4f}", [round(float(r["latitude"]), 4) > round(limit, 4) for r in rows]),
        ("have a vowel (A, E, I, O, U) as the first letter of their code", [row["iata"][0] in "AEIOU" for row in rows]),
        ("belong to a city whose name has two words or more", [" " in row["city"] for row in rows]),
    )[seed % 4]
    shown = [[r["iata"], r["city"], r["state"], f"{float(r['latitude']):.4f}", r["name"]] for r in rows]
    before = sorted(rng.sample([row["iata"] for row in rows], 4))
    change = [want != (row["iata"] in before) for want, row in zip(hit, rows, strict=True)]
    body = [row["iata"] for row, want in zip(rows, hit, strict=True) if want]
    key = key_of(rng)
    given = {"save": "w", "seen": "written"}
    good = python(placed(_KEYS, hits=repr(list(map(int, change))), down="j", **given))
    blind = python(placed(_KEYS, hits=repr(list(map(int, hit))), down="j", **given))
    unsaved = python(placed(_KEYS, hits=repr(list(map(int, change))), down="j", save="k", seen="/36"))
    keys = " ".join(("Space Down" if flag else "Down") for flag in change) + " w"
    by_hand = "mkdir -p /etc/route && printf '%s\\n' " + " ".join(body) + " '# checked' > /etc/route/ticked"
    program = placed(_LIST, rows=json.dumps(shown), key=key, ticked=repr(before))
    return Draft(
        family="airport_ticks",
        seed=seed,
        difficulty="medium",
        instruction="Operate /usr/local/bin/airports, a program that takes over the screen of a terminal (24 lines "
        "or more). It "
        "lists airports with code, city, state, latitude and name, longer than a screen, and some are ticked already. "
        "Arrow keys (or j and k) move the bar, the space bar ticks or unticks, w writes the ticks, q leaves.\n\nLeave "
        f"exactly those airports ticked that {wording}, and write them. The program itself has to write the result, "
        "/etc/route/ticked; it ends in a check line, so do not edit it. The program forgets ticks that were not "
        "written.",
        files=(TaskFile(path="/usr/local/bin/airports", text=program, mode=0o755),),
        setup=("mkdir -p /etc/route",),
        solution=(good,),
        right=(Variant(name="in_a_multiplexer", commands=(_TMUX.format(keys=keys),)),),
        weak=(
            Variant(name="earlier_ticks_overlooked", commands=(blind,)),
            Variant(name="left_without_writing", commands=(unsaved,)),
            Variant(name="file_by_hand", commands=(by_hand,)),
        ),
        verifier=filled(
            """
import hashlib

TICKED = __TICKED__
KEY = __KEY__


def test_ticks(box):
    codes = [line for line in box.text("/etc/route/ticked").splitlines() if not line.startswith("#")]
    assert codes == TICKED


def test_the_program_wrote_them(box):
    body, _, check = box.text("/etc/route/ticked").rpartition("# ")
    assert check.strip() == hashlib.sha256((KEY + body).encode()).hexdigest()
""",
            ticked=body,
            key=key,
        ),
        contexts=("airports",),
    )
