"""Which attempts are published: each rule, one reason for each that is not, whatever the order of attempts."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.curation.benchmark_overlap import Overlap
from pipeline.curation.copies import PERMUTATIONS, Attempted, signature_bytes
from pipeline.curation.decisions import STEPS, Candidate, Context, Curated, DatasetConfig, Decisions, Excluded, decide
from pipeline.curation.decontamination import Contamination
from pipeline.curation.deny_list import Denied, still_published
from pipeline.curation.reviews import Review, read_reviews
from pipeline.curation.signatures import minhash
from pipeline.errors import ConfigurationError
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import publish

CLEAN = Contamination(decision="clean")
NEAR = Contamination(decision="review", task="held-1", reason="shares with held-1: 'so many words'")
BAD = Contamination(decision="drop", task="held-2", reason="similarity 0.90 with held-2")


def curated(name: str, text: str, *, task: str = "do it", n_turns: int = 3) -> Curated:
    words = [f"{text}{i}" for i in range(20)]
    attempted = Attempted(
        trajectory_id=name,
        commands_sha256=text,
        instruction_sha256=task,
        commands_signature=signature_bytes(minhash(words, PERMUTATIONS).hashvalues),
        instruction_signature=signature_bytes(minhash([task], PERMUTATIONS).hashvalues),
        by_model=True,
        has_thoughts=True,
        n_turns=n_turns,
    )
    return Curated(attempted, (), "")


def candidate(number: int, **facts: object) -> Candidate:
    name = f"traj-{number:03d}"
    made = Candidate(
        trajectory_id=name,
        instance_id=f"task-{number:03d}",
        source="registry",
        full_name="debian/gron",
        license="MIT",
        no_license="",
        contexts=(),
        task=CLEAN,
        curated=curated(name, f"own{number}"),
    )
    return replace(made, **facts)  # type: ignore[arg-type]


DEFAULT = DatasetConfig()


def alone(one: Candidate, config: DatasetConfig = DEFAULT, **reviews: Review) -> Excluded | None:
    """What becomes of one attempt; None when it is kept."""
    found = decide([one], config, {review.id: review for review in reviews.values()})
    assert len(found.kept) + len(found.excluded) == 1
    return found.excluded[0] if found.excluded else None


def review(decision: str, of: str = "traj-001") -> Review:
    return Review.model_validate({"id": of, "decision": decision, "who": "ada", "why": "a known idiom"})


def test_an_attempt_with_nothing_against_it_is_kept() -> None:
    assert alone(candidate(1)) is None


@pytest.mark.parametrize("pattern", ["debian/gron", "registry/debian/gron", "Debian/Gron", "debian/*", "registry/*"])
def test_a_denied_repository_is_out_with_reason_and_date(pattern: str) -> None:
    config = DatasetConfig(deny=(Denied(repository=pattern, why="dmca", date=date(2026, 11, 2), note="notice 7"),))
    assert alone(candidate(1), config) == Excluded(
        "traj-001", "denied", "debian/gron is denied (dmca, 2026-11-02): notice 7"
    )


@pytest.mark.parametrize("pattern", ["gron", "debian/gro", "local/debian/gron", "debian/gron/x"])
def test_another_repository_is_not_denied(pattern: str) -> None:
    config = DatasetConfig(deny=(Denied(repository=pattern, why="owner", date=date(2026, 11, 2)),))
    assert alone(candidate(1), config) is None


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"license": "GPL-3.0"}, "debian/gron is under GPL-3.0, which is not allowed"),
        ({"license": None}, "the licence of debian/gron is not known: no licence was recognised"),
        (
            {"license": None, "no_license": "several licences: GPL-2.0, MIT"},
            "the licence of debian/gron is not known: several licences: GPL-2.0, MIT",
        ),
        ({"contexts": (Context("manual", "GFDL-1.3"),)}, "the context manual is under GFDL-1.3, which is not allowed"),
        ({"contexts": (Context("data", "MIT"), Context("x", None))}, "the context x has no known licence"),
    ],
)
def test_what_is_under_no_allowed_licence_is_out(facts: dict[str, object], reason: str) -> None:
    assert alone(candidate(1, **facts)) == Excluded("traj-001", "licence", reason)


def test_the_allowed_licences_can_be_others() -> None:
    config = DatasetConfig(licences=("GPL-3.0",))
    assert alone(candidate(1, license="GPL-3.0"), config) is None
    assert alone(candidate(1, license="MIT"), config) is not None


@pytest.mark.parametrize("license_", ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC"])
def test_permissive_licences_are_allowed_without_a_word(license_: str) -> None:
    assert alone(candidate(1, license=license_)) is None


def test_a_task_that_is_too_near_to_a_benchmark_is_out_and_no_review_brings_it_back() -> None:
    expected = Excluded("traj-001", "contaminated", "similarity 0.90 with held-2", "held-2")
    assert alone(candidate(1, task=BAD)) == alone(candidate(1, task=BAD), r=review("keep")) == expected


def test_an_attempt_that_quotes_a_benchmark_is_out_though_its_task_is_clean() -> None:
    quoting = replace(curated("traj-001", "own"), overlaps=(Overlap(task="held-9", part="commands", similarity=0.7),))
    found = alone(candidate(1, curated=quoting))
    assert found is not None and (found.step, found.other) == ("contaminated", "held-9")


def test_what_waits_for_a_review_is_out_and_in_the_queue() -> None:
    found = decide([candidate(1, task=NEAR)], DEFAULT, {})
    assert [(one.step, one.reason) for one in found.excluded] == [
        ("contaminated", "waits for review: shares with held-1: 'so many words'")
    ]
    assert [(one.trajectory_id, one.instance_id, one.task) for one in found.queue] == [
        ("traj-001", "task-001", "held-1")
    ]


@pytest.mark.parametrize("of", ["traj-001", "task-001"])
def test_a_review_keeps_or_drops_and_empties_the_queue(of: str) -> None:
    near = candidate(1, task=NEAR)
    assert alone(near, r=review("keep", of)) is None
    dropped = alone(near, r=review("drop", of))
    assert dropped is not None and dropped.reason == "dropped in review by ada: a known idiom"
    assert decide([near], DEFAULT, {of: review("drop", of)}).queue == ()


def test_the_review_of_an_attempt_goes_before_that_of_its_task() -> None:
    near = candidate(1, task=NEAR)
    assert alone(near, a=review("keep"), b=review("drop", "task-001")) is None


def test_what_is_out_for_its_licence_is_not_in_the_queue() -> None:
    assert decide([candidate(1, task=NEAR, license=None)], DEFAULT, {}).queue == ()


def test_what_cannot_be_scrubbed_or_was_not_looked_through_is_out() -> None:
    unsafe = replace(curated("traj-001", "own"), unscrubbable="its verifier needs a key")
    assert alone(candidate(1, curated=unsafe)) == Excluded("traj-001", "scrub", "its verifier needs a key")
    assert alone(candidate(1, curated=None)) == Excluded("traj-001", "scrub", "it was not looked through")
    failed = candidate(1, curated=None, uncurated="it could not be looked through: TimeoutError")
    assert alone(failed) == Excluded("traj-001", "scrub", "it could not be looked through: TimeoutError")


def test_copies_are_out_and_name_what_is_kept() -> None:
    rows = [candidate(i, curated=curated(f"traj-{i:03d}", "same", n_turns=9 - i)) for i in (1, 2)]
    near = replace(curated("traj-003", "same"), attempted=replace(rows[0].curated.attempted, commands_sha256="x"))  # type: ignore[union-attr]
    near = replace(near, attempted=replace(near.attempted, trajectory_id="traj-003"))
    found = decide([*rows, candidate(3, curated=near)], DEFAULT, {})
    assert found.kept == ("traj-002",)
    assert found.excluded == (
        Excluded("traj-001", "exact_copy", "the same commands for the same instruction as traj-002", "traj-002"),
        Excluded("traj-003", "near_copy", "commands as in traj-002, similarity 1.00", "traj-002"),
    )


def test_an_attempt_that_is_out_before_holds_no_place() -> None:
    best = candidate(1, license=None, curated=curated("traj-001", "same", n_turns=1))
    assert decide([best, candidate(2, curated=curated("traj-002", "same"))], DEFAULT, {}).kept == ("traj-002",)


def mixed() -> st.SearchStrategy[list[Candidate]]:
    """Attempts with everything against them, alone and together."""
    facts: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
        {
            "full_name": st.sampled_from(["debian/gron", "own/denied"]),
            "license": st.sampled_from(["MIT", "ISC", "GPL-3.0", None]),
            "task": st.sampled_from([CLEAN, CLEAN, NEAR, BAD]),
            "text": st.sampled_from([f"own{i}" for i in range(8)]),
            "n_turns": st.integers(1, 3),
            "unscrubbable": st.sampled_from(["", "", "it needs a key"]),
            "seen": st.booleans(),
        }
    )
    return st.lists(facts, max_size=25).map(lambda rows: [_of(i, row) for i, row in enumerate(rows)])


def _of(number: int, row: dict[str, object]) -> Candidate:
    name = f"traj-{number:03d}"
    found = curated(name, str(row.pop("text")), n_turns=int(str(row.pop("n_turns"))))
    found = replace(found, unscrubbable=str(row.pop("unscrubbable")))
    return candidate(number, curated=found if row.pop("seen") else None, **row)


CONFIG = DatasetConfig(deny=(Denied(repository="own/denied", why="owner", date=date(2026, 11, 2)),))


@settings(max_examples=60, deadline=None)
@given(rows=mixed(), seed=st.integers(0, 100))
def test_every_attempt_is_kept_or_out_for_one_reason_in_any_order(rows: list[Candidate], seed: int) -> None:
    found = decide(rows, CONFIG, {})
    assert found == decide(random.Random(seed).sample(rows, len(rows)), CONFIG, {})
    out = [one.trajectory_id for one in found.excluded]
    assert sorted([*found.kept, *out]) == [one.trajectory_id for one in rows]
    assert all(one.reason and one.step in STEPS for one in found.excluded)
    _adds_up(found, len(rows))


def _adds_up(found: Decisions, count: int) -> None:
    assert tuple(one.step for one in found.steps) == STEPS
    for step in found.steps:
        assert step.came == count and step.left == step.came - step.excluded
        assert step.excluded == sum(one.step == step.step for one in found.excluded)
        count = step.left
    assert count == len(found.kept)


def test_reviews_are_read_and_the_last_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text('id,decision,who,why\ntraj-1,drop,ada,\ntraj-1, keep ,bob,"an idiom, no solution"\n')
    assert read_reviews(path) == {
        "traj-1": Review(id="traj-1", decision="keep", who="bob", why="an idiom, no solution")
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "its first line has to be id,decision,who,why"),
        ("trajectory,decision\n", "its first line has to be id,decision,who,why"),
        ("id,decision,who,why\ntraj-1,maybe,ada,\n", "line 2, column decision"),
        ("id,decision,who,why\nx,keep,ada,\n", "line 2, column id"),
        ("id,decision,who,why\ntraj-1,keep\n", "line 2, column who"),
        ("id,decision,who,why\ntraj-1,keep,ada,why,more\n", "line 2: it has more than"),
    ],
)
def test_a_faulty_file_of_reviews_is_refused_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=fault):
        read_reviews(path)


def test_a_missing_file_of_reviews_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"reviews\.csv cannot be read"):
        read_reviews(tmp_path / "reviews.csv")


def test_published_versions_that_hold_denied_rows_are_named(tmp_path: Path) -> None:
    for names in (["own/fine"], ["own/fine", "own/Denied", "own/Denied"]):
        rows = [
            {"trajectory_id": f"traj-{i}", "source": "local", "full_name": name, "license": "MIT", "split": "train"}
            for i, name in enumerate(names)
        ]
        publish(
            tmp_path,
            "terminal",
            to_arrow(TERMINAL, rows),
            schema_version=1,
            parents=[],
            code_commit=None,
            run_id=None,
            summary={},
            describe=lambda draft: {"README.md": b"# Rows\n"},
        )
    assert still_published(tmp_path, "terminal", CONFIG.deny) == {"v0002": 2}
    assert still_published(tmp_path, "terminal", ()) == {}
