"""Passwords that everybody knows: salted hashes held against a list, and the accounts that have to be locked."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import random
from collections.abc import Callable, Iterator
from functools import lru_cache

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_LISTED = 260
_ACCOUNTS = (
    "aiko", "bram", "celia", "dov", "elif", "farah", "goran", "hedda", "ines", "jonas", "kemal", "lotte", "milo",
    "nadia", "osman", "priya",
)  # fmt: skip
_TEAMS = ("billing", "stock", "press", "kitchen")


def _ldap(password: str, salt: bytes) -> str:
    return "{SSHA256}" + base64.b64encode(hashlib.sha256(password.encode() + salt).digest() + salt).decode()


def _pbkdf2(password: str, salt: bytes) -> str:
    made = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.hex().encode(), 40)
    return f"pbkdf2_sha256$40${salt.hex()}${base64.b64encode(made).decode()}"


def _prefixed(password: str, salt: bytes) -> str:
    return f"{salt.hex()}:{hashlib.sha512(salt + password.encode()).hexdigest()}"


def _scrypt(password: str, salt: bytes) -> str:
    return f"scrypt$16$1$1${salt.hex()}${hashlib.scrypt(password.encode(), salt=salt, n=16, r=1, p=1, dklen=32).hex()}"


_Scheme = tuple[Callable[[str, bytes], str], str, str]
_SCHEMES: tuple[_Scheme, ...] = (
    (
        _ldap,
        "`{SSHA256}` before the Base64 of the SHA-256 of password and salt (32 bytes), with the salt behind it",
        """def fits(stored, word):
    raw = base64.b64decode(stored[9:])
    return hashlib.sha256(word.encode() + raw[32:]).digest() == raw[:32]""",
    ),
    (
        _pbkdf2,
        "`pbkdf2_sha256$ROUNDS$SALT$HASH`, where the characters of SALT are the salt and HASH is Base64",
        """def fits(stored, word):
    _, rounds, salt, made = stored.split("$")
    return hashlib.pbkdf2_hmac("sha256", word.encode(), salt.encode(), int(rounds)) == base64.b64decode(made)""",
    ),
    (
        _prefixed,
        "`SALT:HASH`, both in hexadecimal, HASH the SHA-512 of the salt's bytes followed by the password",
        """def fits(stored, word):
    salt, made = stored.split(":")
    return hashlib.sha512(bytes.fromhex(salt) + word.encode()).hexdigest() == made""",
    ),
    (
        _scrypt,
        "`scrypt$N$R$P$SALT$HASH`, salt and hash in hexadecimal, 32 bytes of hash",
        """def fits(stored, word):
    _, n, r, p, salt, made = stored.split("$")
    found = hashlib.scrypt(word.encode(), salt=bytes.fromhex(salt), n=int(n), r=int(r), p=int(p), dklen=32)
    return found.hex() == made""",
    ),
)
_SOLUTION = r"""
import base64, csv, hashlib
FITS
words = open("/srv/audit/known-passwords.txt").read().split()
def kind(stored):
    for word in words:
        if fits(stored, word):
            return "listed"
    for word in words:
        if fits(stored, word[:1].upper() + word[1:]):
            return "capitalised"
    for word in words:
        if any(fits(stored, word + digit) for digit in "0123456789"):
            return "digit"
rows = list(csv.DictReader(open("/work/accounts.csv", newline="")))
found = {row["account"]: kind(row["password_hash"]) for row in rows}
with open("/work/weak.csv", "w", newline="") as file:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["account", "rule"])
    out.writerows(sorted((account, rule) for account, rule in found.items() if rule))
with open("/work/accounts.csv", "w", newline="") as file:
    out = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
    out.writeheader()
    out.writerows({**row, "locked": "yes"} if found[row["account"]] else row for row in rows)
