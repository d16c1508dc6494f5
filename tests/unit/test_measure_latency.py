"""Timing a model: what is asked, and what fits the answers."""

from __future__ import annotations

import itertools
import os
import time
from typing import cast

import pytest
from pydantic import JsonValue

from pipeline.errors import ConfigurationError
from tests.unit.recorded_clients import RecordedModel, said
from training.cells import Cell, CellLine
from training.measure_latency import ANSWERS, REPEATS, SIZES, ask, measured, plan, processor_seconds


def line(cell: Cell, read: int, written: int, seconds: float) -> CellLine:
    figures = cast(dict[str, JsonValue], {"read": read, "written": written, "seconds": seconds})
    return CellLine(setting="s", cell=cell, seconds=seconds, code_commit=None, model={"weights": "w"}, figures=figures)


def lines(slower: float = 0.0) -> list[CellLine]:
    """Of a machine with a known speed, on which only the first of the repeats is not disturbed."""
    made = []
    for cell in plan():
        read, written = (int(name.partition("-")[2]) for name in (cell.arm, cell.part))
        seconds = 0.01 * read + 1e-6 * read**2 + 0.05 * written
        made.append(line(cell, read, written, seconds + slower * cell.seed))
    return made


def test_the_speed_of_a_machine_is_found_again_though_others_disturb_it() -> None:
    found = measured(lines(slower=3.0))
    assert found.speed.prefill_s_per_token == pytest.approx(0.01, rel=1e-3)
    assert found.speed.prefill_s_per_token_squared == pytest.approx(1e-6, rel=1e-3)
    assert found.speed.decode_s_per_token == pytest.approx(0.05, rel=1e-3)
    assert (found.left_over, found.questions) == (0.0, len(SIZES) * len(ANSWERS) * REPEATS)
    assert found.model == {"weights": "w"}


def test_what_the_speed_does_not_explain_is_told() -> None:
    made = lines()
    made[0] = line(made[0].cell, 128, 1, 0.1)
    assert measured(made).left_over > 0.1


def test_too_few_kinds_of_questions_fit_nothing() -> None:
    with pytest.raises(ConfigurationError, match="too few"):
        measured(lines()[:4])


def test_no_two_questions_begin_alike_and_what_was_in_the_cache_is_not_read() -> None:
    model = RecordedModel(said("one two", prompt_tokens=150, cached_tokens=20, completion_tokens=2, seconds=1.5))
    clock = itertools.count(step=3)
    figures = [ask(model, cell, lambda: float(next(clock))) for cell in plan()[:3]]
    assert figures[0] == {"read": 130, "written": 2, "seconds": 3.0, "wall_seconds": 1.5}
    beginnings = {messages[0].content[:40] for messages in model.asked}
    assert len(beginnings) == 3
    assert all(len(messages[0].content.split()) >= SIZES[0] for messages in model.asked)


def test_a_server_that_does_not_count_cannot_be_measured() -> None:
    with pytest.raises(ConfigurationError, match="does not say"):
        ask(RecordedModel(said("one", prompt_tokens=None)), plan()[0], lambda: 0.0)


def test_the_processor_time_of_a_process_grows_with_its_work() -> None:
    before = processor_seconds(os.getpid())
    while time.process_time() < before + 0.1:
        pass
    assert processor_seconds(os.getpid()) > before
