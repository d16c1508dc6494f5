"""A console without help: what may be typed there stands in a manual page of the image, and nowhere else."""

from __future__ import annotations

import gzip
import random
import re
from dataclasses import dataclass
from itertools import combinations, pairwise

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, packed, placed, typed
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_CONSOLE = '''#!/usr/bin/env python3
"""The @TYPE@ console: takes calls of a manual page, `show` and `quit`."""
import base64
import hashlib
import json
import os
import re
import sys
import zlib

CALLS, heads, loose = json.loads(zlib.decompress(base64.b64decode("@WORLD@")))
JOURNAL, KEY = "/var/lib/@TYPE@/journal", "@KEY@"
journal = []


def place(element):
    return next((line for line in heads.values() if element in line), None)


def perform(text):
    shape = re.fullmatch(r"\\s*(\\w+)\\s*\\((.*)\\)\\s*", text)
    kinds = CALLS.get(shape[1]) if shape else None
    words = [word.strip() for word in shape[2].split(",")] if shape else []
    if kinds is None or len(kinds) != len(words):
        return False
    given = dict(zip(kinds, words))
    head, other = (heads.get(given.get(kind, "")[1:]) for kind in ("head", "head2"))
    listelm, elm, action = given.get("listelm"), given.get("elm"), shape[1].split("Q_")[-1].split("LIST_")[-1]
    around = place(listelm)
    if any(given.get(kind, "&")[:1] != "&" for kind in ("head", "head2")) or ("head" in given and head is None):
        return False
    if given.get("TYPE", "@TYPE@") != "@TYPE@" or given.get("NAME", "links") != "links":
        return False
    if listelm and (around is None or ("head" in given and around is not head)):
        return False
    if action.startswith("INSERT"):
        if elm not in loose:
            return False
        loose.remove(elm)
        if action in ("INSERT_HEAD", "INSERT_TAIL"):
            head.insert(0 if action == "INSERT_HEAD" else len(head), elm)
        else:
            around.insert(around.index(listelm) + (action == "INSERT_AFTER"), elm)
    elif action == "REMOVE_HEAD" and head:
        loose.append(head.pop(0))
    elif action == "REMOVE" and place(elm) is not None and ("head" not in given or elm in head):
        place(elm).remove(elm)
        loose.append(elm)
    elif action == "CONCAT" and other is not None and other is not head:
        head.extend(other)
        other.clear()
    else:
        return False
    return True


def keep():
    os.makedirs(os.path.dirname(JOURNAL), exist_ok=True)
    seal = hashlib.sha256("\\n".join([KEY, *journal]).encode()).hexdigest()
    with open(JOURNAL, "w") as out:
        out.write("\\n".join([seal, *journal]) + "\\n")


keep()
for line in sys.stdin:
    line = line.strip()
    if line == "quit":
        break
    if line == "show":
        for name, elements in heads.items():
            print(f"{name}:", *elements, flush=True)
        print("loose:", *loose, flush=True)
    elif line:
        taken = perform(line)
        journal.append(("+ " if taken else "- ") + line)
        keep()
        print("taken" if taken else "refused", flush=True)
'''


@dataclass(frozen=True)
class _Place:
    """What a console is about: its page, what its elements are, and the heads of its lists."""

    page: str
    type: str
    story: str
    heads: tuple[str, ...]
    elements: tuple[str, ...]


_PLACES = (
    _Place(
        "slist",
        "crate",
        "The stacker crane of our cold store keeps its crates in a list that is named after the aisle.",
        ("aisle",),
        ("plums", "leeks", "trout", "honey", "dates", "cream", "beans", "mint", "rye", "figs", "kale", "eggs"),
    ),
    _Place(
        "list",
        "slide",
        "The projector of the lecture hall shows the slides of its tray one after the other.",
        ("tray",),
        ("title", "map", "tides", "moon", "chart", "wrecks", "lamp", "buoy", "coast", "storm", "thanks", "quiz"),
    ),
    _Place(
        "stailq",
        "parcel",
        "The sorting office has two belts with parcels, and the night belt is to be cleared.",
        ("belt", "night"),
        ("oslo", "lyon", "bern", "cork", "gent", "pisa", "riga", "graz", "faro", "turku", "split", "malmo", "york"),
    ),
    _Place(
        "circleq",
        "gondola",
        "The gondolas of the big wheel hang in the order in which they pass the gate.",
        ("wheel",),
        ("red", "blue", "teal", "pink", "gold", "lime", "navy", "plum", "gray", "rust", "mint", "sand", "jade"),
    ),
)