"""


def password_audit(seed: int, context: Context) -> Draft:
    """Accounts whose password is a listed one or nearly so: reported by rule, and locked."""
    rng = chance("security", "password_audit", seed)
    pool = _listed(context.text("password_lists/frequency_lists.py"))
    words = sorted(rng.sample(pool[:900], _LISTED))
    scheme, described, fits = _SCHEMES[seed % len(_SCHEMES)]
    rows = list(_rows(rng, words, scheme))
    rules = {account: rule for account, rule, _ in rows if rule}
    before = [record for _, _, record in rows]
    after = [record | {"locked": "yes"} if record["account"] in rules else record for record in before]
    solution = changed(_SOLUTION, ("FITS", fits))
    return Draft(
        family="password_audit",
        seed=seed,
        difficulty="hard",
        instruction="Before we move the accounts to the new directory I want those with a well-known password locked. "
        f"/work/accounts.csv has a column `password_hash`: {described}. The well-known passwords are in "
        "/srv/audit/known-passwords.txt, one per line. An account is weak by the rule `listed` when its password is "
        "one of them, `capitalised` when it is one of them with the first letter in upper case, `digit` when it is one "
        "of them followed by a single digit; the first of these rules that fits counts.\n"
        "Write /work/weak.csv with the header `account,rule` and a row for each weak account, sorted by "
        "account; it goes round by mail, so no password may be in it. In /work/accounts.csv set `locked` to `yes` "
        "for exactly these accounts (some others are locked already and stay so); rows, columns, order and all other "
        "values stay.",
        files=(
            TaskFile(path="/work/accounts.csv", text=_csv(before), mode=0o600),
            TaskFile(path="/srv/audit/known-passwords.txt", text="\n".join(words) + "\n"),
        ),
        solution=(python(solution),),
        right=(
            Variant(
                name="other_line_ends",
                commands=(python(changed(solution, ('csv.writer(file, lineterminator="\\n")', "csv.writer(file)"))),),
            ),
        ),
        weak=(
            Variant(
                name="only_as_listed",
                commands=(
                    python(
                        changed(
                            solution,
                            ("fits(stored, word[:1].upper() + word[1:])", "False"),
                            ('any(fits(stored, word + digit) for digit in "0123456789")', "False"),
                        )
                    ),
                ),
            ),
            Variant(
                name="nobody_locked",
                commands=(python(changed(solution, ('"locked": "yes"', '"locked": row["locked"]'))),),
            ),
            Variant(
                name="others_unlocked",
                commands=(
                    python(
                        changed(solution, ("else row for row in rows", 'else {**row, "locked": "no"} for row in rows'))
                    ),
                ),
            ),
        ),
        verifier=filled(
            _VERIFIER, weak=[["account", "rule"], *(list(x) for x in sorted(rules.items()))], accounts=after
        ),
        contexts=("password_lists",),
    )


_VERIFIER = """
import csv
import io

WEAK = __WEAK__
ACCOUNTS = __ACCOUNTS__


def test_weak_accounts_by_rule_and_nothing_else(box):
    assert [row for row in csv.reader(io.StringIO(box.text("/work/weak.csv"))) if row] == WEAK


def test_exactly_these_accounts_became_locked(box):
    rows = list(csv.DictReader(io.StringIO(box.text("/work/accounts.csv"))))
    assert [row["account"] for row in rows if row["locked"] == "yes"] == [
        row["account"] for row in ACCOUNTS if row["locked"] == "yes"
    ]
    assert rows == ACCOUNTS
"""


@lru_cache(maxsize=2)
def _listed(text: str) -> list[str]:
    """Plain words of the list of passwords, most frequent first."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                # Each list is written as one text that is split at its commas.
                texts = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)]
                if isinstance(key, ast.Constant) and key.value == "passwords":
                    words = max(map(str, texts), key=len).split(",")
                    return [word for word in words if word.isascii() and word.isalpha() and len(word) > 4]
    raise ValueError("the context has no list of passwords")


def _rows(
    rng: random.Random, words: list[str], scheme: Callable[[str, bytes], str]
) -> Iterator[tuple[str, str | None, dict[str, str]]]:
    """(account, rule or None, row of the table) for each account."""
    rules: list[str | None] = [
        "listed",
        "listed",
        "capitalised",
        "capitalised",
        "digit",
        "digit",
        None,
        None,
        None,
        None,
    ]
    rules += [rng.choice(rules) for _ in range(3)]
    rng.shuffle(rules)
    for number, (account, rule) in enumerate(zip(rng.sample(_ACCOUNTS, len(rules)), rules, strict=True), 1):
        word = rng.choice(words)
        password = {
            "listed": word,
            "capitalised": word[:1].upper() + word[1:],
            "digit": f"{word}{rng.randrange(10)}",
            None: f"{word}{rng.randrange(10, 99)}{rng.choice('!?#')}",
        }[rule]
        salt = rng.randbytes(8)
        locked = "yes" if number - 1 == rules.index(None) else "no"
        record = {
            "id": str(100 + number),
            "account": account,
            "team": rng.choice(_TEAMS),
            "password_hash": scheme(password, salt),
            "locked": locked,
        }
        yield account, rule, record


def _csv(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
