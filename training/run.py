"""The folder of a training run: what it was told, how it goes, and its checkpoints.

`data/training/runs/RUN/` holds run.json (what decides the result), metrics.jsonl (a line per logged step), tokens/,
packs/ and checkpoints/. The name of a run is a hash of run.json, so the same command finds its run again and goes on.

Not here: what is trained, and the versions that come of it (training/models.py).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.types import content_id
from sandbox.locks import exclusive

RUNS = "training/runs"
"""Below the data folder."""
METRICS = "metrics.jsonl"


class Run:
    """One run. What it writes is whole at any moment."""

    def __init__(self, data: Path, told: Mapping[str, object]) -> None:
        """`told` is all that decides the result, as JSON. Raises ConfigurationError when the folder is another's."""
        text = json.dumps(told, indent=1, sort_keys=True) + "\n"
        self.name = content_id("run", text)[:16]
        self.folder = data / RUNS / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "run.json"
        if not file.exists():
            _replace(file, text)
        elif file.read_text(encoding="utf-8") != text:
            raise ConfigurationError(f"{file} is not what this run was told; remove {self.folder}")

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else works on the run inside of this; who wants to waits."""
        return exclusive(self.folder / "lock", f"training run {self.name}")

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.folder / METRICS

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Append a line; what is no number or not finite is left out, since JSON has no word for it."""
        kept = {name: value for name, value in values.items() if math.isfinite(value)}
        with self.metrics_file.open("a", encoding="ascii") as file:
            file.write(json.dumps({"step": step, **kept}) + "\n")

    def forget_after(self, step: int) -> None:
        """Drop lines of later steps: a run that goes on from a checkpoint makes them again."""
        if self.metrics_file.exists():
            kept = [json.dumps(line) + "\n" for line in self.metrics() if line["step"] <= step]
            _replace(self.metrics_file, "".join(kept))

    def metrics(self) -> Iterator[dict[str, float]]:
        """The lines in order."""
        return read_metrics(self.metrics_file)


def read_metrics(file: Path) -> Iterator[dict[str, float]]:
    """The lines of metrics.jsonl; a last line that was cut by an end of the machine is passed over."""
    if not file.exists():
        return
    for line in file.read_text(encoding="ascii").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _replace(file: Path, text: str) -> None:
    part = file.with_name(f".{file.name}-{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
