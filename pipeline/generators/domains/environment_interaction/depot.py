"""A robot with a battery, in a depot with boxes. Its tape is replayed by the verifier."""

from __future__ import annotations

import itertools
import json
from collections import deque

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, placed, typed
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Cell = tuple[int, int]


_DEPOT = '''#!/usr/bin/env python3
"""The depot robot. Commands: forward, left, right, grab, drop, charge, status, quit."""
import hashlib
import json
import os
import sys

PLAN, KEY = json.loads('@PLAN@'), "@KEY@"
TAPE = "/var/lib/depot/tape"
HEADINGS = ((-1, 0), (0, 1), (1, 0), (0, -1))
os.makedirs("/var/lib/depot", exist_ok=True)
free = {(r, c) for r, row in enumerate(PLAN["rows"]) for c, mark in enumerate(row) if mark != "#"}
spot, heading, energy, load = tuple(PLAN["start"]), 0, PLAN["battery"], None
boxes = {name: tuple(at) for name, at in PLAN["boxes"].items()}
tape = []


def act(word):
    global spot, heading, energy, load
    if energy < 1:
        return "battery empty"
    if word == "forward":
        there = (spot[0] + HEADINGS[heading][0], spot[1] + HEADINGS[heading][1])
        if there not in free:
            return "blocked"
        spot = there
    elif word in ("left", "right"):
        heading = (heading + (1 if word == "right" else 3)) % 4
    elif word == "grab":
        name = next((n for n in sorted(boxes) if boxes[n] == spot), None)
        if load or not name:
            return "nothing to grab"
        load = name
        del boxes[name]
    elif word == "drop":
        if not load or spot in boxes.values():
            return "cannot drop"
        boxes[load], load = spot, None
    elif word == "charge":
        if PLAN["rows"][spot[0]][spot[1]] != "+":
            return "no charger here"
        energy = PLAN["battery"] + 1
    energy -= 1
    return "done"


for line in sys.stdin:
    word = line.strip()
    if word == "quit":
        break
    if word == "status":
        seen = {"spot": spot, "heading": "NESW"[heading], "energy": energy, "load": load, "boxes": boxes}
        print(json.dumps(seen), flush=True)
    elif word in ("forward", "left", "right", "grab", "drop", "charge"):
        said = act(word)
        if said == "done":
            tape.append(word)
            seal = hashlib.sha256((KEY + ",".join(tape)).encode()).hexdigest()
            with open(TAPE, "w") as out:
                out.write("\\n".join([seal, *tape]) + "\\n")
        print(said, flush=True)
    else:
        print("?", flush=True)
'''


