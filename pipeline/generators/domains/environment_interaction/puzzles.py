"""Puzzles on a line-based prompt. Each keeps a record of its own, which the verifier replays by its own rules."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, placed, python, typed
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_LOCK = '''#!/usr/bin/env python3
"""The vault. Commands: guess CODE, quit."""
import hashlib
import hmac
import os
import sys

KEY, SYMBOLS, LENGTH, TURNS, REPEATS = b"@KEY@", "@SYMBOLS@", @LENGTH@, @TURNS@, @REPEATS@
RECORD = "/var/lib/vault/record"


def code(game):
    pool, out = list(SYMBOLS), ""
    for n, byte in enumerate(hashlib.sha256(KEY + b"%d" % game).digest()[:LENGTH]):
        out += pool[byte % len(pool)]
        if not REPEATS:
            pool.remove(out[-1])
    return out


def note(line):
    old = open(RECORD).read() if os.path.exists(RECORD) else ""
    seal = hmac.new(KEY, (old + line).encode(), "sha256").hexdigest()[:16]
    with open(RECORD, "a") as record:
        record.write(f"{line} {seal}\\n")


os.makedirs("/var/lib/vault", exist_ok=True)
past = open(RECORD).read().split("\\n") if os.path.exists(RECORD) else []
game, turn = sum(line.startswith("start") for line in past) + 1, 0
note(f"start {game}")
print(f"Combination {game} is set. {LENGTH} symbols out of {SYMBOLS}, {TURNS} turns.", flush=True)
for line in sys.stdin:
    words = line.split()
    if words == ["quit"]:
        break
    if len(words) != 2 or words[0] != "guess" or len(words[1]) != LENGTH or set(words[1]) - set(SYMBOLS):
        print("?", flush=True)
        continue
    turn, secret, said = turn + 1, code(game), words[1]
    exact = sum(a == b for a, b in zip(secret, said))
    there = sum(min(secret.count(s), said.count(s)) for s in SYMBOLS) - exact
    note(f"try {game} {said} {exact} {there}")
    print(f"{exact} in place, {there} elsewhere", flush=True)
    if exact == LENGTH:
        print("The vault opens.", flush=True)
        break
    if turn == TURNS:
        print("Locked. The combination is changed.", flush=True)
        break
'''
_CRACK = """
import itertools, subprocess
from collections import Counter as Tally
symbols, length, repeats = "@SYMBOLS@", @LENGTH@, @REPEATS@
made = itertools.product(symbols, repeat=length) if repeats else itertools.permutations(symbols, length)
every = ["".join(c) for c in made]
def answer(a, b):
    exact = sum(x == y for x, y in zip(a, b))
    return exact, sum(min(a.count(s), b.count(s)) for s in set(b)) - exact