def queue_console(seed: int, context: Context) -> Draft:
    """Elements are brought into an order with few calls, in the spelling of a manual page."""
    rng = chance(DOMAIN, "queue_console", seed)
    at = _PLACES[seed % 4]
    page = gzip.decompress(context.read(f"manuals/{at.page}.3.gz")).decode()
    calls = _signatures(page)
    lines, loose, goal = _world(rng, at)
    first = lines[at.heads[0]]
    join = [f"STAILQ_CONCAT(&{at.heads[0]}, &{at.heads[1]})"] if len(at.heads) > 1 else []
    joined = [element for line in lines.values() for element in line]
    desk = _Desk(at, calls)
    plan = [*join, *desk.moved(joined, goal)]
    late = [*join, *desk.moved(joined, goal, late=True)]
    most = len(plan) + 1
    wasteful = [*join, *desk.moved(joined, goal, kept=())]
    key = key_of(rng)
    shown = "; ".join(f"`{name}` holds {', '.join(line)}" for name, line in lines.items())
    dropped = sorted({*joined, *loose} - {*goal})
    spaced = [call.replace(", ", " ,  ").replace("(", " ( ", 1) for call in plan]
    foreign = [f"{at.page.upper()}_SWAP(&{at.heads[0]}, {first[0]}, links)", *(["remove"] * 2)]
    program = placed(_CONSOLE, type=at.type, key=key, world=packed([calls, lines, loose]))
    console = f"{at.type}-console"
    return Draft(
        family="queue_console",
        seed=seed,
        difficulty="hard" if seed % 4 > 1 else "medium",
        instruction=f"{at.story} The firm that built it is gone and /usr/local/bin/{console} has no help, but we know "
        f"that it was written after one manual page, /srv/manuals/{at.page}.3.gz. Besides `show` and `quit` it takes "
        "those calls "
        "in the SYNOPSIS of that page which insert, remove or concatenate, one on a line: the arguments, their "
        "number and "
        "order are the page's, whatever other systems have. A head is written with an ampersand "
        f"({', '.join('&' + name for name in at.heads)}), an element by its name alone, TYPE is {at.type}, NAME is "
        "links; no semicolon. Only what hangs in no list (show: loose) can be inserted, and what was removed is "
        f"loose.\n\nAt each start {shown}; loose: {', '.join(loose)}. Make it so that &{at.heads[0]} holds, from its "
        f"head on, exactly {', '.join(goal)}"
        + (f", &{at.heads[1]} nothing" if join else "")
        + f", and loose are {' and '.join(dropped)}. You may use {most} taken calls, and three or more refused "
        "lines are too many. "
        f"The console seals the lines of its last start in /var/lib/{at.type}/journal; that journal, which "
        "nobody else "
        "may write, has to show the whole work.",
        files=(TaskFile(path=f"/usr/local/bin/{console}", text=program, mode=0o755),),
        solution=(f"zcat /srv/manuals/{at.page}.3.gz | grep -c '^[.]B'", typed(console, [*plan, "show", "quit"])),
        right=(
            Variant(name="removed_when_needed", commands=(typed(console, ["help", *late]),)),
            Variant(name="spaced_and_after_a_trial", commands=(typed(console, plan[:2]), typed(console, spaced))),
        ),
        weak=(
            Variant(name="all_taken_out_and_put_back", commands=(typed(console, wasteful),)),
            Variant(name="last_call_missing", commands=(typed(console, plan[:-1]),)),
            Variant(name="guessed_until_it_worked", commands=(typed(console, [*foreign, *plan]),)),
            Variant(name="element_before_its_neighbour", commands=(typed(console, _swapped(plan, goal)),)),
            Variant(
                name="journal_by_hand",
                commands=(
                    f"mkdir -p /var/lib/{at.type}",
                    f"printf '%s\\n' {key} {' '.join(repr('+ ' + call) for call in plan)} > /var/lib/{at.type}/journal",
                ),
            ),
        ),
        verifier=filled(
            _VERIFIER,
            journal=f"/var/lib/{at.type}/journal",
            key=key,
            calls=calls,
            lines=lines,
            loose=loose,
            goal={name: goal if name == at.heads[0] else [] for name in at.heads},
            most=most,
        ),
        contexts=("manuals",),
    )


def _signatures(page: str) -> dict[str, list[str]]:
    """The names of the parameters by macro, as the synopsis of a page has them; only of macros that change a list."""
    synopsis = page.split(".SH SYNOPSIS", 1)[1].split(".SH DESCRIPTION", 1)[0]
    shown = "\n".join(line for line in synopsis.splitlines() if not line.startswith('.\\"'))
    plain = re.sub(r"^\.[A-Z]+ |[\"\n]", "", shown, flags=re.MULTILINE)
    found = re.findall(r"void (\w+_(?:INSERT|REMOVE|CONCAT)\w*)\(([^)]*)\)", plain)
    return {
        name: ["head" if (word := part.split()[-1].lstrip("*")) == "head1" else word for part in inner.split(",")]
        for name, inner in found
    }


