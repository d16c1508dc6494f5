"""What a policy reached at a benchmark: only first attempts count, and those without a verdict are in no rate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigurationError
from pipeline.hierarchy.attempts import COLUMNS
from pipeline.rows import trajectory_row
from pipeline.schemas import Row
from pipeline.snapshots import SnapshotVersion
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.stages.annotating import annotate_all
from pipeline.stages.benchmarks import BenchmarkPublication, publish_benchmark
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import Step, Trajectory
from tests.unit.hierarchical_attempts import ANNOTATOR, KNOWING, game_row, put
from training.benchmark import BenchmarkScore, score


@pytest.fixture
def version(tmp_path: Path) -> SnapshotVersion:
    tasks = {"a": ("seen", "easy"), "b": ("seen", "hard"), "c": ("seen", "hard"), "d": ("unseen", "easy")}
    rows = [
        game_row(f"gold-{name}", instance_id=name, instruction=name, split=split, difficulty=difficulty)
        for name, (split, difficulty) in tasks.items()
    ]
    put(tmp_path, "games", *rows)
    annotate_all(Store(tmp_path), [VersionAttempts(tmp_path, "games", COLUMNS)], KNOWING, Options())
    publication = BenchmarkPublication("textcraft", "games", (ANNOTATOR,), max_steps=30)
    return publish_benchmark(Store(tmp_path), tmp_path, publication, code_commit=None, run_id=None)


def call(purpose: str, asked: int | None, said: int | None) -> Row:
    counts = {"prompt_tokens": asked, "completion_tokens": said}
    told = {"purpose": purpose, "model": "m", "prompt_sha256": "p", "answer": "x", "finish_reason": "stop"}
    return {**told, "seconds": 0.1, **{name: count for name, count in counts.items() if count is not None}}


class Played:
    """Tables of attempts."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root / "attempts")
        self._sequence = 0

    def __call__(
        self, task: str, reached: float, *, sample: int = 0, agent: str = "step_hrl", outcome: str = "", calls: Any = ()
    ) -> None:
        steps = [
            Step(index=at, observation="", action=action, extra={"score": reached, "calls": list(calls) if at else []})
            for at, action in enumerate(("look", "take"))
        ]
        made = Trajectory(
            instance_id=task,
            agent=agent,
            model="m",
            sample=sample,
            steps=tuple(steps),
            stop_reason="done",
            state_reference="",
        )
        self._put("trajectories", trajectory_row(made))
        verdict = outcome or ("passed" if reached == 1 else "failed")
        self._put("verifications", {"trajectory_id": made.trajectory_id, "outcome": verdict})

    def _put(self, table: str, row: Mapping[str, object]) -> None:
        self._sequence += 1
        keyed = {"item_key": str(self._sequence), "attempt": 1, "reason": "", **row}
        self.store.append(table, [keyed], app_id="test", sequence=self._sequence)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def test_each_split_is_scored_for_itself_by_first_attempts(version: SnapshotVersion, played: Played) -> None:
    played("a", 1.0)
    played("b", 0.5)
    played("b", 1.0, sample=1)
    played("d", 1.0)
    played("d", 0.0, agent="bash")
    found = score(version.path, played.store, "step_hrl", "m")
    assert (found.benchmark, found.agent, found.model) == ("hierarchical-textcraft@v0001", "step_hrl", "m")
    held, out = found.splits["id"], found.splits["ood"]
    assert (held.tasks, held.judged, held.passed, held.pass_at_1_at_least) == (3, 2, 1, 0.333)
    assert held.pass_at_1 is not None
    assert (held.pass_at_1.n, held.pass_at_1.mean) == (2, 0.5)
    assert held.final_score is not None
    assert (held.final_score.mean, held.final_score.low, held.final_score.high) == (0.75, 0.5, 1.0)
    assert held.mean_steps == 2
    assert (out.tasks, out.judged, out.passed) == (1, 1, 1)
    assert {name: (part.tasks, part.passed) for name, part in held.by_difficulty.items()} == {
        "easy": (1, 1),
        "hard": (2, 0),
    }
    assert BenchmarkScore.model_validate_json(found.model_dump_json()) == found


def test_an_attempt_without_a_verdict_is_in_no_rate(version: SnapshotVersion, played: Played) -> None:
    played("a", 0.0, outcome="error")
    held = score(version.path, played.store, "step_hrl", "m").splits["id"]
    assert (held.judged, held.pass_at_1, held.final_score, held.mean_steps) == (0, None, None, None)
    assert held.pass_at_1_at_least == 0


def test_tokens_are_told_by_policy(version: SnapshotVersion, played: Played) -> None:
    played("a", 1.0, calls=[call("plan", 100, 5), call("decision", 50, 5)])
    played("b", 0.0, calls=[call("decision", 30, 5), call("progress", None, 5)])
    tokens = score(version.path, played.store, "step_hrl", "m").splits["id"].tokens
    assert {
        name: (one.calls, one.uncounted, one.prompt_tokens, one.completion_tokens) for name, one in tokens.items()
    } == {
        "plan": (1, 0, 100, 5),
        "decision": (2, 0, 80, 10),
        "progress": (1, 1, 0, 0),
    }
    assert {name: one.per_attempt for name, one in tokens.items()} == {"plan": 52.5, "decision": 45, "progress": None}


def test_what_is_no_benchmark_or_lacks_a_split_is_refused(version: SnapshotVersion, played: Played) -> None:
    with pytest.raises(ConfigurationError, match="has no split train; it has id, ood"):
        score(version.path, played.store, "step_hrl", "m", ("train",))
    games = version.path.parent.parent / "games" / "v0001"
    with pytest.raises(ConfigurationError, match="games@v0001 is no benchmark"):
        score(games, played.store, "step_hrl", "m")
