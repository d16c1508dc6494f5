"""Looks each verified attempt through once: what has to be scrubbed, its hashes, what it shares with benchmarks.

What follows from it is decided over all attempts at once and each time anew (curation/decisions.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.candidates import Looked
from pipeline.curation.benchmark_overlap import AttemptTexts, HeldOut, overlap_rows
from pipeline.curation.benchmarks import BenchmarkTask, fingerprint
from pipeline.curation.commands import (
    commands_sha256,
    instruction_sha256,
    normalised,
    normalised_prose,
    thoughts,
    typed,
    words,
)
from pipeline.curation.copies import PERMUTATIONS, signature_bytes
from pipeline.curation.own_host import HostFacts
from pipeline.curation.scrubbing import RULES as SCRUB_RULES
from pipeline.curation.scrubbing import NotScrubbable, find_in_row, unsafe
from pipeline.curation.secrets import Detector
from pipeline.curation.signatures import minhash
from pipeline.joined_rows import VerifiedRow, verified
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store

RULES = "1"
"""Version of what is found here; another one looks all attempts through anew."""
_DIGITS = 12


def looked_with(benchmarks: Sequence[BenchmarkTask]) -> Looked:
    """What the rows of a call of `curate` are found by."""
    return Looked(f"{RULES}+{SCRUB_RULES}", fingerprint(benchmarks) if benchmarks else None)


def curate(
    store: Store, benchmarks: Sequence[BenchmarkTask], host: HostFacts, detector: Detector, options: Options
) -> StageReport:
    """A row in `curations` for each attempt that passed, for each version of the rules and each set of benchmarks.

    `host` is the machine whose traces are found; what is known of it later is not looked for again.
    Raises RowMissing for an attempt whose row is gone.
    """
    looked, held_out = looked_with(benchmarks), HeldOut(benchmarks)

    def work(one: VerifiedRow) -> Outcome:
        return Outcome({"curations": [_named(one, looked) | _found(one.row, held_out, host, detector)]})

    def failed_rows(one: VerifiedRow, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"curations": [_named(one, looked)]}

    items = [Item(_key(one, looked), one) for one in verified(store)]
    return over_items("curation", items, work, store=store, failed_rows=failed_rows, options=options)


def _named(one: VerifiedRow, looked: Looked) -> Row:
    of_attempt: Row = {"trajectory_id": one.trajectory_id, "trajectory_attempt": one.attempt}
    return of_attempt | {"rules": looked.rules, "benchmark_sha256": looked.benchmark_sha256}


def _key(one: VerifiedRow, looked: Looked) -> str:
    """An attempt that was made anew is looked through anew."""
    return f"{one.trajectory_id}@{one.attempt}/{looked.rules}/{(looked.benchmark_sha256 or 'none')[:_DIGITS]}"


def _found(row: dict[str, Any], held_out: HeldOut, host: HostFacts, detector: Detector) -> Row:
    """What is seen in a row of the published schema."""
    steps, interface = row["steps"] or [], row["interface"] or "shell"
    instruction = normalised_prose(row["instruction"])
    commands = normalised(typed((step["action"] for step in steps), interface), row["instruction"])
    said = thoughts(steps)
    commands_signature = signature_bytes(minhash(words(commands), PERMUTATIONS).hashvalues)
    instruction_signature = signature_bytes(minhash(words([instruction]), PERMUTATIONS).hashvalues)
    texts = AttemptTexts(
        instruction=instruction,
        verifier="\n".join(file["content"] for file in row["verifier_files"]),
        commands=commands,
        thoughts=said,
        observations=[step["observation"] for step in steps],
        commands_signature=commands_signature,
        instruction_signature=instruction_signature,
    )
    return {
        **_scrubbing(row, host, detector),
        "by_model": row["model"] is not None,
        "n_turns": row["n_turns"],
        "n_thoughts": len(said),
        "commands_sha256": commands_sha256(commands, interface),
        "instruction_sha256": instruction_sha256(instruction),
        "commands_signature": commands_signature,
        "instruction_signature": instruction_signature,
        "overlaps": overlap_rows(held_out.overlaps(texts)) if held_out.tasks else [],
    }


def _scrubbing(row: Row, host: HostFacts, detector: Detector) -> Row:
    """What has to be replaced in a row; what its task planted has no placeholder and stays."""
    try:
        findings = find_in_row(row, host, detector)
    except NotScrubbable as error:
        return {"findings": [], "n_planted": 0, "unscrubbable": str(error)}
    return {
        "findings": [finding.model_dump() for finding in findings],
        "n_planted": sum(not finding.placeholder for finding in findings),
        "unscrubbable": unsafe(row, findings),
    }
