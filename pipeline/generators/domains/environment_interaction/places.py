"""Worlds that one walks through: what is there is learned by walking, and what was done is replayed."""

from __future__ import annotations

import itertools
import random

from pipeline.generators.domains.environment_interaction.texts import (
    DOMAIN,
    packed,
    placed,
    python,
)
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Cell = tuple[int, int]
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}

_CAVE = '''#!/usr/bin/env python3
"""A cave in the dark. Commands: go DIRECTION, look, quit."""
import base64
import json
import sys
import zlib

WORLD = json.loads(zlib.decompress(base64.b64decode("@WORLD@")))
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
passages = {tuple(map(tuple, p)) for p in WORLD["passages"]}
things = {tuple(map(int, k.split(","))): v for k, v in WORLD["things"].items()}
here = tuple(WORLD["start"])
for line in sys.stdin:
    words = line.split()
    if words == ["quit"]:
        break
    if words == ["look"]:
        print("here:", things.get(here, "nothing"), flush=True)
    elif len(words) == 2 and words[0] == "go" and words[1] in STEPS:
        there = (here[0] + STEPS[words[1]][0], here[1] + STEPS[words[1]][1])
        if (here, there) in passages or (there, here) in passages:
            here = there
            print("you go", words[1], flush=True)
        else:
            print("rock", flush=True)
    else:
        print("?", flush=True)
'''
_EXPLORE = """
import subprocess
cave = subprocess.Popen(["/usr/local/bin/cave"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(words):
    print(words, file=cave.stdin, flush=True)
    return cave.stdout.readline().strip()
STEPS = [("north", -1, 0), ("east", 0, 1), ("south", 1, 0), ("west", 0, -1)]
BACK = {"north": "south", "south": "north", "east": "west", "west": "east"}
things, open_ways, seen = {}, set(), set()
def visit(r, c):
    seen.add((r, c))
    found = say("look").split(": ")[1]
    if found != "nothing":
        things[r, c] = found
    for name, dr, dc in STEPS@ORDER@:
        if (r + dr, c + dc) not in seen@LIMIT@ and say("go " + name) != "rock":
            open_ways.add((r, c, name))
            visit(r + dr, c + dc)
            say("go " + BACK[name])
        elif (r + dr, c + dc) in seen and say("go " + name) != "rock":
            say("go " + BACK[name])
            open_ways.add((r, c, name))
import sys
sys.setrecursionlimit(9000)
visit(0, 0)
top, left = min(r for r, _ in seen), min(c for _, c in seen)
rows, columns = max(r for r, _ in seen) - top + 1, max(c for _, c in seen) - left + 1
grid = [["#"] * (2 * columns + 1) for _ in range(2 * rows + 1)]
for r, c in seen:
    y, x = 2 * (r - top) + 1, 2 * (c - left) + 1
    grid[y][x] = {"nothing": " "}.get(things.get((r, c), "nothing"), things.get((r, c), " ")[0].upper())
    if (r, c) == (0, 0):
        grid[y][x] = "@"
for r, c, name in open_ways:
    dr, dc = {n: (a, b) for n, a, b in STEPS}[name]
    grid[2 * (r - top) + 1 + dr][2 * (c - left) + 1 + dc] = " "
open("/work/map.txt", "w").write("\\n".join("".join(row) for row in grid) + "\\n")
"""
_FINDS = (
    ("gold", "lamp", "rope"),
    ("crystal", "skull", "well"),
    ("ladder", "axe", "spring"),
    ("bones", "idol", "torch"),
)