def depot_robot(seed: int, context: Context) -> Draft:
    """Boxes to their places, with a battery and a budget."""
    rng = chance(DOMAIN, "depot_robot", seed)
    size = (7, 8, 9, 8)[seed % 4]
    count = (2, 3, 2, 3)[seed % 4]
    while True:
        rows = [["#" if rng.random() < 0.16 else "." for _ in range(size)] for _ in range(size)]
        cells = [(r, c) for r in range(size) for c in range(size) if rows[r][c] == "."]
        start, charger, *spots = rng.sample(cells, 2 + 2 * count)
        rows[charger[0]][charger[1]] = "+"
        boxes = {name: spots[n] for n, name in enumerate("ABC"[:count])}
        goals = {name: spots[count + n] for n, name in enumerate("ABC"[:count])}
        legs = _legs(rows, start, boxes, goals, sorted(boxes))
        if legs is None or not 60 <= sum(map(len, legs)) <= 140:
            continue
        battery = sum(map(len, legs)) * 2 // 3
        plan = _charged(rows, start, boxes, goals, sorted(boxes), charger, battery)
        back = _charged(rows, start, boxes, goals, sorted(boxes)[::-1], charger, battery)
        if plan and back:
            break
    budget = max(len(plan), len(back)) + 12
    lines = ["".join(row) for row in rows]
    key = key_of(rng)
    text = json.dumps({"rows": lines, "start": start, "battery": battery, "boxes": boxes})
    places = "; ".join(
        f"{n} stands at ({boxes[n][0]}, {boxes[n][1]}) and goes to ({goals[n][0]}, {goals[n][1]})" for n in boxes
    )
    cut = max(n for n, word in enumerate(plan) if word == "drop")
    swapped = [*plan[:cut], "forward", "drop"]
    return Draft(
        family="depot_robot",
        seed=seed,
        difficulty="hard",
        instruction="Drive the depot robot, /usr/local/bin/depot, until every box is in its place. The floor is in "
        "/work/floor.txt: # is a shelf, + the charger; positions are (row, column) from 0, the first line is row 0, "
        "row 0 is "
        f"north. The robot begins at ({start[0]}, {start[1]}) facing north. {places[0].upper() + places[1:]}.\n\n"
        "Commands are forward, left and right (turns on the spot), grab (takes the box of the position), drop, charge, "
        f"status and quit. Each successful command but status costs 1 of the {battery} units in the battery; "
        "charging, at "
        f"the charger only, fills it up. The robot carries one box. One run may have at most {budget} successful "
        "commands. "
        "The program seals what was done in the current run in /var/lib/depot/tape; starting it anew begins a new "
        "run in "
        "which everything stands where it stood. The tape of the last run has to show all boxes delivered, and an "
        "empty "
        "robot.",
        files=(
            TaskFile(path="/usr/local/bin/depot", text=placed(_DEPOT, plan=text, key=key), mode=0o755),
            TaskFile(path="/work/floor.txt", text="\n".join(lines) + "\n"),
        ),
        solution=(typed("depot", [*plan, "status", "quit"]),),
        right=(Variant(name="boxes_in_the_other_order", commands=(typed("depot", back),)),),
        weak=(
            Variant(name="charger_forgotten", commands=(typed("depot", [w for leg in legs for w in leg]),)),
            Variant(name="last_box_still_on_the_robot", commands=(typed("depot", plan[:cut]),)),
            Variant(name="dropped_elsewhere", commands=(typed("depot", ["right", *swapped]),)),
        ),
        verifier=filled(
            """
import hashlib

FLOOR = __FLOOR__
START = __START__
BATTERY = __BATTERY__
BOXES = __BOXES__
GOALS = __GOALS__
BUDGET = __BUDGET__
KEY = __KEY__


def commands(box):
    seal, *tape = box.text("/var/lib/depot/tape").split()
    assert seal == hashlib.sha256((KEY + ",".join(tape)).encode()).hexdigest(), "not the robot's own tape"
    return tape


def test_run_obeys_the_rules_and_delivers(box):
    row, column = START
    ahead, energy, carried = complex(0, 1), BATTERY, None
    lying = {name: tuple(at) for name, at in BOXES.items()}
    for word in commands(box):
        assert energy > 0, "the battery is empty"
        energy -= 1
        if word == "forward":
            row, column = row - int(ahead.imag), column + int(ahead.real)
            assert 0 <= row < len(FLOOR) and 0 <= column < len(FLOOR[0]) and FLOOR[row][column] != "#"
        elif word in ("left", "right"):
            ahead *= 1j if word == "left" else -1j
        elif word == "grab":
            assert carried is None
            carried = min(name for name, at in lying.items() if at == (row, column))
            del lying[carried]
        elif word == "drop":
            assert carried is not None and (row, column) not in lying.values()
            lying[carried], carried = (row, column), None
        else:
            assert word == "charge" and FLOOR[row][column] == "+"
            energy = BATTERY
    assert carried is None and lying == {name: tuple(at) for name, at in GOALS.items()}, lying


def test_run_stays_within_the_budget(box):
    assert len(commands(box)) <= BUDGET
""",
            floor=lines,
            start=list(start),
            battery=battery,
            boxes={n: list(at) for n, at in boxes.items()},
            goals={n: list(at) for n, at in goals.items()},
            budget=budget,
            key=key,
        ),
    )


Pose = tuple[int, int, int]


def _way(rows: list[list[str]], pose: Pose, goal: Cell) -> tuple[list[str], Pose] | None:
    """The fewest turns and steps to a position."""
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    before: dict[Pose, tuple[Pose, str]] = {}
    queue = deque([pose])
    while queue:
        now = queue.popleft()
        if now[:2] == goal:
            words: list[str] = []
            end = now
            while now != pose:
                now, word = before[now]
                words.append(word)
            return words[::-1], end
        r, c, h = now
        options = [((r, c, (h + 1) % 4), "right"), ((r, c, (h + 3) % 4), "left")]
        a, b = r + moves[h][0], c + moves[h][1]
        if 0 <= a < len(rows) and 0 <= b < len(rows) and rows[a][b] != "#":
            options.append(((a, b, h), "forward"))
        for new, word in options:
            if new not in before and new != pose:
                before[new] = (now, word)
                queue.append(new)
    return None


def _legs(
    rows: list[list[str]], start: Cell, boxes: dict[str, Cell], goals: dict[str, Cell], order: list[str]
) -> list[list[str]] | None:
    pose: Pose = (*start, 0)
    legs: list[list[str]] = []
    for name in order:
        for goal, word in ((boxes[name], "grab"), (goals[name], "drop")):
            found = _way(rows, pose, goal)
            if found is None:
                return None
            legs.append([*found[0], word])
            pose = found[1]
    return legs


def _charged(
    rows: list[list[str]],
    start: Cell,
    boxes: dict[str, Cell],
    goals: dict[str, Cell],
    order: list[str],
    charger: Cell,
    battery: int,
) -> list[str]:
    """A plan with one charge between two legs; empty when no such plan lasts."""
    for halt in range(1, 2 * len(order)):
        pose: Pose = (*start, 0)
        words: list[str] = []
        charged = 0
        for number, (name, target) in enumerate(itertools.product(order, ("grab", "drop"))):
            if number == halt:
                found = _way(rows, pose, charger)
                if found is None:
                    return []
                words += [*found[0], "charge"]
                pose, charged = found[1], len(words)
            found = _way(rows, pose, (boxes if target == "grab" else goals)[name])
            if found is None:
                return []
            words += [*found[0], target]
            pose = found[1]
        if charged <= battery and len(words) - charged <= battery:
            return words
    return []
