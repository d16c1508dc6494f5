"""From games to benchmarks: two games are played in their own processes, their attempts published, divided into
sub-goals, published again as data sets, and a benchmark is scored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pipeline.hierarchy.columns import DATASETS
from pipeline.snapshots import batches, check, locate, manifest_of, versions

PROJECT = Path(__file__).parents[2]
SETTINGS = """
workers = 2
[environments]
games = ["textcraft", "webshop"]
per_split = {per_split}
processes = 1
"""


def said(options: list[str], *arguments: str, code: int = 0) -> str:
    """What the command printed, in a process of its own: its assets keep the data folder that they were loaded with."""
    command = [sys.executable, "-c", "from assets.cli import main; main()", *arguments, *options]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=300, check=False)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout if code == 0 else " ".join((answer.stdout + answer.stderr).split())


def rows(data: Path, reference: str) -> list[dict[str, object]]:
    return [row for batch in batches(locate(data, reference)) for row in batch.to_pylist()]


def score(options: list[str], agent: str) -> dict[str, dict[str, object]]:
    answer = said(options, "benchmark", "hierarchical-textcraft", "--agent", agent, "--json")
    found: dict[str, dict[str, object]] = json.loads(answer.splitlines()[-1])["splits"]
    return found


def test_games_become_versions_and_data_sets_of_hierarchies_and_a_scored_benchmark(
    options: list[str], tmp_path: Path
) -> None:
    data, settings = tmp_path / "data", tmp_path / "touchstone.toml"
    settings.write_text(SETTINGS.format(per_split=2))
    assert "games v0001" in said(options, "environments", "play")
    played = rows(data, "games")
    assert {(row["full_name"], row["split"]) for row in played} == {
        (f"environment/{game}", split) for game in ("textcraft", "webshop") for split in ("train", "seen", "unseen")
    }
    assert all(row["verified"] for row in played if row["agent"] == "oracle")
    assert len(played) > len([row for row in played if row["agent"] == "oracle"]) >= 11

    said(options, "hierarchy")
    for name in DATASETS:
        assert check(locate(data, name)) == []
        assert manifest_of(locate(data, name)).parents == ("games@v0001",)
    low = rows(data, "step_low")
    assert {row["env"] for row in low} == {"textcraft", "webshop"}
    steps = {row["trajectory_id"]: sum(bool(s["action"]) for s in row["steps"]) for row in played}  # type: ignore[attr-defined]
    assert len(low) == sum(steps.values())

    oracle = score(options, "oracle")
    assert [split["pass_at_1"]["mean"] for split in oracle.values()] == [1.0, 1.0]  # type: ignore[index]
    assert [split["pass_at_1"]["mean"] for split in score(options, "noop").values()] == [0.0, 0.0]  # type: ignore[index]

    # The same again is nothing new; another task makes a new version of all that comes after it.
    said(options, "environments", "play")
    said(options, "hierarchy")
    assert [len(versions(data, name)) for name in ("games", "system1", "hierarchical-textcraft")] == [1, 1, 1]
    settings.write_text(SETTINGS.format(per_split=3))
    said(options, "environments", "play")
    said(options, "hierarchy")
    assert manifest_of(locate(data, "step_progress")).parents == ("games@v0002",)
    assert [len(versions(data, name)) for name in ("games", "system1", "hierarchical-textcraft")] == [2, 2, 2]


def test_what_is_missing_is_said_with_its_remedy(options: list[str], tmp_path: Path) -> None:
    assert "touchstone environments play" in said(options, "hierarchy", code=1)
    answer = said(options, "benchmark", "hierarchical-textcraft", code=2)
    assert "the job `hierarchy` publishes the benchmarks" in answer
    assert "there is no agent 'nobody'" in said(options, "benchmark", "x", "--agent", "nobody", code=2)
    (tmp_path / "touchstone.toml").write_text('[environments]\ngames = ["chess"]\n')
    assert "there is no game chess" in said(options, "environments", "tasks", code=2)
