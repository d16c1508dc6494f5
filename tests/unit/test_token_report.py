"""What is counted of three policies along one path, and what it comes to in seconds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import NOTHING, Annotation, Path, PathStep, SubTask
from training.latency import Measured, Speed, StepSeconds, crossover, latency_curve, timed
from training.token_report import LONG, Call, TokenReport, calls_of, token_report

SPEED = Speed(prefill_s_per_token=0.01, prefill_s_per_token_squared=0.001, decode_s_per_token=0.1)


def words(text: str) -> int:
    """A tokenizer whose tokens are words."""
    return len(text.split())


def path(n_steps: int, observation: str = "seen") -> Path:
    steps = [
        PathStep(observation=f"{observation} {at}", action=f"do {at}", result=f"{observation} {at + 1}")
        for at in range(n_steps)
    ]
    return Path(environment="rooms", task="the task", steps=tuple(steps))


def annotation(*counts: int) -> Annotation:
    subtasks = tuple(SubTask(name=f"part {number}", n_actions=count) for number, count in enumerate(counts))
    return Annotation(annotator="a@1", subtasks=subtasks, progress=tuple(f"done {at}" for at in range(sum(counts))))


def asked(calls: list[Call], policy: str, what: str) -> list[tuple[int, int]]:
    return [(one.step, one.read) for one in calls if (one.policy, one.asked) == (policy, what)]


def test_every_call_reads_what_the_agent_would_read_at_that_step() -> None:
    texts: list[str] = []

    def noted(text: str) -> int:
        texts.append(text)
        return words(text)

    calls_of(path(3), annotation(2, 1), noted)
    history = [("do 0", "seen 0"), ("do 1", "seen 1")]
    for wanted in (
        prompts.flat("the task", history, "seen 2"),
        prompts.classic_high("the task", (), "seen 0"),
        prompts.classic_high("the task", history, "seen 2"),
        prompts.classic_low("part 0", history[:1], "seen 1"),
        prompts.classic_low("part 1", (), "seen 2"),
        prompts.high("the task", (), NOTHING, "seen 0"),
        prompts.high("the task", ("part 0",), "done 1", "seen 2"),
        prompts.low("part 0", "seen 0", NOTHING),
        prompts.low("part 0", "seen 1", "done 0"),
        prompts.low("part 1", "seen 2", NOTHING),
        prompts.progress("part 0", NOTHING, "do 0", "seen 1"),
        prompts.progress("part 0", "done 0", "do 1", "seen 2"),
    ):
        assert wanted in texts
    assert prompts.progress("part 1", NOTHING, "do 2", "seen 3") not in texts
    assert {"do 1; true", "do 1; True", "do 0; False", "part 1", "do 2"} < set(texts)


def test_calls_are_made_at_the_steps_of_the_agents() -> None:
    calls = calls_of(path(4), annotation(2, 2), words)
    assert [step for step, _ in asked(calls, "flat", "act")] == [1, 2, 3, 4]
    for policy in ("hrl", "step_hrl"):
        assert [step for step, _ in asked(calls, policy, "act")] == [1, 2, 3, 4]
        assert [step for step, _ in asked(calls, policy, "goal")] == [1, 3]
    assert [step for step, _ in asked(calls, "step_hrl", "progress")] == [2, 3, 4]


def test_the_flat_history_grows_with_every_step_and_single_steps_do_not() -> None:
    calls = calls_of(path(8), annotation(8), words)
    flat = [read for _, read in asked(calls, "flat", "act")]
    assert {after - before for before, after in pairwise(flat)} == {6}
    assert len({read for _, read in asked(calls, "step_hrl", "act")[1:]}) == 1


def test_totals_are_the_sums_of_steps_and_means_over_paths() -> None:
    pairs = [(path(3), annotation(2, 1)), (path(1), annotation(1))]
    found = token_report(pairs, words)
    by_hand = sum(call.read for pair in pairs for call in calls_of(*pair, words) if call.policy == "step_hrl") / 2
    assert found.step_hrl == by_hand
    assert sum(one.step_hrl * one.n for one in found.per_step.values()) / 2 == pytest.approx(by_hand)
    assert [one.n for one in found.per_step.values()] == [2, 1, 1]
    progress = sum(read for pair in pairs for _, read in asked(calls_of(*pair, words), "step_hrl", "progress")) / 2
    assert found.step_hrl - found.step_hrl_without_progress_calls == pytest.approx(progress)
    assert found.progress_share == pytest.approx(progress / by_hand, abs=1e-3)
    assert (found.progress_tokens, found.late) == (2.0, None)
    assert found.ratios.step_hrl_to_flat == pytest.approx(found.step_hrl / found.flat, abs=1e-3)
    (goal,), (*_, act) = (
        asked(calls_of(*pairs[1], words), "hrl", "goal"),
        asked(calls_of(*pairs[1], words), "hrl", "act"),
    )
    assert found.squares_per_step[1].hrl == goal[1] ** 2 + act[1] ** 2


def test_late_steps_are_those_of_long_paths_against_their_own_early_ones() -> None:
    found = token_report([(path(LONG), annotation(5, 5, 5, 5)), (path(3, "much to see"), annotation(3))], words).late
    assert found is not None and found.paths == 1
    assert found.ratio.flat > 2 and found.ratio.step_hrl < 1.2
    assert found.ratio_to_step_5.flat == pytest.approx(found.late.flat / found.at_step_5.flat, abs=1e-3)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(ValueError, match="no path"):
        token_report([], words)
    with pytest.raises(ValueError, match="3 steps, its annotation 2"):
        calls_of(path(3), annotation(2), words)


@pytest.fixture
def report() -> TokenReport:
    return token_report([(path(30), annotation(*[5] * 6))] * 5, words)


def test_seconds_are_those_of_the_calls_their_prompts_and_their_answers(report: TokenReport) -> None:
    curve = latency_curve(report, SPEED)
    read, written = report.per_step[2].step_hrl, report.written_per_step[2].step_hrl
    assert curve[2].step_hrl == pytest.approx(
        read * 0.01 + report.squares_per_step[2].step_hrl * 0.001 + written * 0.1, abs=1e-3
    )
    flat = report.per_step[2].flat
    assert curve[2].flat == pytest.approx(flat * 0.01 + flat**2 * 0.001 + 2 * 0.1, abs=1e-3)


def test_dear_answers_put_off_the_step_from_which_the_hierarchy_is_faster(report: TokenReport) -> None:
    speeds = [
        SPEED.model_copy(update={"prefill_s_per_token_squared": 0.0, "decode_s_per_token": one})
        for one in (0.0, 0.02, 1.0)
    ]
    in_tokens = crossover(report.per_step)
    free, cheap, dear = (crossover(latency_curve(report, one)) for one in speeds)
    assert in_tokens is not None and cheap is not None
    assert free == in_tokens < cheap
    assert dear is None


def test_a_step_that_few_paths_reach_does_not_decide_where_the_curves_cross() -> None:
    cheap, dear = (StepSeconds(flat=2.0, hrl=1.0, step_hrl=one, n=5) for one in (1.0, 3.0))
    assert crossover({1: dear, 2: cheap, 3: cheap}) == 2
    assert crossover({1: cheap, 2: dear, 3: cheap}) == 3
    assert crossover({1: cheap, 2: cheap, 3: dear.model_copy(update={"n": 4})}) == 1
    assert crossover({1: cheap, 2: dear}) is None


def test_a_report_without_a_measured_machine_has_no_seconds(report: TokenReport) -> None:
    assert timed(report, None).latency is None
    measured = Measured(model={"weights": "w.gguf"}, questions=6, speed=SPEED, left_over=0.0)
    found = timed(report, measured)
    assert found.latency is not None and found.latency.per_step == latency_curve(report, SPEED)
    assert found.flat == report.flat and found.per_step == report.per_step
