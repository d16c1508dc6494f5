"""Messages that prove where they come from: signed webhooks."""

from __future__ import annotations

import base64
import hmac
import json

from pipeline.generators.domains.security.commands import changed, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_SOLUTION = r"""
import base64, csv, hashlib, hmac, json
keys = json.load(open("/work/webhooks/keys.json"))
seen, rows = set(), []
for line in open("/work/webhooks/deliveries.jsonl"):
    d = json.loads(line)
    fields = dict(part.split("=", 1) for part in d["signature"].split(","))
    key = keys.get(fields["k"])
    status = "forged"
    if key and key["from"] <= int(fields["t"]) < key["until"]:
        text = (fields["t"] + "SEPARATOR" + d["body"]).encode()
        made = hmac.new(key["secret"].encode(), text, hashlib.DIGEST).digest()
        if hmac.compare_digest(ENCODED, fields["s"]):
            status = "valid"
            if abs(d["received"] - int(fields["t"])) > WINDOW:
                status = "stale"
            elif fields["s"] in seen:
                status = "replayed"
            else:
                seen.add(fields["s"])
    rows.append((d["id"], status))
with open("/work/verdicts.csv", "w", newline="") as out:
    csv.writer(out).writerows([("id", "status"), *rows])
accepted = sum(json.loads(json.loads(line)["body"])["amount"] for line, (_, s) in
    zip(open("/work/webhooks/deliveries.jsonl"), rows) if s == "valid")
open("/work/accepted_total.txt", "w").write(f"{accepted}\n")
"""


def webhook_signatures(seed: int, context: Context) -> Draft:
    """Which deliveries of a payment service are genuine."""
    rng = chance("security", "webhook_signatures", seed)
    digest = ("sha256", "sha512", "sha256", "sha384")[seed % 4]
    as_base64 = seed % 4 in (2, 3)
    separator, window = rng.choice((".", ":", "|")), rng.choice((120, 300, 600))
    start = 1_750_000_000 + rng.randint(0, 10_000_000)
    secrets = {f"k{n}": "".join(rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=28)) for n in (1, 2, 3)}
    turn = {"k1": (start, start + 40_000), "k2": (start + 40_000, start + 90_000)}

    def signed(key: str, moment: int, body: str) -> str:
        made = hmac.new(secrets[key].encode(), f"{moment}{separator}{body}".encode(), digest).digest()
        return base64.b64encode(made).decode() if as_base64 else made.hex()

    deliveries: list[dict[str, object]] = []
    statuses: list[str] = []
    genuine: list[dict[str, object]] = []
    total = 0
    kinds = ["valid"] * 14 + [
        "forged_body",
        "forged_key",
        "retired_key",
        "stale_early",
        "stale_late",
        "replayed",
        "replayed",
        "edge",
    ]
    rng.shuffle(kinds)
    kinds.insert(0, "valid")
    for number, kind in enumerate(kinds):
        moment = start + 200 + number * 3_500
        key = "k1" if moment < start + 40_000 else "k2"
        amount = rng.randint(100, 90_000)
        body = json.dumps({"order": f"o-{rng.randint(1000, 9999)}", "amount": amount})
        received = moment + rng.randint(-3, window - 5)
        status = kind.split("_")[0]
        if kind == "retired_key":
            key, status = ("k2" if key == "k1" else "k1"), "forged"
        value = signed("k3" if kind == "forged_key" else key, moment, body)
        if kind == "forged_body":
            body = body.replace(f'"amount": {amount}', f'"amount": {amount + 1000}')
        elif status == "stale":
            received = moment + (1 if kind == "stale_late" else -1) * (window + rng.randint(1, 400))
        elif kind == "edge":
            received, status = moment + window, "valid"
        entry: dict[str, object] = {"received": received, "signature": f"t={moment},k={key},s={value}", "body": body}
        if kind == "replayed":
            entry = dict(rng.choice(genuine))
        elif status == "valid":
            genuine.append(entry)
            total += amount
        deliveries.append({"id": f"d{number + 1:03}", **entry})
        statuses.append(status)
    keys = {name: {"secret": secrets[name], "from": span[0], "until": span[1]} for name, span in turn.items()}
    encoding = "base64.b64encode(made).decode()" if as_base64 else "made.hex()"
    solution = changed(
        _SOLUTION, ("SEPARATOR", separator), ("DIGEST", digest), ("ENCODED", encoding), ("WINDOW", str(window))
    )
    shown = "base64" if as_base64 else "lower-case hex"
    return Draft(
        family="webhook_signatures",
        seed=seed,
        difficulty="medium",
        instruction="Our payment endpoint stored every webhook it got, genuine or not, in /work/webhooks/"
        "deliveries.jsonl (`id`, `received` as Unix seconds, `signature`, `body` as the raw text). `signature` reads "
        f"`t=<seconds>,k=<key name>,s=<value>`; the value is HMAC-{digest.upper()}, in {shown}, of the seconds, one "
        f"`{separator}` and the raw body. Secrets are in keys.json beside it; a key signs only while "
        "`from` <= t < `until`.\n"
        "Decide for each delivery, the first that holds: `forged` (unknown key, key not in its time, or wrong value), "
        f"`stale` (received and t differ by more than {window} seconds), `replayed` (the same value was valid in an "
        "earlier line), else `valid`. Write /work/verdicts.csv with header `id,status`, in the order of the file, and "
        "the sum of `amount` of all valid bodies as one number to /work/accepted_total.txt.",
        files=(
            TaskFile(path="/work/webhooks/deliveries.jsonl", text="".join(json.dumps(d) + "\n" for d in deliveries)),
            TaskFile(path="/work/webhooks/keys.json", text=json.dumps(keys, indent=2) + "\n", mode=0o600),
        ),
        solution=(python(solution),),
        right=(Variant(name="unix_lines", commands=(python(solution), "sed -i 's/\\r$//' /work/verdicts.csv")),),
        weak=(
            Variant(name="replays_valid", commands=(python(changed(solution, ('"replayed"', '"valid"'))),)),
            Variant(
                name="late_only",
                commands=(
                    python(
                        changed(solution, ('abs(d["received"] - int(fields["t"]))', 'd["received"] - int(fields["t"])'))
                    ),
                ),
            ),
            Variant(
                name="keys_for_ever",
                commands=(python(changed(solution, (' and key["from"] <= int(fields["t"]) < key["until"]', ""))),),
            ),
        ),
        verifier=filled(
            """
import csv
import io

STATUS_BY_DELIVERY = __STATUSES__


def test_each_delivery_is_judged(box):
    table = list(csv.DictReader(io.StringIO(box.text("/work/verdicts.csv"))))
    assert [(row["id"], row["status"]) for row in table] == list(STATUS_BY_DELIVERY.items())


def test_accepted_money(box):
    assert box.text("/work/accepted_total.txt").strip() == __TOTAL__
""",
            statuses={d["id"]: s for d, s in zip(deliveries, statuses, strict=True)},
            total=str(total),
        ),
    )
