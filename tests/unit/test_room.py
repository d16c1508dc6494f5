"""Who may build at a time: places shared by threads and processes, and what is removed first."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sandbox.building.room import Free, OutOfSpace, Slots, fits
from sandbox.errors import SandboxUnavailable
from sandbox.types import BuildLimits

LIMITS = BuildLimits(memory_mb=1000, disk_mb=1000)
PLENTY = Free(cores=2, memory_mb=100_000, disk_mb=100_000)
ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import sys
from pathlib import Path
from sandbox.building.room import Free, Slots
from sandbox.types import BuildLimits

with Slots(Path(sys.argv[1])).taken(BuildLimits(), lambda: Free(1, None, None), lambda: None):
    print("in", flush=True)
    sys.stdin.read()
"""


def start(folder: Path) -> subprocess.Popen[str]:
    """Another process that wants the only place there is."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.communicate(timeout=20)


def take(folder: Path, free: Free = PLENTY, limits: BuildLimits = LIMITS) -> threading.Thread:
    """A thread that takes a place, gives it back at once and ends."""

    def run() -> None:
        with Slots(folder).taken(limits, lambda: free, lambda: None):
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def nothing() -> None:
    """Nothing is to be done before a build that runs alone."""


class TestFits:
    def test_one_build_a_core(self) -> None:
        assert fits(LIMITS, [LIMITS], PLENTY)
        assert not fits(LIMITS, [LIMITS, LIMITS], PLENTY)

    @pytest.mark.parametrize(("field", "enough"), [("memory_mb", 2000), ("disk_mb", 2000)])
    def test_what_is_free_must_be_enough_for_those_that_run_and_for_this_one(self, field: str, enough: int) -> None:
        assert fits(LIMITS, [LIMITS], Free(**{**vars(PLENTY), field: enough}))
        assert not fits(LIMITS, [LIMITS], Free(**{**vars(PLENTY), field: enough - 1}))

    def test_what_cannot_be_told_is_no_hindrance(self) -> None:
        assert fits(LIMITS, [LIMITS], Free(cores=2, memory_mb=None, disk_mb=None))


class TestSlots:
    def test_places_are_taken_side_by_side_up_to_the_number_of_cores(self, tmp_path: Path) -> None:
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(Slots(tmp_path).taken(LIMITS, lambda: PLENTY, nothing))
            third = take(tmp_path)
            third.join(0.5)
            assert third.is_alive()
            stack.pop_all().close()
            third.join(10)
            assert not third.is_alive()

    def test_a_place_is_given_back_when_the_build_fails(self, tmp_path: Path) -> None:
        with pytest.raises(KeyError), Slots(tmp_path).taken(LIMITS, lambda: PLENTY, nothing):
            raise KeyError
        assert list(tmp_path.glob("*.slot")) == []

    def test_a_lone_build_starts_whatever_is_free_once_space_was_made(self, tmp_path: Path) -> None:
        asked = []
        with Slots(tmp_path).taken(LIMITS, lambda: Free(0, 0, 0), lambda: asked.append("alone")):
            assert asked == ["alone"]

    def test_no_space_is_made_while_another_build_runs(self, tmp_path: Path) -> None:
        asked: list[str] = []
        with (
            Slots(tmp_path).taken(LIMITS, lambda: PLENTY, nothing),
            Slots(tmp_path).taken(LIMITS, lambda: PLENTY, lambda: asked.append("alone")),
        ):
            assert asked == []

    def test_a_build_without_space_takes_no_place_and_keeps_nobody_out(self, tmp_path: Path) -> None:
        def refuse() -> None:
            raise OutOfSpace("1 MB is free")

        with pytest.raises(OutOfSpace), Slots(tmp_path).taken(LIMITS, lambda: PLENTY, refuse):
            raise AssertionError("a place was given")
        with Slots(tmp_path).taken(LIMITS, lambda: PLENTY, nothing):
            pass

    def test_another_process_waits(self, tmp_path: Path) -> None:
        with Slots(tmp_path).taken(BuildLimits(), lambda: PLENTY, nothing):
            child = start(tmp_path)
            arrived = threading.Event()
            threading.Thread(target=lambda: (child.stdout.readline(), arrived.set()), daemon=True).start()
            early = arrived.wait(1)
        with ended(child):
            assert not early
            assert arrived.wait(20)

    def test_a_killed_process_leaves_its_place_to_others(self, tmp_path: Path) -> None:
        child = start(tmp_path)
        with ended(child):
            assert child.stdout is not None
            assert child.stdout.readline() == "in\n"
            waiting = take(tmp_path, Free(1, None, None))
            waiting.join(0.5)
            assert waiting.is_alive()
            os.kill(child.pid, signal.SIGKILL)
            waiting.join(20)
            assert not waiting.is_alive()
        assert list(tmp_path.glob("*.slot")) == []

    def test_a_process_killed_while_it_waits_keeps_nobody_out(self, tmp_path: Path) -> None:
        with Slots(tmp_path).taken(LIMITS, lambda: PLENTY, nothing):
            child = start(tmp_path)
            with ended(child):
                until_locked(tmp_path / "door.lock")
            follower = take(tmp_path)
            follower.join(20)
            assert not follower.is_alive()

    def test_nobody_is_overtaken(self, tmp_path: Path) -> None:
        small = BuildLimits(memory_mb=1, disk_mb=1)
        tight = Free(cores=8, memory_mb=1500, disk_mb=1500)
        with Slots(tmp_path).taken(LIMITS, lambda: tight, nothing):
            first = take(tmp_path, tight, LIMITS)
            until_locked(tmp_path / "door.lock")
            second = take(tmp_path, tight, small)
            second.join(0.5)
            assert first.is_alive() and second.is_alive()
        for thread in (first, second):
            thread.join(20)
            assert not thread.is_alive()

    def test_a_folder_that_cannot_be_written_is_our_own_fault_and_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with (
            pytest.raises(SandboxUnavailable, match="file"),
            Slots(tmp_path / "file").taken(LIMITS, lambda: PLENTY, nothing),
        ):
            pass


def until_locked(path: Path) -> None:
    """Wait until somebody holds a lock file."""
    give_up = time.monotonic() + 20
    while True:
        with path.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        assert time.monotonic() < give_up, f"nobody holds {path}"
        time.sleep(0.02)
