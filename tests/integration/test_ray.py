"""The stages on a Ray cluster of two nodes, each with an engine of its own: one is lost, images travel, states stay."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import docker
import pytest

from assets.resources import MACHINE_VARIABLE, Workshop
from pipeline.attempts import Attempt
from pipeline.batch import PROGRESS_LOGGER
from pipeline.cluster import RESOURCE, RayCluster
from pipeline.errors import ConfigurationError
from pipeline.rollout import RolloutConfig
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.tables import Store
from pipeline.verification import STATE_REGAINED
from sandbox.engine import connect
from tests.bench.cluster import attempts, shared_image, task, workshop
from tests.integration.projects import FRUIT, PROJECT, Project, ledger, word_tools
from tests.integration.two_nodes import TwoNodes, patiently, seed, two_nodes

pytestmark = [pytest.mark.ray, pytest.mark.docker]

SLOTS = 3


@pytest.fixture(scope="module")
def nodes(data_folder: Path) -> Iterator[TwoNodes]:
    if os.geteuid() != 0:
        pytest.skip("only root can start the engines of two nodes")
    with two_nodes(data_folder, SLOTS) as found:
        yield found


@pytest.fixture
def both(nodes: TwoNodes) -> Iterator[list[object]]:
    """Both nodes in the cluster; those that are still there leave it afterwards."""
    joined = [nodes.join(0), nodes.join(1)]
    yield joined
    for node in list(nodes.cluster.worker_nodes):
        nodes.cluster.remove_node(node)


@pytest.fixture
def shop(nodes: TwoNodes, data_folder: Path, tmp_path: Path) -> Iterator[Workshop]:
    made = workshop(nodes, tmp_path, data_folder)
    yield made
    machines = made.machines()
    assert isinstance(machines, RayCluster)
    machines.close()


def when_slots(shop: Workshop, wanted: int) -> Options:
    machines = shop.machines()
    assert machines is not None
    deadline = time.monotonic() + 240
    while machines.slots() != wanted:
        assert time.monotonic() < deadline, f"{machines.slots()} slots, {wanted} are wanted"
        time.sleep(0.2)
    return Options(machines=machines)


class AtFirst(logging.Handler):
    """Calls something once, when a first item of a stage is done: the others are at work then."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._calls = [call]

    def emit(self, record: logging.LogRecord) -> None:
        if self._calls and hasattr(record, "progress"):
            self._calls.pop()()


