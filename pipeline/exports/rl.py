"""Tasks as rows for reinforcement learning: a prompt, and all that a trainer needs to judge what was done about it.

One row per task, however many attempts at it are published. The verifier comes whole, as JSON, where trainers keep what
is right (`ground_truth`); it never belongs into a prompt. Its hash, the image and the id stand in `extra_info`. A task
whose texts are not those that were verified, say because a scrubber changed them, is refused: its image is unchanged.

verl chooses a reward function by `data_source`, SkyRL an environment by `env_class`; those under our names are the
trainer's to register. Both drop prompts that are longer than their settings allow, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from pipeline.columns import MESSAGES, TEXT
from pipeline.exports.account import RowRefused, Unit
from pipeline.schemas import Row
from pipeline.types import Verifier, content_id

NAME = "touchstone"
"""The `data_source`, and SkyRL's `env_class`."""

_LABELS = (
    "instance_id",
    "repository_id",
    "image_digest",
    "verifier_sha256",
    "domain",
    "language",
    "family",
    "difficulty",
)
_TASK = (
    "instruction",
    "solution",
    "verifier_files",
    "verifier_command",
    "verifier_timeout_s",
    "verifier_passing_tests",
)


class RlRows:
    """Of verl, or of SkyRL, which differ in what they call the judgement."""

    format_version = "1"
    unit: Unit = "instance_id"
    columns: tuple[str, ...] = (*_LABELS, *_TASK)

    def __init__(self, *, skyrl: bool) -> None:
        self.format = "skyrl" if skyrl else "verl"
        self._judged, style = ("reward_spec", "method") if skyrl else ("reward_model", "style")
        self._style = style
        fields = [
            ("data_source", TEXT),
            ("prompt", MESSAGES),
            ("ability", TEXT),
            (self._judged, pa.struct([(style, TEXT), ("ground_truth", TEXT)])),
            ("extra_info", pa.struct([("index", pa.int64()), ("split", TEXT), *((name, TEXT) for name in _LABELS)])),
        ]
        self.schema: pa.Schema | None = pa.schema([*fields, ("env_class", TEXT)] if skyrl else fields)
        self._own: Row = {"env_class": NAME} if skyrl else {}

    def essence(self, row: Row) -> Row:
        verifier = verified_task(row)
        labels = {name: row[name] for name in _LABELS}
        return labels | {"instruction": row["instruction"], "verifier": verifier.model_dump(mode="json")}

    def record(self, essence: Row, split: str, number: int) -> Row:
        told = Verifier.model_validate(essence["verifier"]).model_dump_json()
        return {
            "data_source": NAME,
            "prompt": [{"role": "user", "content": essence["instruction"]}],
            "ability": essence["domain"],
            self._judged: {self._style: "rule", "ground_truth": told},
            "extra_info": {"index": number, "split": split, **{name: essence[name] for name in _LABELS}},
            **self._own,
        }

    def recovered(self, record: Row) -> Row:
        found: dict[str, Any] = record
        verifier = Verifier.model_validate_json(found[self._judged]["ground_truth"])
        labels: Row = {name: found["extra_info"][name] for name in _LABELS}
        told = {"instruction": found["prompt"][0]["content"], "verifier": verifier.model_dump(mode="json")}
        return labels | told

    def companions(self, name: str, ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
        return {}


def verified_task(row: Row) -> Verifier:
    """The verifier of a row. Raises RowRefused when verifier or task are not those that the ids of the row are of."""
    missing = [name for name in (*_LABELS, *_TASK) if row.get(name) is None]
    if missing:
        raise RowRefused("no_task", f"it has no {', '.join(missing)}")
    try:
        verifier = Verifier.model_validate(
            {
                "files": row["verifier_files"],
                "command": row["verifier_command"],
                "timeout_s": row["verifier_timeout_s"],
                "passing_tests": row["verifier_passing_tests"],
            }
        )
    except ValidationError as error:
        raise RowRefused("no_task", f"its verifier is none: {error.errors()[0]['msg']}") from error
    if verifier.sha256 != row["verifier_sha256"]:
        raise RowRefused("task_changed", "the verifier's files are not those that judged: their hash is another")
    told = (row["repository_id"], row["image_digest"], row["instruction"], row["solution"], verifier.sha256)
    if content_id("task", *told) != row["instance_id"]:
        raise RowRefused("task_changed", "instruction or solution are not those that the id was made of")
    return verifier