def _world(rng: random.Random, at: _Place) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Lists, loose elements, and the order that is wanted."""
    elements = rng.sample(at.elements, len(at.elements))
    loose, hanging = sorted(elements[:3]), elements[3:]
    cut = len(hanging) if len(at.heads) == 1 else len(hanging) // 2
    lines = dict(zip(at.heads, (hanging[:cut], hanging[cut:]), strict=False))
    while True:
        goal = list(hanging)
        for gone in rng.sample(goal, 2):
            goal.remove(gone)
        for moved in rng.sample(goal, 3):
            goal.remove(moved)
            goal.insert(rng.randint(0, len(goal)), moved)
        for new in loose[:2]:
            goal.insert(rng.randint(0, len(goal)), new)
        kept = _kept(hanging, goal)
        if 3 <= len(kept) <= len(goal) - 4 and goal[0] not in hanging[:1]:
            return lines, loose, goal


def _kept(line: list[str], goal: list[str]) -> tuple[str, ...]:
    """The longest part of a list that already stands in the order of the goal."""
    common = [element for element in line if element in goal]
    ranks = {element: goal.index(element) for element in common}
    for count in range(len(common), 0, -1):
        for part in combinations(common, count):
            if all(ranks[a] < ranks[b] for a, b in pairwise(part)):
                return part
    return ()


@dataclass(frozen=True)
class _Desk:
    """Writes calls for a place."""

    at: _Place
    calls: dict[str, list[str]]

    def _call(self, action: str, elm: str = "", listelm: str = "") -> str:
        name = f"{self.at.page.upper()}_{action}"
        words = {
            "head": f"&{self.at.heads[0]}",
            "elm": elm,
            "listelm": listelm,
            "TYPE": self.at.type,
            "NAME": "links",
        }
        return f"{name}({', '.join(words[kind] for kind in self.calls[name])})"

    def moved(
        self, line: list[str], goal: list[str], *, kept: tuple[str, ...] | None = None, late: bool = False
    ) -> list[str]:
        """Calls that turn a list into the goal; what is kept stays where it hangs, `late` removes when it must."""
        stay = _kept(line, goal) if kept is None else kept
        calls = [] if late else [self._call("REMOVE", element) for element in line if element not in stay]
        for number, element in enumerate(goal):
            if element in stay:
                continue
            if late and element in line:
                calls.append(self._call("REMOVE", element))
            before = goal[number - 1]
            calls.append(self._call("INSERT_AFTER", element, before) if number else self._call("INSERT_HEAD", element))
        if late:
            calls += [self._call("REMOVE", element) for element in line if element not in goal]
        return calls


def _swapped(plan: list[str], goal: list[str]) -> list[str]:
    """The two elements of an insertion in the order in which one speaks of them."""
    pair = re.compile(rf"\b({'|'.join(goal)}), ({'|'.join(goal)})\b")
    return [pair.sub(r"\2, \1", call) for call in plan]


_VERIFIER = """
import hashlib
import re

JOURNAL = __JOURNAL__
KEY = __KEY__
CALLS = __CALLS__
LINES = __LINES__
LOOSE = __LOOSE__
GOAL = __GOAL__
MOST = __MOST__


def written(box):
    seal, *lines = box.text(JOURNAL).removesuffix("\\n").split("\\n")
    assert hashlib.sha256("\\n".join([KEY, *lines]).encode()).hexdigest() == seal, "this journal is not the console's"
    return lines


def test_calls_lead_to_the_wanted_lists(box):
    chains = {f"&{name}": list(elements) for name, elements in LINES.items()}
    free = set(LOOSE)
    for call in [line[2:] for line in written(box) if line[0] == "+"]:
        macro, *words = re.findall(r"&?\\w+", call)
        assert len(words) == len(CALLS[macro]), call
        said = dict(zip(CALLS[macro], words, strict=True))
        owner = next((name for name, chain in chains.items() if said.get("listelm", said.get("elm")) in chain), "")
        chain = chains[said.get("head", owner)]
        if "INSERT" in macro:
            free.remove(said["elm"])
            spot = len(chain) if macro.endswith("TAIL") else 0
            if "listelm" in said:
                spot = chain.index(said["listelm"]) + macro.endswith("AFTER")
            chain[spot:spot] = [said["elm"]]
        elif "REMOVE" in macro:
            gone = said.get("elm", chain[0])
            chain.remove(gone)
            free.add(gone)
        else:
            chain += chains[said["head2"]]
            chains[said["head2"]] = []
    assert chains == {f"&{name}": elements for name, elements in GOAL.items()}


def test_journal_is_short_and_nearly_without_refusals(box):
    marks = [line[0] for line in written(box)]
    assert 1 <= marks.count("+") <= MOST
    assert marks.count("-") <= 2
"""
