"""A panel of lamps whose buttons switch more than one. Presses are final, and replayed by the verifier."""

from __future__ import annotations

import itertools

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, placed, typed
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_LAMPS = '''#!/usr/bin/env python3
"""A panel of lamps. Commands: show, press ROW COLUMN, quit. The state survives in /var/lib/panel/state."""
import hashlib
import os
import sys

KEY, SIZE, REACH, WRAP = "@KEY@", @SIZE@, @REACH@, @WRAP@
STATE = "/var/lib/panel/state"
os.makedirs("/var/lib/panel", exist_ok=True)
presses = open(STATE).read().split()[1:] if os.path.exists(STATE) else []
lamps = [[int(c) for c in row] for row in "@LAMPS@".split("/")]


def toggle(row, column):
    for dr, dc in REACH:
        r, c = row + dr, column + dc
        if WRAP:
            r, c = r % SIZE, c % SIZE
        if 0 <= r < SIZE and 0 <= c < SIZE:
            lamps[r][c] ^= 1


for p in presses:
    toggle(*map(int, p.split(",")))
for line in sys.stdin:
    words = line.split()
    if words == ["quit"]:
        break
    if words == ["show"]:
        print("\\n".join("".join(".*"[lamp] for lamp in row) for row in lamps), flush=True)
    elif len(words) == 3 and words[0] == "press" and all(w.isdigit() and int(w) < SIZE for w in words[1:]):
        toggle(int(words[1]), int(words[2]))
        presses.append(f"{int(words[1])},{int(words[2])}")
        seal = hashlib.sha256((KEY + " ".join(presses)).encode()).hexdigest()
        with open(STATE, "w") as state:
            state.write(" ".join([seal, *presses]) + "\\n")
        print("lit:", sum(map(sum, lamps)), flush=True)
    else:
        print("?", flush=True)
'''
_CROSS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))
_PANELS: tuple[tuple[int, tuple[tuple[int, int], ...], bool, str], ...] = (
    (5, _CROSS, False, "itself and the lamps directly above, below, left and right of it"),
    (6, ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)), False, "itself and its up to four diagonal neighbours"),
    (7, _CROSS, True, "itself and its four neighbours, where the panel continues on the opposite side at each edge"),
    (
        6,
        ((0, 0), (1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)),
        False,
        "itself and every lamp that is a knight's move (as in chess) away and on the panel",
    ),
)


def lamp_panel(seed: int, context: Context) -> Draft:
    """Lights out with other neighbourhoods."""
    rng = chance(DOMAIN, "lamp_panel", seed)
    size, reach, wrap, said = _PANELS[seed % 4]
    key = key_of(rng)
    cells = list(itertools.product(range(size), repeat=2))
    chosen = rng.sample(cells, size * size // 2)
    lamps = [[0] * size for _ in range(size)]
    for row, column in chosen:
        _press(lamps, row, column, reach, wrap)
    lit = "/".join("".join(map(str, row)) for row in lamps)
    keys = [f"press {r} {c}" for r, c in chosen]
    every = [f"press {r} {c}" for r, row in enumerate(lamps) for c, lamp in enumerate(row) if lamp]
    program = placed(_LAMPS, key=key, size=size, reach=repr(reach), wrap=wrap, lamps=lit)
    return Draft(
        family="lamp_panel",
        seed=seed,
        difficulty="hard",
        instruction=f"The console program /usr/local/bin/panel controls {size} x {size} lamps. `show` draws them (a "
        "star is "
        "lit, a dot is dark), `press R C` presses the button of row R and column C, both counted from 0. A button "
        "switches "
        f"{said}: what is lit goes dark and the other way round. Every press is remembered and cannot be taken "
        "back, also "
        "across starts of the program; its memory is /var/lib/panel/state, which nobody but the program may write. "
        "Switch "
        f"everything off, with at most {size * size} presses in total, so think before you press.",
        files=(TaskFile(path="/usr/local/bin/panel", text=program, mode=0o755),),
        solution=(typed("panel", ["show", *keys, "quit"]),),
        right=(
            Variant(
                name="two_sittings_other_order",
                commands=(typed("panel", keys[::-2]), typed("panel", keys[-2::-2])),
            ),
        ),
        weak=(
            Variant(name="pressed_what_is_lit", commands=(typed("panel", every),)),
            Variant(name="last_press_missing", commands=(typed("panel", keys[:-1]),)),
            Variant(name="one_press_twice", commands=(typed("panel", [*keys, keys[0]]),)),
        ),
        verifier=filled(
            """
import hashlib

PANEL = __PANEL__
REACH = __REACH__
WRAP = __WRAP__
KEY = __KEY__


def presses(box):
    seal, *pressed = box.text("/var/lib/panel/state").split()
    assert seal == hashlib.sha256((KEY + " ".join(pressed)).encode()).hexdigest(), "the state is not the program's"
    return [tuple(map(int, one.split(","))) for one in pressed]


def test_all_lamps_are_dark(box):
    size = len(PANEL)
    lit = {(r, c) for r, row in enumerate(PANEL) for c, lamp in enumerate(row) if lamp == "1"}
    for row, column in presses(box):
        reached = {(row + r, column + c) for r, c in REACH}
        if WRAP:
            reached = {(r % size, c % size) for r, c in reached}
        lit ^= {(r, c) for r, c in reached if 0 <= r < size and 0 <= c < size}
    assert not lit, sorted(lit)


def test_no_more_presses_than_lamps(box):
    assert len(presses(box)) <= len(PANEL) ** 2
""",
            panel=lit.split("/"),
            reach=[list(step) for step in reach],
            wrap=wrap,
            key=key,
        ),
    )


def _press(lamps: list[list[int]], row: int, column: int, reach: tuple[tuple[int, int], ...], wrap: bool) -> None:
    size = len(lamps)
    for dr, dc in reach:
        r, c = (row + dr, column + dc) if not wrap else ((row + dr) % size, (column + dc) % size)
        if 0 <= r < size and 0 <= c < size:
            lamps[r][c] ^= 1
