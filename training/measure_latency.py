"""Seconds that a model takes to read and to write a token on this machine, by asking it.

    python -m training.measure_latency WEIGHTS.gguf FOLDER

Each cell of FOLDER/cells.jsonl is one question: so many words to read, one token or many to write. Cells that are known
are not asked again. FOLDER/result.json has what fits them: the fastest of each kind counts, since other programs can
only make a question slower. No prompt begins like another one, so that the server has none of it in its cache but what
the chat template begins with, and that is not counted.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigurationError
from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.llm.weights import find_weights
from pipeline.types import content_id
from training.cells import Cell, CellLine, Cells
from training.latency import Measured, Speed

SIZES = (128, 256, 512, 1024, 2048, 4096)
"""Words to read, most of them one token."""
ANSWERS = (1, 40)
"""Most tokens to write."""
REPEATS = 3
_WORDS = (
    "the",
    "door",
    "is",
    "open",
    "and",
    "a",
    "lamp",
    "stands",
    "on",
    "table",
    "near",
    "some",
    "water",
    "cold",
    "sea",
)

log = logging.getLogger(__name__)


def plan() -> list[Cell]:
    """Every question, the largest last."""
    return [
        Cell(arm=f"read-{size}", seed=repeat, environment="words", part=f"write-{answer}")
        for size in SIZES
        for answer in ANSWERS
        for repeat in range(REPEATS)
    ]


def ask(model: ChatModel, cell: Cell) -> dict[str, float]:
    """The figures of one question. Raises what ChatModel raises, ConfigurationError where it counts no tokens."""
    size, answer = (int(name.partition("-")[2]) for name in (cell.arm, cell.part))
    words = random.Random(cell.name).choices(_WORDS, k=size)
    message = Message(role="user", content=" ".join([*words, "- now count from one to a hundred in words"]))
    completion = model.complete([message], Sampling(max_tokens=answer))
    if completion.prompt_tokens is None or completion.completion_tokens is None:
        raise ConfigurationError(f"{model.name} does not say how many tokens it read and wrote: measure another one")
    read = completion.prompt_tokens - (completion.cached_tokens or 0)
    return {"read": read, "written": completion.completion_tokens, "seconds": round(completion.seconds, 4)}


def measured(lines: Sequence[CellLine]) -> Measured:
    """Least squares over the fastest question of each kind. Raises ConfigurationError for too few kinds to fit."""
    fastest: dict[tuple[str, float], dict[str, float]] = {}
    for line in lines:
        figures = {name: float(str(value)) for name, value in line.figures.items()}
        kind = line.cell.arm, figures["written"]
        if kind not in fastest or figures["seconds"] < fastest[kind]["seconds"]:
            fastest[kind] = figures
    named = ("read", "written", "seconds")
    read, written, seconds = (np.array([one[name] for one in fastest.values()], np.float64) for name in named)
    if len(seconds) < 5:
        raise ConfigurationError(f"{len(seconds)} kinds of questions are too few to fit: ask all of the plan")
    ones = np.ones_like(read)
    straight, left = _fit(np.stack([ones, read, written], axis=1), seconds)
    curved, left_curved = _fit(np.stack([ones, read, written, read**2], axis=1), seconds)
    return Measured(
        model=lines[0].model,
        questions=len(lines),
        speed=_speed(straight),
        left_over=left,
        prefill_s_per_token_squared=curved[3],
        speed_with_square=_speed(curved),
        left_over_with_square=left_curved,
    )


def measure(weights: Path, folder: Path) -> Measured:
    """Ask what is not known yet and write result.json. Raises ConfigurationError."""
    found, config = find_weights(weights.name, weights.absolute().parent), LocalModelConfig(local=weights.name)
    setting = content_id("speed", found.sha256, config.threads, config.context, SIZES, ANSWERS)
    cells, model = Cells(folder / "cells.jsonl"), LocalModel(found, config)
    try:
        for cell in cells.missing(setting, plan()):
            figures = ask(model, cell)
            facts = {**model.details, "threads": str(config.threads)}
            line = {
                "setting": setting,
                "cell": cell,
                "seconds": figures["seconds"],
                "code_commit": None,
                "model": facts,
            }
            cells.add(CellLine.model_validate(line | {"figures": figures}))
            log.info("%s: %s", cell.name, figures)
    finally:
        model.close()
    result = measured(list(cells.of(setting).values()))
    (folder / "result.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return result


def _fit(terms: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[list[float], float]:
    found = np.linalg.lstsq(terms, seconds, rcond=None)[0]
    left = float(np.sqrt(np.mean((terms @ found - seconds) ** 2)))
    return [float(f"{value:.4g}") for value in found], round(left, 4)


def _speed(found: Sequence[float]) -> Speed:
    return Speed(start_s=found[0], prefill_s_per_token=found[1], decode_s_per_token=found[2])


def main() -> None:
    """Measure the weights named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m training.measure_latency", description="Time reading and writing.")
    parser.add_argument("weights", type=Path, help="a GGUF file")
    parser.add_argument("folder", type=Path, help="where cells.jsonl and result.json are")
    arguments = parser.parse_args()
    try:
        log.info("%s", json.dumps(measure(arguments.weights, arguments.folder).model_dump()))
    except ConfigurationError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