for game in range(@GAMES@):
    vault = subprocess.Popen(["/usr/local/bin/vault"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    vault.stdout.readline()
    left = every
    for turn in range(@TRIES@):
        @GUESS@
        vault.stdin.write(f"guess {guess}\\n")
        vault.stdin.flush()
        parts = vault.stdout.readline().split()
        got = int(parts[0]), int(parts[3])
        left = [c for c in left if answer(c, guess) == got]
        if got[0] == length:
            break
    vault.stdin.close()
    vault.wait()
    if got[0] == length:
        break
open("/work/combination.txt", "w").write(guess + "\\n")
"""
_WIDE = (
    "few = left[:: max(1, len(left) // 40)]\n"
    "        guess = min(few, key=lambda g: max(Tally(answer(c, g) for c in few).values()))"
)
_LOCKS = (("ABCDEF", 4, 9, True), ("0123456789", 4, 10, False), ("RGBYW", 5, 9, True), ("123456789", 3, 9, True))


def vault_combination(seed: int, context: Context) -> Draft:
    """A code that is found by answers."""
    rng = chance(DOMAIN, "vault_combination", seed)
    symbols, length, turns, repeats = _LOCKS[seed % 4]
    key = key_of(rng)
    given = {"symbols": symbols, "length": length, "repeats": repeats}
    crack = placed(_CRACK, games=6, tries=turns, **given)
    first, wide = (python(placed(crack, guess=guess)) for guess in ("guess = left[0]", _WIDE))
    gave_up = python(placed(_CRACK, games=1, tries=2, guess="guess = left[0]", **given))
    forged = f"start 1 {'0' * 16}\ntry 1 {symbols[:length]} {length} 0 {'0' * 16}\n"
    return Draft(
        family="vault_combination",
        seed=seed,
        difficulty="medium",
        instruction="There is a vault game installed here, /usr/local/bin/vault. Please play it and open the vault. "
        "It draws "
        f"a combination of {length} symbols out of {symbols}, {'which may repeat' if repeats else 'all different'}. "
        "You type "
        "`guess` and a combination; it answers how many symbols are in place and how many more occur elsewhere. After "
        f"{turns} turns it locks and ends; each start is a new game with another combination. The game keeps a "
        "sealed record "
        "in /var/lib/vault/record; leave that to the game. I want the record to show that its latest game was won, "
        "at most "
        "six games having been started, and /work/combination.txt to hold the winning combination on one line.",
        files=(
            TaskFile(
                path="/usr/local/bin/vault",
                text=placed(_LOCK, key=key, turns=turns, **given),
                mode=0o755,
            ),
        ),
        solution=(first,),
        right=(Variant(name="splits_the_rest_evenly", commands=(wide,)),),
        weak=(
            Variant(name="gave_up_after_two", commands=(gave_up,)),
            Variant(
                name="record_by_hand",
                commands=(
                    f"mkdir -p /var/lib/vault && printf %s '{forged}' > /var/lib/vault/record",
                    f"echo {symbols[:length]} > combination.txt",
                ),
            ),
            Variant(name="combination_not_noted", commands=(first, "echo '*' > combination.txt")),
        ),
        verifier=filled(
            """
import hashlib
import hmac

KEY = __KEY__
SYMBOLS = __SYMBOLS__
LENGTH = __LENGTH__
TURNS = __TURNS__


def secret_of(game):
    pool, drawn = list(SYMBOLS), []
    for byte in hashlib.sha256(KEY.encode() + str(game).encode()).digest()[:LENGTH]:
        drawn.append(pool[byte % len(pool)])
        if not __REPEATS__:
            pool.remove(drawn[-1])
    return "".join(drawn)


def games(box):
    before, played = "", []
    for line in box.text("/var/lib/vault/record").splitlines():
        body, _, seal = line.rpartition(" ")
        wanted = hmac.new(KEY.encode(), (before + body).encode(), "sha256").hexdigest()[:16]
        assert seal == wanted, f"not written by the game: {line}"
        before += line + "\\n"
        words = body.split()
        if words[0] == "start":
            played.append([])
        else:
            played[-1].append(words[2])
    return played


def test_latest_game_was_won(box):
    played = games(box)
    assert 1 <= len(played) <= 6
    assert 1 <= len(played[-1]) <= TURNS
    assert played[-1][-1] == secret_of(len(played))


def test_combination_is_noted(box):
    number = len(games(box))
    assert box.text("/work/combination.txt").strip() == secret_of(number)
""",
            key=key,
            symbols=symbols,
            length=length,
            turns=turns,
            repeats=repeats,
        ),
    )


_TOWERS = '''#!/usr/bin/env python3
"""Discs on pegs. Commands: show, move FROM TO, reset, quit."""
import sys

START, PEGS, RULE = @START@, @PEGS@, "@RULE@"
RECORD = "/work/moves.log"
ALLOWED = {
    "free": lambda a, b: True,
    "neighbours": lambda a, b: abs(a - b) == 1,
    "clockwise": lambda a, b: b == (a + 1) % PEGS,
}


def begin():
    open(RECORD, "w").close()
    return [sorted((d for d, p in START.items() if p == peg), reverse=True) for peg in range(PEGS)]


pegs = begin()
print("discs ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words == ["quit"]:
        break
    elif words == ["reset"]:
        pegs = begin()
    elif words == ["show"]:
        for number, peg in enumerate(pegs):
            print(number, *peg, flush=True)
    elif len(words) == 3 and words[0] == "move" and all(w.isdigit() and int(w) < PEGS for w in words[1:]):
        a, b = int(words[1]), int(words[2])
        if a == b or not pegs[a] or (pegs[b] and pegs[b][-1] < pegs[a][-1]) or not ALLOWED[RULE](a, b):
            print("not allowed", flush=True)
            continue
        pegs[b].append(pegs[a].pop())
        with open(RECORD, "a") as record:
            record.write(f"{a} {b}\\n")
        print("moved", pegs[b][-1], flush=True)
    else:
        print("?", flush=True)
'''
_PEGS: tuple[tuple[int, int, str, str, Callable[[int, int, int], bool]], ...] = (
    (6, 3, "free", "", lambda a, b, n: True),
    (6, 4, "free", "", lambda a, b, n: True),
    (4, 3, "neighbours", " A disc may only go to a neighbouring peg (0-1 or 1-2).", lambda a, b, n: abs(a - b) == 1),
    (
        4,
        3,
        "clockwise",
        " Discs only travel clockwise: from 0 to 1, from 1 to 2, from 2 to 0.",
        lambda a, b, n: b == (a + 1) % n,
    ),
)


def disc_towers(seed: int, context: Context) -> Draft:
    """Towers from a scattered beginning, in a bounded number of moves."""
    rng = chance(DOMAIN, "disc_towers", seed)
    discs, pegs, rule, said, allowed = _PEGS[seed % 4]
    goal = rng.randrange(pegs)
    while True:
        start = tuple(rng.randrange(pegs) for _ in range(discs))
        path = _shortest(start, (goal,) * discs, pegs, allowed)
        if len(path) >= 12:
            break
    most = len(path) + 2
    keys = [f"move {a} {b}" for a, b in path]
    # A move there and back, or once around where back is not allowed.
    begin = next(
        move
        for move in itertools.permutations(range(pegs), 2)
        if (after := _after(start, move[0], move[1], pegs, allowed)) is not None
        and len(_shortest(after, (goal,) * discs, pegs, allowed)) <= len(path) + 1
    )
    moved = _after(start, begin[0], begin[1], pegs, allowed)
    assert moved is not None
    other = [begin, *_shortest(moved, (goal,) * discs, pegs, allowed)]
    program = placed(_TOWERS, start=repr({d + 1: p for d, p in enumerate(start)}), pegs=pegs, rule=rule)
    return Draft(
        family="disc_towers",
        seed=seed,
        difficulty="medium",
        instruction=f"Run /usr/local/bin/towers: {discs} discs (1 is the smallest) lie scattered over {pegs} pegs, "
        "numbered "
        f"from 0. Only the top disc of a peg can be moved, and never onto a smaller one.{said} `show` prints the "
        "pegs from "
        "bottom to top, `move A B` moves a disc, `reset` begins again. Bring all discs onto peg "
        f"{goal} in at most {most} moves counted from the beginning or the last reset. The program writes every "
        "accepted move "
        "to /work/moves.log, emptied at each start and each reset; I replay that file.",
        files=(TaskFile(path="/usr/local/bin/towers", text=program, mode=0o755),),
        solution=(typed("towers", [*keys, "quit"]),),
        right=(
            Variant(
                name="another_first_move",
                commands=(typed("towers", [keys[0], "reset", *(f"move {a} {b}" for a, b in other), "quit"]),),
            ),
        ),
        weak=(
            Variant(name="last_move_missing", commands=(typed("towers", [*keys[:-1], "quit"]),)),
            Variant(name="started_again_at_the_end", commands=(typed("towers", [*keys, "reset", "quit"]),)),
            Variant(
                name="discs_lifted_through_others",
                commands=("printf '%s\\n' " + " ".join(f"'{p} {goal}'" for p in start if p != goal) + " > moves.log",),
            ),
        ),
        verifier=filled(
            """
START = __START__
PEGS = __PEGS__
GOAL = __GOAL__
MOST = __MOST__
RULE = __RULE__


def moves(box):
    return [tuple(int(word) for word in line.split()) for line in box.text("/work/moves.log").splitlines()]


def test_moves_keep_the_rules_and_reach_the_goal(box):
    where = dict(enumerate(START, start=1))
    for source, target in moves(box):
        assert source != target and 0 <= target < PEGS
        assert RULE != "neighbours" or abs(source - target) == 1
        assert RULE != "clockwise" or (target - source) % PEGS == 1
        top = min(disc for disc, peg in where.items() if peg == source)
        assert all(disc > top for disc, peg in where.items() if peg == target), (source, target)
        where[top] = target
    assert set(where.values()) == {GOAL}, where


def test_few_moves(box):
    assert 1 <= len(moves(box)) <= MOST
""",
            start=list(start),
            pegs=pegs,
            goal=goal,
            most=most,
            rule=rule,
        ),
    )


Pegs = tuple[int, ...]


def _after(state: Pegs, a: int, b: int, pegs: int, allowed: Callable[[int, int, int], bool]) -> Pegs | None:
    if a == b or a not in state or not allowed(a, b, pegs):
        return None
    top = state.index(a)
    if b in state[:top]:
        return None
    return (*state[:top], b, *state[top + 1 :])


def _shortest(start: Pegs, goal: Pegs, pegs: int, allowed: Callable[[int, int, int], bool]) -> list[tuple[int, int]]:
    back: dict[Pegs, tuple[Pegs, tuple[int, int]]] = {}
    queue = deque([start])
    while queue and goal not in back and start != goal:
        state = queue.popleft()
        for a, b in itertools.permutations(range(pegs), 2):
            new = _after(state, a, b, pegs, allowed)
            if new is not None and new not in back and new != start:
                back[new] = (state, (a, b))
                queue.append(new)
    path: list[tuple[int, int]] = []
    while goal != start:
        goal, move = back[goal]
        path.append(move)
    return path[::-1]
