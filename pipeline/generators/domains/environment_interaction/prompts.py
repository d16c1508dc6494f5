"""Prompts with rules of their own: a kiosk for coins, and a word game with a dictionary."""

from __future__ import annotations

import json
import re
from collections import deque

from pipeline.generators.domains.environment_interaction.texts import DOMAIN, key_of, placed, typed
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_KIOSK = '''#!/usr/bin/env python3
"""The kiosk. Commands: coin VALUE, buy ITEM, return, prices, quit."""
import hashlib
import os
import sys

PRICES, COINS, MOST, KEY = @PRICES@, @COINS@, @MOST@, "@KEY@"
LEDGER = "/var/lib/kiosk/ledger"
os.makedirs("/var/lib/kiosk", exist_ok=True)
old = open(LEDGER).read().split("\\n")[1:-1] if os.path.exists(LEDGER) else []
credit = int(old[-1].split()[-1]) if old else 0


def enter(words, new):
    global credit
    credit = new
    old.append(f"{words} {credit}")
    body = "\\n".join(old) + "\\n"
    with open(LEDGER, "w") as ledger:
        ledger.write(hashlib.sha256((KEY + body).encode()).hexdigest() + "\\n" + body)
    print("credit", credit, flush=True)


for line in sys.stdin:
    words = line.split() or [""]
    if words == ["quit"]:
        break
    elif words == ["prices"]:
        print(*(f"{name}={price}" for name, price in PRICES.items()), flush=True)
    elif words == ["return"]:
        enter("return", 0)
    elif words[0] == "coin" and len(words) == 2 and words[1] in COINS and credit + int(words[1]) <= MOST:
        enter(f"coin {words[1]}", credit + int(words[1]))
    elif words[0] == "buy" and len(words) == 2 and PRICES.get(words[1], 10**9) <= credit:
        enter(f"buy {words[1]}", credit - PRICES[words[1]])
    else:
        print("refused", flush=True)
'''
_GOODS = (
    ("tea", "soup", "cake", "apple"),
    ("pen", "stamp", "paper", "glue"),
    ("day", "zone", "bike", "night"),
    ("soap", "towel", "comb", "razor"),
)


