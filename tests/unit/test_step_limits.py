"""Limits of steps in both versions of control groups, written to plain folders that look like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.building.step_limits import StepGroups
from sandbox.errors import SandboxUnavailable
from sandbox.types import BuildLimits

LIMITS = BuildLimits(memory_mb=100, cpus=1.5, pids=7)


def groups(controllers: dict[str, Path], lock: Path) -> StepGroups:
    roots = tuple(dict.fromkeys(controllers.values()))
    return StepGroups(controllers=controllers, roots=roots, parent="ours", buildkit="ours/buildkit", lock=lock)


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_the_first_version_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    controllers = {name: tmp_path / name for name in ("pids", "memory", "cpu")}
    for root in controllers.values():
        root.mkdir()
    with groups(controllers, tmp_path / "lock").of_buildkit(LIMITS):
        assert written(tmp_path / "pids/ours/buildkit") == {"pids.max": "7"}
        assert written(tmp_path / "memory/ours/buildkit") == {"memory.limit_in_bytes": str(100 << 20)}
        assert written(tmp_path / "cpu/ours/buildkit") == {
            "cpu.cfs_period_us": "100000",
            "cpu.cfs_quota_us": "150000",
        }


def test_the_second_version_hands_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    with groups(dict.fromkeys(("pids", "memory", "cpu"), tmp_path), tmp_path / "lock").of_buildkit(LIMITS):
        assert written(tmp_path / "ours/buildkit") == {
            "pids.max": "7",
            "memory.max": str(100 << 20),
            "memory.swap.max": "0",
            "cpu.max": "150000 100000",
        }
        for above in (tmp_path, tmp_path / "ours"):
            assert "cgroup.subtree_control" in written(above)


def test_a_build_without_limits_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("in the way")
    with (
        pytest.raises(SandboxUnavailable, match="ours/buildkit"),
        groups(dict.fromkeys(("pids", "memory", "cpu"), tmp_path), tmp_path / "lock").of_buildkit(LIMITS),
    ):
        pytest.fail("it started")
