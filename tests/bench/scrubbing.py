"""Recall and precision of the scrubber on made-up texts. The last line is one JSON object, kept in result.json.

Every value is made from a seed and put into the surroundings of tests/data/scrubbing; nothing that looks like a real
credential lies in the tree. One half of the surroundings was held out while the rules were written.

    python -m tests.bench.scrubbing [--seed 7] [--repeats 12] [--half held_out] [--rows data/train-00000.parquet]
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import string
import time
import tomllib
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.curation.own_host import HostFacts
from pipeline.curation.scrubbing import RULES, Finding, Planted, Replacer, find, find_in_row, scrub_row
from pipeline.schemas import Row
from tests.detectors import DETECTOR

FOLDER = Path(__file__).resolve().parents[1] / "data" / "scrubbing"
RESULT = Path(__file__).resolve().parents[2] / "training" / "experiments" / "scrubbing" / "result.json"
SLOT = re.compile(r"\{\{([a-z0-9_]+)(?:\|([a-z]+))?\}\}")
HOST = HostFacts(
    paths=("/srv/pipelines/touch/data", "/home/qaleksander/src/touch"),
    users=("qaleksander",),
    names=("buildbox-17.rack4.north-mill.org", "buildbox-17"),
    addresses=("http://proxy.rack4.north-mill.org:3128", "proxy.rack4.north-mill.org:3128"),
    secrets=("q9ZkT3vLw8RbYx2M",),
    containers=("4f9d1c07be52",),
)
ALNUM = string.ascii_letters + string.digits
FIRST = ("marta", "ivo", "kasimir", "linnea", "benedikt", "tomasz", "oriane", "yusuf", "hanneke", "rasmus")
LAST = ("oberholz", "tanner", "vogt", "brandt", "aumann", "zielak", "morvan", "demirel", "kuipers", "lindqvist")
MAIL_HOSTS = (
    "north-mill.org",
    "acme-shop.net",
    "post-ostheim.fm",
    "mail.tu-ostheim.de",
    "brief-ostheim.ch",
    "mail-ostheim.io",
    "zielak-ostheim.pl",
)


@dataclass(frozen=True)
class Sample:
    """One text and what is known of it."""

    text: str
    positives: tuple[tuple[str, str], ...]
    """Kind and the value as it stands in the text; empty for a text that has to stay as it is."""
    kind: str
    """Of a text without positives: what it is full of."""


def _pick(rng: random.Random, letters: str, length: int) -> str:
    return "".join(rng.choice(letters) for _ in range(length))


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    head = _url64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = _url64(json.dumps({"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9)}).encode())
    return f"{head}.{body}.{_url64(rng.randbytes(32))}"


def _private_key(rng: random.Random) -> str:
    kind = rng.choice(("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"))
    body = base64.b64encode(rng.randbytes(rng.choice((121, 640)))).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def _email(rng: random.Random) -> str:
    local = rng.choice(("{f}.{l}", "{f}{l}", "{i}{l}", "{f}+git", "{f}_{l}{n}", "{l}"))
    first, last = rng.choice(FIRST), rng.choice(LAST)
    return local.format(f=first, l=last, i=first[0], n=rng.randrange(60, 99)) + "@" + rng.choice(MAIL_HOSTS)


def _phone(rng: random.Random) -> str:
    return rng.choice(
        (
            f"+49 30 {rng.randrange(2_000_000, 9_999_999)}",
            f"+41 44 {rng.randrange(200, 999)} {rng.randrange(10, 99)} {rng.randrange(10, 99)}",
            f"(212) {rng.randrange(600, 999)}-{rng.randrange(2000, 9999)}",
            f"+33 1 42 {rng.randrange(10, 99)} {rng.randrange(10, 99)} {rng.randrange(10, 99)}",
        )
    )


def _ip(rng: random.Random) -> str:
    first = rng.choice((5, 46, 78, 93, 141, 188, 194))
    return f"{first}.{rng.randrange(40, 250)}.{rng.randrange(250)}.{rng.randrange(1, 250)}"


def _password(rng: random.Random) -> str:
    words = ("Kestrel", "walnut", "Ferry", "copper", "Tundra")
    return rng.choice(
        (
            _pick(rng, ALNUM, 14) + "7",
            f"{rng.choice(words)}-{rng.randrange(1000, 9999)}-{rng.choice(words)}",
            _pick(rng, ALNUM + "!%*_-", 16) + "q4",
            f"{rng.choice(words)}{rng.randrange(100, 999)}!",
        )
    )


POSITIVES: dict[str, Callable[[random.Random], str]] = {
    "password": _password,
    "url_password": lambda rng: _pick(rng, ALNUM, 12) + "3x",
    "aws_access_key": lambda rng: "AKIA" + _pick(rng, string.ascii_uppercase + "234567", 16),
    "aws_secret_key": lambda rng: base64.b64encode(rng.randbytes(30)).decode(),
    "github_token": lambda rng: "ghp_" + _pick(rng, ALNUM, 36),
    "gitlab_token": lambda rng: "glpat-" + _pick(rng, ALNUM, 20),
    "slack_token": lambda rng: (
        f"xoxb-{rng.randrange(10**11, 10**12)}-{rng.randrange(10**11, 10**12)}-{_pick(rng, ALNUM, 24)}"
    ),
    "stripe_key": lambda rng: "sk_live_" + _pick(rng, ALNUM, 24),
    "openai_key": lambda rng: f"sk-{_pick(rng, ALNUM, 20)}T3BlbkFJ{_pick(rng, ALNUM, 20)}",
    "anthropic_key": lambda rng: f"sk-ant-api03-{_pick(rng, ALNUM + '-_', 93)}AA",
    "hf_token": lambda rng: "hf_" + _pick(rng, string.ascii_letters, 34),
    "npm_token": lambda rng: "npm_" + _pick(rng, ALNUM, 36),
    "pypi_token": lambda rng: "pypi-AgEIcHlwaS5vcmc" + _pick(rng, ALNUM + "-_", 120),
    "google_key": lambda rng: "AIza" + _pick(rng, ALNUM, 35),
    "sendgrid_key": lambda rng: f"SG.{_pick(rng, ALNUM, 22)}.{_pick(rng, ALNUM, 43)}",
    "telegram_token": lambda rng: f"{rng.randrange(10**9, 10**10)}:AA{_pick(rng, ALNUM + '_-', 33)}",
    "api_key": lambda rng: (
        _pick(rng, string.hexdigits.lower(), 32) if rng.random() < 0.5 else _pick(rng, ALNUM, 28) + "8"
    ),
    "bearer": lambda rng: _pick(rng, ALNUM, 39) + "5",
    "basic": lambda rng: base64.b64encode(f"deploy:{_password(rng)}".encode()).decode(),
    "jwt": _jwt,
    "private_key": _private_key,
    "email": _email,
    "phone": _phone,
    "ip": _ip,
    "ipv6": lambda rng: f"2a01:4f8:{rng.randrange(16, 65535):x}:{rng.randrange(16, 65535):x}::{rng.randrange(1, 9)}",
    "home": lambda rng: (
        rng.choice(("/home/", "/Users/")) + rng.choice(FIRST) + rng.choice(("", ".")) + rng.choice(LAST)
    ),
    "windows_user": lambda rng: rng.choice(FIRST) + rng.choice(LAST),
    "host_path": lambda rng: rng.choice(HOST.paths),
    "host_user": lambda rng: rng.choice(HOST.users),
    "host_name": lambda rng: rng.choice(HOST.names),
    "host_proxy": lambda rng: rng.choice(HOST.addresses),
    "host_secret": lambda rng: rng.choice(HOST.secrets),
    "container": lambda rng: rng.choice((*HOST.containers, "8c" + _pick(rng, "0123456789abcdef", 9) + "a")),
}

LOOKALIKES: dict[str, Callable[[random.Random], str]] = {
    "sha256": lambda rng: rng.randbytes(32).hex(),
    "md5": lambda rng: rng.randbytes(16).hex(),
    "commit": lambda rng: rng.randbytes(20).hex(),
    "commit_short": lambda rng: rng.randbytes(4).hex()[:7],
    "uuid": lambda rng: str(uuid.UUID(bytes=rng.randbytes(16), version=4)),
    "base64_20": lambda rng: _url64(rng.randbytes(20)),
    "base64_32": lambda rng: base64.b64encode(rng.randbytes(32)).decode().rstrip("="),
    "base64_64": lambda rng: base64.b64encode(rng.randbytes(64)).decode(),
    "base64_200": lambda rng: base64.b64encode(rng.randbytes(150)).decode(),
    "small": lambda rng: str(rng.randrange(1, 30)),
    "port": lambda rng: str(rng.randrange(1024, 65535)),
    "digits6": lambda rng: _pick(rng, string.digits, 6),
    "digits8": lambda rng: _pick(rng, string.digits, 8),
}

CODINGS: dict[str, Callable[[str], str]] = {
    "json": lambda value: json.dumps(value)[1:-1],
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "percent": lambda value: urllib.parse.quote(value, safe=""),
    "unicode": lambda value: value.replace("@", "\\u0040"),
    "ansi": lambda value: f"{value[:6]}\x1b[1;31m{value[6:11]}\x1b[0m{value[11:]}",
    "continued": lambda value: f"{value[:9]}\\\n{value[9:]}",
    "upper": str.upper,
}


def corpus(seed: int, half: str, repeats: int) -> Iterator[Sample]:
    """Every surrounding of a half, filled `repeats` times; the same for the same arguments."""
    rng = random.Random(seed)
    for name in ("positives", "negatives"):
        for entry in tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["text"]:
            if entry["half"] == half:
                for _ in range(repeats):
                    yield _filled(entry["text"], entry.get("kind", ""), rng)


def _filled(template: str, kind: str, rng: random.Random) -> Sample:
    positives: list[tuple[str, str]] = []

    def value(slot: re.Match[str]) -> str:
        name, coding = slot.groups()
        if name in LOOKALIKES:
            return LOOKALIKES[name](rng)
        made = POSITIVES[name](rng)
        made = CODINGS[coding](made) if coding else made
        positives.append((f"{name}/{coding}" if coding else name, made))
        return made

    text = SLOT.sub(value, template)
    return Sample(text, tuple(positives), kind)


@dataclass
class Tally:
    """Counts over a corpus."""

    present: Counter[str]
    """Positives by kind."""
    gone: Counter[str]
    """Those of which nothing but a placeholder is left."""
    right: Counter[str]
    """Findings by the kind that the scrubber gives, of something that has to go."""
    wrong: Counter[str]
    touched: Counter[str]
    """Texts without positives in which something was replaced, by what they are full of."""
    texts: Counter[str]


def measure(samples: Iterable[Sample]) -> Tally:
    """Scrub each text by itself and compare."""
    tally = Tally(Counter(), Counter(), Counter(), Counter(), Counter(), Counter())
    for sample in samples:
        findings = find([sample.text], planted=Planted(), host=HOST, detector=DETECTOR)
        left = Replacer(findings)(sample.text)
        for kind, value in sample.positives:
            tally.present[kind] += 1
            tally.gone[kind] += value not in left
        for finding in findings:
            (tally.right if _wanted(finding, sample) else tally.wrong)[finding.kind] += 1
        if not sample.positives:
            tally.texts[sample.kind] += 1
            tally.touched[sample.kind] += bool(findings)
    return tally


def _wanted(finding: Finding, sample: Sample) -> bool:
    return any(finding.text in value or value in finding.text for _, value in sample.positives)


def figures(tally: Tally) -> dict[str, object]:
    """The tally as shares."""
    found, right, wrong = tally.gone.total(), tally.right.total(), tally.wrong.total()
    return {
        "positives": tally.present.total(),
        "recall": round(found / tally.present.total(), 4),
        "precision": round(right / (right + wrong), 4),
        "negatives": tally.texts.total(),
        "negatives_untouched": tally.texts.total() - tally.touched.total(),
        "recall_by_kind": {kind: round(tally.gone[kind] / n, 3) for kind, n in sorted(tally.present.items())},
        "precision_by_kind": {
            kind: round(tally.right[kind] / (tally.right[kind] + tally.wrong[kind]), 3)
            for kind in sorted(tally.right | tally.wrong)
        },
        "touched_by_kind": {kind: n for kind, n in sorted(tally.touched.items()) if n},
    }


def pace(rows: list[Row]) -> dict[str, object]:
    """How fast published rows are read and scrubbed on one core, in seconds of the processor."""
    find(["the rules are compiled once"], planted=Planted(), host=HOST, detector=DETECTOR)
    size = sum(len(json.dumps(row, default=str)) for row in rows)
    started = time.process_time()
    found = [find_in_row(row, HOST, DETECTOR) for row in rows]
    read = time.process_time()
    for row, findings in zip(rows, found, strict=True):
        scrub_row(row, findings)
    seconds = {"find": read - started, "scrub": time.process_time() - read}
    speed = {f"{name}_mb_s": round(size / 1e6 / max(taken, 1e-6), 1) for name, taken in seconds.items()}
    return {"rows": len(rows), "mb": round(size / 1e6, 2), "findings": sum(map(len, found)), **speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the tuning half; the held-out one has seed + 1000")
    parser.add_argument("--repeats", type=int, default=12, help="how often each surrounding is filled")
    parser.add_argument("--half", choices=("tuning", "held_out"), help="measure this half only and keep nothing")
    parser.add_argument("--rows", type=Path, help="a Parquet file of a published version, to measure the pace on")
    chosen = parser.parse_args()
    result: dict[str, object] = {"rules": RULES, "seed": chosen.seed, "repeats": chosen.repeats}
    for half, seed in (("tuning", chosen.seed), ("held_out", chosen.seed + 1000)):
        if chosen.half in (None, half):
            result[half] = figures(measure(corpus(seed, half, chosen.repeats)))
    if chosen.rows:
        result["rows"] = pace(pq.read_table(chosen.rows).to_pylist())
    line = json.dumps(result)
    if chosen.half is None:
        kept = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps({**kept, **result}, indent=1) + "\n")
    print(line)


if __name__ == "__main__":
    main()