def coin_kiosk(seed: int, context: Context) -> Draft:
    """Shopping with a given purse."""
    rng = chance(DOMAIN, "coin_kiosk", seed)
    goods, coins = _GOODS[seed % 4], ("5", "10", "20", "50")
    prices = {name: 5 * rng.randint(5, 15) for name in goods}
    while True:
        wanted = {name: rng.randint(1, 2) for name in rng.sample(goods, 2)}
        total = sum(prices[name] * n for name, n in wanted.items())
        purse = [rng.choice((5, 10, 10, 20, 20, 50)) for _ in range(12)]
        if (paid := _exact(sorted(purse, reverse=True), total)) and total >= 120:
            break
    most = max(prices.values()) + 50
    shopping = [name for name, n in wanted.items() for _ in range(n)]
    words = _visit(paid, shopping, prices, most)
    other = _visit(sorted(paid), shopping[::-1], prices, most)
    rest = list(purse)
    for coin in paid:
        rest.remove(coin)
    key = key_of(rng)
    said = " and ".join(f"{n} x {name}" for name, n in wanted.items())
    over = [*words[:-1], f"coin {max(rest or [5])}", words[-1], "return"]
    program = placed(_KIOSK, prices=repr(prices), coins=repr(coins), most=most, key=key)
    return Draft(
        family="coin_kiosk",
        seed=seed,
        difficulty="easy",
        instruction=f"Use the kiosk program /usr/local/bin/kiosk to buy exactly {said}. My purse holds the coins "
        f"{', '.join(map(str, sorted(purse)))}; every coin can be inserted once, and coins that the kiosk gives "
        "back are not "
        "to be used again. Pay with exact money: in the end the credit has to be 0 without `return` ever having "
        "been used. "
        "The kiosk knows `prices`, `coin VALUE`, `buy ITEM`, `return` and `quit`, and refuses coins that would "
        "bring the "
        f"credit above {most}. It keeps a sealed ledger in /var/lib/kiosk/ledger across starts, which I will read; "
        "do not "
        "write to it.",
        files=(TaskFile(path="/usr/local/bin/kiosk", text=program, mode=0o755),),
        solution=(typed("kiosk", ["prices", *words, "quit"]),),
        right=(Variant(name="small_coins_first", commands=(typed("kiosk", other[:3]), typed("kiosk", other[3:]))),),
        weak=(
            Variant(name="overpaid_and_returned", commands=(typed("kiosk", over),)),
            Variant(name="last_item_missing", commands=(typed("kiosk", words[:-1]),)),
            Variant(
                name="coins_that_nobody_has",
                commands=(typed("kiosk", _visit([5] * (total // 5), shopping, prices, most)),),
            ),
        ),
        verifier=filled(
            """
import hashlib

PRICES = __PRICES__
WANTED = __WANTED__
PURSE = __PURSE__
KEY = __KEY__


def entries(box):
    seal, body = box.text("/var/lib/kiosk/ledger").split("\\n", 1)
    assert seal == hashlib.sha256((KEY + body).encode()).hexdigest(), "somebody else wrote the ledger"
    return [line.split() for line in body.splitlines()]


def test_basket_is_what_was_wanted(box):
    bought = [words[1] for words in entries(box) if words[0] == "buy"]
    assert {name: bought.count(name) for name in bought} == WANTED


def test_paid_exactly_from_the_purse(box):
    purse, credit = list(PURSE), 0
    for words in entries(box):
        assert words[0] != "return"
        if words[0] == "coin":
            assert int(words[1]) in purse, f"no coin of {words[1]} is left"
            purse.remove(int(words[1]))
            credit += int(words[1])
        else:
            credit -= PRICES[words[1]]
        assert credit == int(words[-1]) >= 0
    assert credit == 0
""",
            prices=prices,
            wanted=wanted,
            purse=purse,
            key=key,
        ),
    )


def _exact(coins: list[int], total: int) -> list[int]:
    """Coins that make up a sum; none where that cannot be."""
    if total == 0:
        return []
    for n, coin in enumerate(coins):
        if coin == total:
            return [coin]
        if coin < total and (rest := _exact(coins[n + 1 :], total - coin)):
            return [coin, *rest]
    return []


def _visit(coins: list[int], shopping: list[str], prices: dict[str, int], most: int) -> list[str]:
    """Coins until the next item can be paid, then the item; the last ones are inserted before the last item."""
    words: list[str] = []
    waiting, credit = list(shopping), 0
    for coin in coins:
        while waiting and credit >= prices[waiting[0]] and (len(waiting) > 1 or credit + coin > most):
            credit -= prices[waiting[0]]
            words.append(f"buy {waiting.pop(0)}")
        words.append(f"coin {coin}")
        credit += coin
    return [*words, *(f"buy {name}" for name in waiting)]


_LADDER = '''#!/usr/bin/env python3
"""A ladder of words. Type a word to climb, `back` to go back, `quit` to end."""
import sys

RULE, BEGIN = "@RULE@", "@BEGIN@"
words = set(open("/usr/local/share/ladder/words").read().split())
CHAIN = "/work/chain.txt"


def near(a, b):
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b)) == 1 or (RULE == "shuffle" and a != b and sorted(a) == sorted(b))
    short, long = sorted((a, b), key=len)
    return RULE == "grow" and any(long[:i] + long[i + 1:] == short for i in range(len(long)))


chain = [BEGIN]
print("You stand on", BEGIN, flush=True)
for line in sys.stdin:
    word = line.strip().lower()
    if word == "quit":
        break
    if word == "back" and len(chain) > 1:
        chain.pop()
    elif word in words and near(chain[-1], word):
        chain.append(word)
    else:
        print("no such rung", flush=True)
        continue
    with open(CHAIN, "w") as out:
        out.write("\\n".join(chain) + "\\n")
    print(len(chain) - 1, chain[-1], flush=True)
'''
_CLIMBS = (
    ("one", (4,), 1500, "exactly one letter is replaced"),
    ("one", (5,), 5000, "exactly one letter is replaced"),
    ("shuffle", (4,), 700, "either exactly one letter is replaced, or the same letters stand in another order"),
    ("grow", (3, 4, 5), 2600, "exactly one letter is replaced, or one letter is added or taken away at any place"),
)


def word_ladder(seed: int, context: Context) -> Draft:
    """From word to word within a dictionary."""
    rng = chance(DOMAIN, "word_ladder", seed)
    rule, lengths, count, said = _CLIMBS[seed % 4]
    every = [w for w in json.loads(context.text("words/words.json")) if len(w) in lengths and re.fullmatch("[a-z]+", w)]
    while True:
        words = sorted(rng.sample(every, count))
        begin = rng.choice([w for w in words if len(w) == lengths[-1]])
        before = _climbed(begin, words, rule)
        far = [w for w in before if 6 <= len(_rungs(before, w)) - 1 <= 8]
        if far:
            break
    top = rng.choice(sorted(far))
    rungs = _rungs(before, top)
    # The same ladder found from its other end may take other rungs.
    other = _rungs(_climbed(top, words, rule), begin)[::-1]
    most = len(rungs)
    program = placed(_LADDER, rule=rule, begin=begin)
    return Draft(
        family="word_ladder",
        seed=seed,
        difficulty="medium",
        instruction=f"Climb the word ladder. /usr/local/bin/ladder puts you on the word `{begin}`; please get to "
        f"`{top}` in at "
        f"most {most} steps. In a step {said}, and every word has to be in the game's dictionary "
        "/usr/local/share/ladder/words. You type the next word; `back` takes the last step back (it then does not "
        "count), "
        "`quit` leaves. The ladder you stand on is kept in /work/chain.txt, one word per line from the first to the "
        "last, "
        "and that file, as the game left it, is what I look at. No word may occur in it twice. Do not change the "
        "dictionary.",
        files=(
            TaskFile(path="/usr/local/bin/ladder", text=program, mode=0o755),
            TaskFile(path="/usr/local/share/ladder/words", text="\n".join(words) + "\n"),
        ),
        solution=(typed("ladder", [*rungs[1:], "quit"]),),
        right=(
            Variant(
                name="from_the_other_end_with_a_slip",
                commands=(typed("ladder", [other[1], "back", *other[1:], "quit"]),),
            ),
        ),
        weak=(
            Variant(name="one_rung_short", commands=(typed("ladder", rungs[1:-1]),)),
            Variant(name="jumped", commands=(f"printf '%s\\n' {begin} {rungs[1]} {top} > chain.txt",)),
            Variant(
                name="words_of_no_dictionary",
                commands=("printf '%s\\n' " + " ".join(_letters(begin, top)) + " > chain.txt",),
            ),
        ),
        verifier=filled(
            """
BEGIN = __BEGIN__
TOP = __TOP__
MOST = __MOST__
RULE = __RULE__
DICTIONARY = set(__DICTIONARY__.split())


def is_step(a, b):
    if len(a) == len(b):
        differences = [i for i in range(len(a)) if a[i] != b[i]]
        return len(differences) == 1 or (RULE == "shuffle" and bool(differences) and sorted(a) == sorted(b))
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return RULE == "grow" and shorter in {longer[:i] + longer[i + 1:] for i in range(len(longer))}


def test_ladder_stands(box):
    chain = box.text("/work/chain.txt").split()
    assert chain[0] == BEGIN and chain[-1] == TOP
    for lower, upper in zip(chain, chain[1:], strict=False):
        assert upper in DICTIONARY, upper
        assert is_step(lower, upper), (lower, upper)


def test_ladder_is_short_and_without_circles(box):
    chain = box.text("/work/chain.txt").split()
    assert len(chain) - 1 <= MOST
    assert len(set(chain)) == len(chain)
""",
            begin=begin,
            top=top,
            most=most,
            rule=rule,
            dictionary=" ".join(words),
        ),
        contexts=("words",),
    )


def _letters(begin: str, top: str) -> list[str]:
    """Letter after letter, whatever comes of it."""
    width = min(len(begin), len(top))
    chain = [top[:n] + begin[n:] for n in range(width + 1)]
    return list(dict.fromkeys([begin, *chain, top]))


def _climbed(begin: str, words: list[str], rule: str) -> dict[str, str]:
    """The word before each word that can be reached in the fewest steps."""
    patterns: dict[str, list[str]] = {}
    for word in words:
        for pattern in _patterns(word, rule):
            patterns.setdefault(pattern, []).append(word)
    before = {begin: ""}
    queue = deque([begin])
    while queue:
        word = queue.popleft()
        for pattern in _patterns(word, rule):
            for new in patterns.get(pattern, []):
                # Two words that a letter less makes equal are no neighbours.
                if new not in before and (pattern[0] != "-" or pattern[1:] in (word, new)):
                    before[new] = word
                    queue.append(new)
    return before


def _patterns(word: str, rule: str) -> list[str]:
    """What two neighbouring words share."""
    found = [f"{word[:i]}.{word[i + 1 :]}" for i in range(len(word))]
    if rule == "shuffle":
        found.append("".join(sorted(word)))
    if rule == "grow":
        found += [f"-{word[:i]}{word[i + 1 :]}" for i in range(len(word))]
        found.append(f"-{word}")
    return found


def _rungs(before: dict[str, str], word: str) -> list[str]:
    rungs = [word]
    while before[rungs[-1]]:
        rungs.append(before[rungs[-1]])
    return rungs[::-1]
