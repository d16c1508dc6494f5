"""An attempt that quotes a benchmark is dropped or shown to somebody; what many tasks say is boilerplate."""

from __future__ import annotations

import random

import pytest

from pipeline.curation import benchmark_overlap
from pipeline.curation.benchmark_overlap import AttemptTexts, HeldOut, Overlap, boilerplate, judged
from pipeline.curation.benchmarks import BenchmarkTask
from pipeline.curation.commands import normalised, normalised_prose, words
from pipeline.curation.copies import PERMUTATIONS, signature_bytes
from pipeline.curation.decontamination import Contamination
from pipeline.curation.signatures import minhash

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "klmnrst"]


def prose(seed: int, length: int = 80) -> str:
    """Words in an order of their own."""
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def held(seed: int, extra: str = "") -> BenchmarkTask:
    return BenchmarkTask(
        name=f"held-{seed}",
        instruction=f"{prose(seed)} {extra}",
        tests=prose(seed + 100),
        solution=prose(seed + 200, 60),
    )


HELD = HeldOut([held(seed) for seed in range(6)])


def texts(instruction: str = prose(900), **parts: object) -> AttemptTexts:
    given = {"verifier": prose(901), "commands": [prose(902)], "thoughts": [prose(903)], "observations": [prose(904)]}
    made = given | parts
    commands = normalised(made["commands"], instruction)  # type: ignore[arg-type]
    return AttemptTexts(
        instruction=normalised_prose(instruction),
        commands=commands,
        commands_signature=signature_bytes(minhash(words(commands), PERMUTATIONS).hashvalues),
        instruction_signature=signature_bytes(minhash(words([instruction]), PERMUTATIONS).hashvalues),
        **{name: made[name] for name in ("verifier", "thoughts", "observations")},  # type: ignore[arg-type]
    )


def seen(attempt: AttemptTexts, masked: frozenset[int] = frozenset()) -> Contamination:
    return judged(HELD.overlaps(attempt), masked)


def part_of(text: str, length: int) -> str:
    return " ".join(text.split()[:length])


def test_an_attempt_of_ones_own_shares_nothing() -> None:
    assert HELD.overlaps(texts()) == []
    assert judged([], frozenset()).decision == "clean"


@pytest.mark.parametrize("part", ["commands", "thoughts", "observations"])
def test_thirteen_words_in_any_part_are_for_review_and_quoted(part: str) -> None:
    quoted = part_of(prose(203), 13)
    found = seen(texts(prose(900), **{part: [f"{prose(910, 300)} {quoted} {prose(911, 300)}"]}))
    assert (found.decision, found.task) == ("review", "held-3")
    assert f"its {part} share with held-3: '{quoted}'" == found.reason


def test_twelve_words_say_nothing() -> None:
    quoted = part_of(prose(203), 12)
    assert seen(texts(commands=[f"{prose(910, 300)} {quoted} {prose(911, 300)}"])).decision == "clean"


def test_a_tenth_of_the_runs_of_eight_words_drops() -> None:
    found = seen(texts(commands=[f"{prose(910, 60)} {part_of(prose(203), 20)} {prose(911, 20)}"]))
    assert (found.decision, found.task) == ("drop", "held-3")
    assert "of the runs of 8 words in its commands stand in held-3" in found.reason


def test_less_than_a_tenth_is_for_review() -> None:
    # 13 of 193 runs.
    found = seen(texts(commands=[f"{prose(910, 90)} {part_of(prose(203), 20)} {prose(911, 90)}"]))
    assert found.decision == "review"


def test_a_long_output_hides_no_solution() -> None:
    found = seen(texts(commands=[part_of(prose(203), 30)], observations=[prose(912, 5_000)]))
    assert found.decision == "drop"


@pytest.mark.parametrize(("length", "decision"), [(11, "clean"), (12, "drop")])
def test_a_short_text_needs_twelve_words_in_common_to_be_dropped(length: int, decision: str) -> None:
    assert seen(texts(commands=[part_of(prose(203), length)])).decision == decision


def test_an_instruction_that_is_like_one_is_dropped_by_similarity() -> None:
    shuffled = prose(4).split()
    shuffled[::11] = ["other"] * len(shuffled[::11])
    found = seen(texts(instruction=" ".join(shuffled)))
    assert (found.decision, found.task) == ("drop", "held-4")
    assert "similarity" in found.reason


def test_commands_that_are_like_a_solution_are_dropped_by_similarity() -> None:
    solution = prose(204, 60).split()
    solution[::12] = ["other"] * len(solution[::12])
    found = seen(texts(commands=[" ".join(solution)]))
    assert (found.decision, found.task) == ("drop", "held-4") and "similarity" in found.reason


def test_short_texts_are_not_compared_by_similarity() -> None:
    tiny = HeldOut([BenchmarkTask(name="tiny", instruction="Build it.", tests="", solution="make")])
    assert tiny.overlaps(texts(instruction="Build it.", commands=["make"])) == []


def test_what_many_tasks_of_the_benchmark_say_is_boilerplate() -> None:
    canary = prose(950, 20)
    held_out = HeldOut([held(seed, canary) for seed in range(6)])
    assert judged(held_out.overlaps(texts(observations=[canary])), frozenset()).decision == "clean"


def test_what_many_tasks_of_ours_share_with_it_is_boilerplate() -> None:
    quoted = part_of(prose(203), 20)
    attempts = [texts(commands=[f"{prose(960 + i, 60)} {quoted}"]) for i in range(6)]
    found = [(f"task-{i}", HELD.overlaps(one)) for i, one in enumerate(attempts)]
    assert {judged(one, boilerplate(found[:2], 2)).decision for _, one in found} == {"drop"}
    assert {judged(one, boilerplate(found, 6)).decision for _, one in found} == {"clean"}
    assert {judged(one, boilerplate(found, 1_000)).decision for _, one in found} == {"drop"}


def test_many_attempts_at_one_task_make_no_boilerplate() -> None:
    found = [("task-1", HELD.overlaps(texts(commands=[part_of(prose(203), 20)]))) for _ in range(20)]
    assert boilerplate(found, 1) == frozenset()


def test_a_quotation_that_is_left_is_named_beside_masked_boilerplate() -> None:
    usual, own = part_of(prose(203), 13), part_of(prose(103), 13)
    both = HELD.overlaps(texts(thoughts=[f"{prose(970, 300)} {usual} {prose(971, 300)} {own} {prose(972, 300)}"]))
    masked = frozenset(run for one in HELD.overlaps(texts(thoughts=[usual])) for run in (*one.short, *one.long))
    assert judged(both, masked).reason == f"its thoughts share with held-3: '{own}'"


def test_a_part_that_is_too_long_is_for_review() -> None:
    held_out = HeldOut(HELD.tasks, max_words=1_000)
    found = judged(held_out.overlaps(texts(observations=[prose(980, 1_001)])), frozenset())
    assert found == Contamination(decision="review", reason="its observations are too long to be compared as a whole")
    assert held_out.overlaps(texts(observations=[prose(980, 1_000)])) == []


@pytest.mark.parametrize("odd", ["", "\0", "\ufffd", "é" * 1_000, "<script>" * 1_000])
def test_odd_texts_share_nothing(odd: str) -> None:
    assert HELD.overlaps(texts(instruction=odd, verifier=odd, commands=[odd], thoughts=[], observations=[odd])) == []


def test_an_overlap_comes_back_from_its_row() -> None:
    found = HELD.overlaps(texts(commands=[part_of(prose(203), 20)]))
    assert [Overlap.model_validate(row) for row in benchmark_overlap.overlap_rows(found)] == found != []