def cave_map(seed: int, context: Context) -> Draft:
    """A map of what nobody shows."""
    rng = chance(DOMAIN, "cave_map", seed)
    rows, columns = ((7, 9), (9, 7), (6, 11), (8, 8))[seed % 4]
    passages = _carved(rng, rows, columns, extra=(0, 6, 10, 3)[seed % 4])
    cells = list(itertools.product(range(rows), range(columns)))
    start, *spots = rng.sample(cells, 5)
    kinds = _FINDS[seed % 4]
    things = {spot: kinds[n % 3] for n, spot in enumerate(spots)}
    world = {
        "passages": sorted([list(a), list(b)] for a, b in passages),
        "things": {f"{r},{c}": name for (r, c), name in things.items()},
        "start": list(start),
    }
    drawn = [["#"] * (2 * columns + 1) for _ in range(2 * rows + 1)]
    for r, c in cells:
        drawn[2 * r + 1][2 * c + 1] = "@" if (r, c) == start else things.get((r, c), " ")[0].upper()
    for a, b in passages:
        drawn[a[0] + b[0] + 1][a[1] + b[1] + 1] = " "
    good = python(placed(_EXPLORE, order="", limit=""))
    return Draft(
        family="cave_map",
        seed=seed,
        difficulty="hard",
        instruction="Map the cave behind /usr/local/bin/cave for me; you start it, type `go north` (east, south, "
        "west) and "
        "it answers `rock` or that you went, `look` says what lies where you stand. Chambers lie on a grid with "
        f"{rows} rows and {columns} columns, each can be reached, and you always begin in the same one.\n\n"
        f"Draw /work/map.txt with {2 * rows + 1} lines of {2 * columns + 1} characters, north up. The chamber in "
        "row r and "
        "column c (from 0, counted from the north-west corner) is the character at line 2r+1, column 2c+1, also "
        "from 0: a "
        f"space, or the capital first letter of the thing that lies there ({', '.join(kinds)}), or @ for the "
        "chamber where "
        "you begin. The character between two neighbouring chambers is a space when one can walk between them. All "
        "other "
        "characters are #.",
        files=(TaskFile(path="/usr/local/bin/cave", text=placed(_CAVE, world=packed(world)), mode=0o755),),
        solution=(good,),
        right=(
            Variant(
                name="explores_the_other_way_round", commands=(python(placed(_EXPLORE, order="[::-1]", limit="")),)
            ),
        ),
        weak=(
            Variant(
                name="stops_after_thirty_chambers",
                commands=(python(placed(_EXPLORE, order="", limit=" and len(seen) < 30")),),
            ),
            Variant(name="things_left_out", commands=(good, "tr A-Z ' ' < map.txt > m && mv m map.txt")),
            Variant(name="south_up", commands=(good, "tac map.txt > m && mv m map.txt")),
        ),
        verifier=filled(
            """
MAP = __MAP__


def drawing(box):
    return box.text("/work/map.txt").rstrip("\\n").split("\\n")


def test_walls_and_passages(box):
    mine = [["#" if character == "#" else "." for character in line] for line in drawing(box)]
    assert mine == [["#" if character == "#" else "." for character in line] for line in MAP]


def test_things_and_the_beginning(box):
    marks = {(y, x): m for y, line in enumerate(drawing(box)) for x, m in enumerate(line) if m not in "# "}
    assert marks == {(y, x): m for y, line in enumerate(MAP) for x, m in enumerate(line) if m not in "# "}
""",
            map=["".join(line) for line in drawn],
        ),
    )


def _carved(rng: random.Random, rows: int, columns: int, extra: int) -> set[tuple[Cell, Cell]]:
    """A tree of passages over the grid, and a few more."""
    inside = {(0, 0)}
    passages: set[tuple[Cell, Cell]] = set()
    path = [(0, 0)]
    while path:
        r, c = path[-1]
        ways = [(r + a, c + b) for a, b in STEPS.values()]
        ways = [w for w in ways if w not in inside and 0 <= w[0] < rows and 0 <= w[1] < columns]
        if not ways:
            path.pop()
            continue
        new = rng.choice(ways)
        passages.add(((r, c), new))
        inside.add(new)
        path.append(new)
    while extra:
        r, c = rng.randrange(rows - 1), rng.randrange(columns - 1)
        new = rng.choice(((r + 1, c), (r, c + 1)))
        if ((r, c), new) not in passages and (new, (r, c)) not in passages:
            passages.add(((r, c), new))
            extra -= 1
    return passages
