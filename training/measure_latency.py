"""Seconds that a model takes to read and to write a token on this machine, by asking it.

    python -m training.measure_latency WEIGHTS.gguf FOLDER

Each cell of FOLDER/cells.jsonl is one question: so many words to read, one token or many to write. Cells that are known
are not asked again. FOLDER/result.json has what fits them. The model works in one thread and its processor time is what
counts, which other programs do not change as they do the time on the wall; both are kept. No prompt begins like another
one, so that the server has none of it in its cache but what the chat template begins with, and that is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.errors import ConfigurationError
from pipeline.llm.local_server import LocalModelConfig, LocalServer, ServerFailed
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.llm.weights import find_weights
from pipeline.types import content_id
from training.cells import Cell, CellLine, Cells
from training.latency import Measured, Speed

SIZES = (128, 256, 512, 1024, 2048, 4096)
"""Words to read, most of them one token."""
ANSWERS = (1, 64)
"""Most tokens to write."""
REPEATS = 2
TIMEOUT_S = 1_200.0
"""For one answer."""
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


def ask(model: ChatModel, cell: Cell, worked_s: Callable[[], float]) -> dict[str, float]:
    """The figures of one question; `worked_s` tells the processor time of the model so far.

    Raises what ChatModel raises, and ConfigurationError where it counts no tokens.
    """
    size, answer = (int(name.partition("-")[2]) for name in (cell.arm, cell.part))
    words = random.Random(cell.name).choices(_WORDS, k=size)
    message = Message(
        role="user", content=" ".join([*words, "- Write a long story in which all of these words occur many times."])
    )
    before = worked_s()
    completion = model.complete([message], Sampling(max_tokens=answer))
    worked = round(worked_s() - before, 2)
    if completion.prompt_tokens is None or completion.completion_tokens is None:
        raise ConfigurationError(f"{model.name} does not say how many tokens it read and wrote: measure another one")
    read = completion.prompt_tokens - (completion.cached_tokens or 0)
    written, seconds = completion.completion_tokens, round(completion.seconds, 2)
    return {"read": read, "written": written, "seconds": worked, "wall_seconds": seconds}


def measured(lines: Sequence[CellLine]) -> Measured:
    """Least squares of relative errors over the fastest question of each kind.

    Raises ConfigurationError for too few kinds to fit.
    """
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
    terms = np.stack([read, read**2, written], axis=1) / seconds[:, None]
    found, *_ = np.linalg.lstsq(terms, np.ones_like(seconds), rcond=None)
    prefill, squared, decode = (float(f"{value:.4g}") for value in found)
    return Measured(
        model=lines[0].model,
        questions=len(lines),
        speed=Speed(prefill_s_per_token=prefill, prefill_s_per_token_squared=squared, decode_s_per_token=decode),
        left_over=round(float(np.sqrt(np.mean((terms @ found - 1) ** 2))), 4),
    )


def measure(weights: Path, folder: Path) -> Measured:
    """Ask what is not known yet and write result.json. Raises ConfigurationError."""
    found = find_weights(weights.name, weights.absolute().parent)
    config = LocalModelConfig(local=weights.name, threads=1)
    setting = content_id("speed", found.sha256, config.context, SIZES, ANSWERS)
    cells = Cells(folder / "cells.jsonl")
    if missing := cells.missing(setting, plan()):
        try:
            server = LocalServer(found, config)
        except ServerFailed as error:
            raise ConfigurationError(f"{weights}: {error}") from error
        with contextlib.closing(server):
            client = OpenAIServerConfig(base_url=f"{server.address}/v1", model=found.name, timeout_s=TIMEOUT_S)
            with contextlib.closing(OpenAIServer(client)) as model:
                for cell in missing:
                    figures = ask(model, cell, partial(processor_seconds, server.pid))
                    cells.add(_line(setting, cell, server.facts, figures))
                    log.info("%s: %s", cell.name, figures)
    result = measured(list(cells.of(setting).values()))
    (folder / "result.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return result


def processor_seconds(pid: int) -> float:
    """What a process has worked so far, its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _line(setting: str, cell: Cell, facts: Mapping[str, str], figures: Mapping[str, float]) -> CellLine:
    told = {"setting": setting, "cell": cell, "seconds": figures["wall_seconds"], "code_commit": None}
    return CellLine.model_validate(told | {"model": dict(facts), "figures": dict(figures)})


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
