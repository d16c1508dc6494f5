"""Real child processes at one stage, killed, stopped or raced: no row may be lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.journal import Journal
from pipeline.tables import Store

ROOT = Path(__file__).parents[2]
ITEMS = 60

CHILD = """
import signal, sys, time
from pathlib import Path

import pipeline.batch
from pipeline.batch import Item, Outcome, run_stage
from pipeline.errors import ItemRejected
from pipeline.tables import Store

# Whoever started the tests in the background made them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
root, total, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
pipeline.batch.FLUSH_ITEMS = 3


def work(number):
    with (root / "started").open("a") as log:
        log.write(f"{number}\\n")
    time.sleep(seconds)
    if number % 7 == 3:
        raise ItemRejected("odd", str(number))
    return Outcome({"scores": [{"repository_id": f"r{number}"}] * 2, "listings": [{"repository_id": f"r{number}"}]})


def failed(number, failure):
    return {"scores": [{"repository_id": f"r{number}"}]}


items = [Item(f"k{number}", number) for number in range(total)]
print("ready", flush=True)
report = run_stage("stage", items, work, store=Store(root), failed_rows=failed, workers=3)
print(report.skipped, report.done, report.failed.get("odd", 0))
"""


def child(root: Path, seconds: float = 0.004, total: int = ITEMS) -> subprocess.Popen[str]:
    root.mkdir(exist_ok=True)
    arguments = [sys.executable, "-c", CHILD, str(root), str(total), str(seconds)]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def recorded(root: Path) -> set[str]:
    with Journal(root) as journal:
        return {entry.key for entry in journal.find("k")}


def started(root: Path) -> Counter[str]:
    log = root / "started"
    return Counter(f"k{line}" for line in log.read_text().split()) if log.exists() else Counter()


def assert_whole(root: Path, total: int = ITEMS) -> None:
    """Every row of every item is in the tables exactly once."""
    store = Store(root)
    odd = {f"r{n}" for n in range(total) if n % 7 == 3}
    scores = Counter(store.read("scores").column("repository_id").to_pylist())
    assert scores == {f"r{n}": 1 if f"r{n}" in odd else 2 for n in range(total)}
    listings = Counter(store.read("listings").column("repository_id").to_pylist())
    assert listings == {f"r{n}": 1 for n in range(total) if f"r{n}" not in odd}


def test_no_row_is_lost_or_doubled_when_a_stage_is_killed_ten_times(tmp_path: Path) -> None:
    seed = random.randrange(10_000)
    chance = random.Random(seed)
    killed = 0
    for _ in range(10):
        process = child(tmp_path)
        before = recorded(tmp_path)
        time.sleep(chance.uniform(0, 0.06))
        killed += process.poll() is None
        process.kill()
        process.communicate(timeout=20)
        now = recorded(tmp_path)
        assert before <= now, f"seed {seed}: the journal forgot items"
    output, errors = child(tmp_path).communicate(timeout=60)
    assert output.split()[1:] == ["51", "9"], f"seed {seed}: {errors}"
    assert killed >= 5, f"seed {seed}: too few kills hit a living process"
    assert_whole(tmp_path)
    again, _ = child(tmp_path).communicate(timeout=60)
    assert again.split() == ["60", "51", "9"]
    assert_whole(tmp_path)


def test_a_recorded_item_is_not_done_again_after_a_kill(tmp_path: Path) -> None:
    process = child(tmp_path, seconds=0.02)
    while len(recorded(tmp_path)) < 10:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=20)
    kept = recorded(tmp_path)
    child(tmp_path).communicate(timeout=60)
    assert {key: count for key, count in started(tmp_path).items() if key in kept and count > 1} == {}
    assert_whole(tmp_path)


def test_a_kill_between_append_and_acknowledgement_doubles_nothing(tmp_path: Path) -> None:
    dies_after_append = CHILD.replace(
        "items = [",
        "import os\nfrom pipeline.journal import Journal\n"
        "Journal.flushed = lambda *_: os.kill(os.getpid(), 9)\nitems = [",
    )
    arguments = [sys.executable, "-c", dies_after_append, str(tmp_path), str(ITEMS), "0"]
    assert subprocess.run(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60).returncode == -signal.SIGKILL
    assert Store(tmp_path).read("scores").num_rows > 0
    child(tmp_path).communicate(timeout=60)
    assert_whole(tmp_path)


def test_two_processes_at_one_stage_do_no_item_twice(tmp_path: Path) -> None:
    pair = [child(tmp_path), child(tmp_path)]
    outputs = [process.communicate(timeout=60)[0].split() for process in pair]
    assert sorted(output[0] for output in outputs) == ["0", "60"]
    assert started(tmp_path) == {f"k{number}": 1 for number in range(ITEMS)}
    assert_whole(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_what_is_finished_and_starts_nothing_more(tmp_path: Path, number: signal.Signals) -> None:
    # Long enough that a busy machine does not finish all of them before the signal.
    process = child(tmp_path, seconds=0.5)
    while len(started(tmp_path)) < 6:
        time.sleep(0.01)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -number, errors
    begun = set(started(tmp_path))
    assert 6 <= len(begun) < ITEMS
    assert recorded(tmp_path) == begun
    in_tables = set(Store(tmp_path).read("scores").column("item_key").to_pylist())
    assert in_tables == begun


def test_a_second_signal_ends_a_stage_whose_item_hangs(tmp_path: Path) -> None:
    process = child(tmp_path, seconds=600)
    while len(started(tmp_path)) < 3:
        time.sleep(0.01)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - began < 5