def test_a_node_is_killed_in_the_middle_and_every_attempt_is_made_and_judged_once(
    nodes: TwoNodes, both: list[object], shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    image = shared_image(nodes)
    options, store = when_slots(shop, 2 * SLOTS), shop.store()
    wanted = attempts(image, range(24), latency_s=1.0)
    caplog.set_level(logging.INFO, logger=PROGRESS_LOGGER)
    killing = AtFirst(lambda: nodes.kill(both[0]))
    logging.getLogger(PROGRESS_LOGGER).addHandler(killing)
    try:
        report = roll_out(store, wanted, shop.backend(), RolloutConfig(), options)
    finally:
        logging.getLogger(PROGRESS_LOGGER).removeHandler(killing)
    assert (report.total, report.done, report.failed) == (24, 24, {})
    rows = to_rows(store.read("trajectories"))
    assert Counter(str(row["trajectory_id"]) for row in rows) == {one.trajectory_id: 1 for one in wanted}
    assert {row["attempt"] for row in rows} == {1}

    judged = verify_all(store, [task(image)], shop.backend(), options, command_timeout_s=60)
    assert (judged.done, judged.failed) == (24, {})
    verdicts = to_rows(store.read("verifications"))
    assert [row["outcome"] for row in verdicts] == ["passed"] * 24
    assert len({row["trajectory_id"] for row in verdicts}) == 24
    # What the lost node had frozen is made again, what the other one has is judged there.
    regained = [row for row in verdicts if STATE_REGAINED in list(row["integrity"] or ())]  # type: ignore[call-overload]
    assert len(regained) < 20
    assert any("was lost" in record.getMessage() for record in caplog.records)


def test_the_states_of_attempts_are_judged_where_they_are_and_let_go_there(
    nodes: TwoNodes, both: list[object], shop: Workshop
) -> None:
    image = shared_image(nodes)
    options, store = when_slots(shop, 2 * SLOTS), shop.store()
    wanted = attempts(image, range(8), latency_s=0.2)
    roll_out(store, wanted, shop.backend(), RolloutConfig(), options)
    assert sum(kept(shop, wanted)) == 8 and all(kept(shop, wanted))
    verify_all(store, [task(image)], shop.backend(), options, command_timeout_s=60)
    verdicts = to_rows(store.read("verifications"))
    assert [(row["outcome"], list(row["integrity"] or ())) for row in verdicts] == [("passed", [])] * 8  # type: ignore[call-overload]
    assert kept(shop, wanted) == [0, 0]


def kept(shop: Workshop, wanted: Sequence[Attempt]) -> list[int]:
    """How many states of these attempts each of the two machines has."""
    machines = shop.machines()
    assert machines is not None
    found = machines.everywhere(shop.backend().states)
    assert len(found) == 2
    return [len(states & {one.trajectory_id for one in wanted}) for states in found.values()]


def test_a_node_that_joins_while_a_stage_runs_is_used(nodes: TwoNodes, shop: Workshop) -> None:
    image = shared_image(nodes)
    first = nodes.join(0)
    try:
        options, store = when_slots(shop, SLOTS), shop.store()
        wanted = attempts(image, range(60), latency_s=1.0)
        joining = AtFirst(lambda: nodes.join(1))
        logger = logging.getLogger(PROGRESS_LOGGER)
        logger.setLevel(logging.INFO)
        logger.addHandler(joining)
        try:
            roll_out(store, wanted, shop.backend(), RolloutConfig(), options)
        finally:
            logger.removeHandler(joining)
        assert sum(kept(shop, wanted)) == 60 and all(kept(shop, wanted))
    finally:
        for node in [first, *nodes.cluster.worker_nodes]:
            if node in nodes.cluster.worker_nodes:
                nodes.cluster.remove_node(node)


def test_the_main_job_builds_attempts_and_judges_on_two_machines(
    nodes: TwoNodes, both: list[object], data_folder: Path, make_project: Callable[[str], Project]
) -> None:
    seed(data_folder, nodes.machines, ("fetch", "python"))
    project = make_project("spread")
    project.settings = nodes.settings
    project.add("fruit", word_tools("fruit", FRUIT))
    project.add("ledger", ledger("ledger"))
    project.touchstone("run", "--streams", "python")
    store = Store(project.data)
    builds = to_rows(store.read("image_builds"))
    usable = [row for row in builds if row["smoke_ok"]]
    images = {str(row["image_digest"]) for row in usable}
    assert len(images) == 2
    assert all(str(row["registry_reference"]).startswith(nodes.registry) for row in usable)
    engines = [connect(machine) for machine in nodes.machines]
    ours = connect(project.data)
    assert not any(_has(ours, image) for image in images)
    assert all(any(_has(client, image) for client in engines) for image in images)
    status = project.status()
    assert status["rollouts"] == 2 * int(str(status["instances_admitted"])) > 4
    assert status["trajectories_verified"] == status["instances_admitted"]
    assert {row["reason"] for row in to_rows(store.read("verifications"))} == {""}
    for client in [*engines, ours]:
        client.close()


def _has(client: docker.DockerClient, image: str) -> bool:
    try:
        client.api.inspect_image(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def test_a_node_without_a_folder_of_its_own_stops_the_run_with_the_remedy(nodes: TwoNodes, shop: Workshop) -> None:
    node = patiently(lambda: nodes.cluster.add_node(num_cpus=1, resources={RESOURCE: 1}))
    try:
        options = when_slots(shop, 1)
        with pytest.raises(ConfigurationError, match=MACHINE_VARIABLE):
            roll_out(shop.store(), attempts("sha256:0", range(1), 0.0), shop.backend(), RolloutConfig(), options)
    finally:
        nodes.cluster.remove_node(node)


def test_a_cluster_without_any_node_that_takes_work_is_refused(nodes: TwoNodes, shop: Workshop) -> None:
    machines = shop.machines()
    assert machines is not None
    with pytest.raises(ConfigurationError, match=RESOURCE):
        machines.slots()


DRIVER = """
import sys, time
from pathlib import Path
from pipeline.batch import Item, Outcome
from pipeline.cluster import ClusterConfig, RayCluster
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store

address, root = sys.argv[1:]

def work(number):
    time.sleep(1.0)
    return Outcome({"scores": [{"repository_id": str(number), "score": 0.5}]})

def failed_rows(number, failure):
    return {"scores": [{"repository_id": str(number)}]}

machines = RayCluster(ClusterConfig(address=address), lambda: print, lambda thing: None)
items = [Item(str(number), number) for number in range(30)]
report = over_items(
    "s", items, work, store=Store(Path(root)), failed_rows=failed_rows, options=Options(), machines=machines
)
print(report.skipped, report.done)
"""


def test_a_signal_ends_a_run_in_good_order_and_the_next_one_goes_on(
    nodes: TwoNodes, both: list[object], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", DRIVER, nodes.address, str(tmp_path)]
    store, journal = Store(tmp_path), tmp_path / "tables" / "journal.sqlite"
    first = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (journal.exists() and settled(journal)):
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == -signal.SIGTERM
    done = store.current("scores").num_rows
    assert 0 < done < 30
    second = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=True)
    assert second.stdout.split()[-2:] == [str(done), "30"]
    rows = to_rows(store.read("scores"))
    assert sorted(int(str(row["repository_id"])) for row in rows) == list(range(30))
    assert {row["reason"] for row in rows} == {""}


def settled(journal: Path) -> int:
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as connection:
        try:
            count: int = connection.execute("SELECT count(*) FROM items").fetchone()[0]
        except sqlite3.OperationalError:  # it is just being made
            return 0
    return count
