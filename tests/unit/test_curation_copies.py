"""Of attempts that say the same one is kept, always the same one; different solutions of one task both stay."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from pipeline.curation.commands import commands_sha256, instruction_sha256, normalised, words
from pipeline.curation.copies import (
    PERMUTATIONS,
    Attempted,
    exact_copies,
    near_copies,
    signature_bytes,
    similarity,
)
from pipeline.curation.signatures import minhash

TASK = "Write how many lines of words.txt hold a vowel to count.txt, as a number and nothing else."
SCRIPT = [
    "ls -la && head -n 5 words.txt",
    "cat > count.py <<'EOF'\nimport re\n\nwith open('words.txt') as file:\n    lines = file.read().splitlines()\n"
    "found = [line for line in lines if re.search('[aeiou]', line, re.IGNORECASE)]\n"
    "with open('count.txt', 'w') as out:\n    out.write(str(len(found)))\nEOF",
    "python3 count.py && cat count.txt",
]


def attempt(name: str, commands: list[str], instruction: str = TASK, **facts: object) -> Attempted:
    plain = normalised(commands, instruction)
    made = Attempted(
        trajectory_id=name,
        commands_sha256=commands_sha256(plain, "shell"),
        instruction_sha256=instruction_sha256(instruction),
        commands_signature=signature_bytes(minhash(words(plain), PERMUTATIONS).hashvalues),
        instruction_signature=signature_bytes(minhash(words([instruction]), PERMUTATIONS).hashvalues),
        by_model=True,
        has_thoughts=True,
        n_turns=len(commands) + 1,
    )
    return replace(made, **facts)  # type: ignore[arg-type]


def test_four_samples_that_type_the_same_are_one() -> None:
    rows = [attempt(f"traj-{i}", ["ls", f"sort a > /tmp/x{i}", "grep -c  '[aeiou]' words.txt"]) for i in range(4)]
    assert {name: copy.kept_id for name, copy in exact_copies(rows).items()} == dict.fromkeys(
        ("traj-1", "traj-2", "traj-3"), "traj-0"
    )


def test_the_same_commands_for_another_instruction_are_no_copy() -> None:
    rows = [attempt("traj-0", ["make"]), attempt("traj-1", ["make"], "Build the program and leave it in bin/.")]
    assert exact_copies(rows) == near_copies(rows) == {}


def test_different_solutions_of_one_task_both_stay() -> None:
    rows = [
        attempt("traj-0", ["grep -ci '[aeiou]' words.txt > count.txt"]),
        attempt("traj-1", ["awk 'tolower($0) ~ /[aeiou]/ {n++} END {print n}' words.txt > count.txt"]),
        attempt("traj-2", SCRIPT),
        attempt("traj-3", ["sed -n '/[aeiouAEIOU]/p' words.txt | wc -l > count.txt", "cat count.txt"]),
    ]
    assert exact_copies(rows) == near_copies(rows) == {}


def test_one_more_look_makes_a_near_copy() -> None:
    rows = [attempt("traj-0", SCRIPT), attempt("traj-1", ["pwd", *SCRIPT])]
    assert exact_copies(rows) == {}
    copy = near_copies(rows)["traj-1"]
    alike = similarity(rows[0].commands_signature, rows[1].commands_signature)
    assert copy.kept_id == "traj-0" and copy.similarity == pytest.approx(alike, abs=0.001)


def test_a_shell_and_a_screen_are_not_compared() -> None:
    rows = [attempt("traj-0", SCRIPT), attempt("traj-1", ["pwd", *SCRIPT], TASK, interface="terminal")]
    assert near_copies(rows) == {}


def test_a_near_copy_needs_a_near_instruction() -> None:
    rows = [attempt("traj-0", SCRIPT), attempt("traj-1", ["pwd", *SCRIPT], "Count lines with vowels.")]
    assert near_copies(rows) == {}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({}, {"by_model": False, "has_thoughts": False, "n_turns": 1}),
        ({}, {"has_thoughts": False, "n_turns": 1}),
        ({"by_model": True, "has_thoughts": False, "n_turns": 9}, {"by_model": False, "has_thoughts": False}),
        ({"n_turns": 3}, {"n_turns": 4}),
    ],
)
def test_the_better_attempt_is_kept_whatever_its_id(better: dict[str, object], worse: dict[str, object]) -> None:
    rows = [attempt("traj-9", SCRIPT, TASK, **better), attempt("traj-0", SCRIPT, TASK, **worse)]
    assert list(exact_copies(rows)) == list(near_copies(rows)) == ["traj-0"]


def test_of_equal_attempts_the_smaller_id_is_kept() -> None:
    assert list(exact_copies([attempt("traj-b", SCRIPT), attempt("traj-a", SCRIPT)])) == ["traj-b"]


def test_attempts_without_commands_are_copies_of_each_other_at_one_task_only() -> None:
    rows = [attempt("traj-0", []), attempt("traj-1", [""]), attempt("traj-2", [], "Another task altogether it is.")]
    assert list(exact_copies(rows)) == ["traj-1"]
    assert list(near_copies(rows)) == ["traj-1"]


def test_of_nothing_nothing_is_a_copy() -> None:
    assert exact_copies([]) == near_copies([]) == near_copies([attempt("traj-0", SCRIPT)]) == {}


def made_up(seed: int, count: int) -> list[Attempted]:
    """Groups of attempts whose signatures agree in 60 to 100 of 100 places with that of their group."""
    rng = np.random.default_rng(seed)
    instructions = rng.integers(0, 2**32, size=(3, PERMUTATIONS))
    groups = rng.integers(0, 2**32, size=(count // 5 + 1, PERMUTATIONS))
    rows = []
    for number in range(count):
        own = groups[number % len(groups)].copy()
        changed = rng.random(PERMUTATIONS) < rng.uniform(0.0, 0.4)
        own[changed] = rng.integers(0, 2**32, size=int(changed.sum()))
        rows.append(
            Attempted(
                trajectory_id=f"traj-{number:04d}",
                commands_sha256=str(number),
                instruction_sha256="",
                commands_signature=signature_bytes(own),
                instruction_signature=signature_bytes(instructions[number % 3]),
                by_model=True,
                has_thoughts=True,
                n_turns=int(rng.integers(1, 5)),
            )
        )
    return rows


def test_buckets_find_the_same_copies_as_comparing_all_with_all() -> None:
    rows = made_up(1, 400)
    kept: list[Attempted] = []
    expected = set()
    for one in sorted(rows, key=lambda row: row.rank):
        if any(
            similarity(one.commands_signature, other.commands_signature) >= 0.8
            and similarity(one.instruction_signature, other.instruction_signature) >= 0.8
            for other in kept
        ):
            expected.add(one.trajectory_id)
        else:
            kept.append(one)
    assert set(near_copies(rows)) == expected
    assert 50 < len(expected) < 350


def test_the_order_of_arrival_makes_no_difference() -> None:
    rows = made_up(2, 300)
    shuffled = random.Random(3).sample(rows, len(rows))
    assert near_copies(rows) == near_copies(shuffled)


def test_what_is_kept_stays_kept_when_worse_attempts_come() -> None:
    rows = made_up(4, 200)
    later = [replace(row, trajectory_id=f"traj-9{n}", n_turns=50) for n, row in enumerate(made_up(4, 300))]
    before, after = near_copies(rows), near_copies([*later, *rows])
    assert {row.trajectory_id for row in rows if row.trajectory_id not in before} == {
        row.trajectory_id for row in rows if row.trajectory_id not in after
    }
