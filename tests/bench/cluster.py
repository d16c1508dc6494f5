"""`make bench-ray`: attempts a second of one node of a Ray cluster and of two. The last line is one JSON object.

Both nodes are on this machine, with an engine each and equal slots; a registry is all that their engines share. The
attempts go through the real stage: a scripted model that takes its time for each answer, real sandboxes of an image
that one node made and the other one pulls, rows on disk. Verdicts are given afterwards and not timed. What the machine
can carry is not shown: it is the same one for both, so that the figure counts only while its cores are mostly idle.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from assets.resources import Workshop
from assets.settings import read_settings
from pipeline.agents.bash import BashAgent
from pipeline.attempts import Attempt
from pipeline.cluster import RayCluster
from pipeline.llm.protocol import Completion, Message, Sampling
from pipeline.rollout import RolloutConfig
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out
from pipeline.stages.verifications import verify_all
from pipeline.types import TaskInstance, Verifier, VerifierFile
from sandbox.building.registry import Registry
from sandbox.engine import connect
from tests.bench.trials import TrialFailed, busy_seconds
from tests.integration.small_engines import import_shell
from tests.integration.two_nodes import TwoNodes, two_nodes

COMMANDS = ("echo one > /first", "echo two > /second", "cat /first /second > /both")
VERIFIER = 'from pathlib import Path\n\ndef test_both(): assert Path("/both").read_text() == "one\\ntwo\\n"\n'
CHECK = "test_state.py"
WARM_UP = 2
"""Attempts per slot that come before the clock starts."""


class SlowModel:
    """A ChatModel that answers with the next command after a while."""

    name = "slow"
    details: Mapping[str, str] = {}

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        del sampling
        time.sleep(self._latency_s)
        turn = len(messages) // 2
        text = f"```bash\n{COMMANDS[turn]}\n```" if turn < len(COMMANDS) else "DONE"
        return Completion(
            text=text,
            finish_reason="stop",
            model=self.name,
            prompt_tokens=0,
            completion_tokens=0,
            seconds=self._latency_s,
        )


def task(image: str) -> TaskInstance:
    """What is attempted."""
    return TaskInstance(
        repository_id="repo-bench",
        image_digest=image,
        instruction="Write two words.",
        solution=COMMANDS,
        verifier=Verifier(
            files=(VerifierFile(path=CHECK, content=VERIFIER),), passing_tests=(f"{CHECK}::test_both",), timeout_s=60
        ),
        generator="bench",
        language="shell",
        family="words",
        difficulty="easy",
        provenance={},
    )


def attempts(image: str, samples: range, latency_s: float) -> list[Attempt]:
    """So many of one task."""
    agent = BashAgent(SlowModel(latency_s), Sampling(seed=0))
    return [Attempt(task(image), agent, number) for number in samples]


def workshop(nodes: TwoNodes, folder: Path, engine: Path) -> Workshop:
    """The driver's, with its tables in `folder` and the engine of a data folder."""
    data = folder / "data"
    (data / "tables").mkdir(parents=True)
    address = json.loads((engine / "engine.json").read_text()) | {"owned": False}
    (data / "engine.json").write_text(json.dumps(address))
    config = folder / "touchstone.toml"
    config.write_text(nodes.settings)
    return Workshop(read_settings(config, required=True), folder, data)


def shared_image(nodes: TwoNodes) -> str:
    """Id of a tiny image that the first machine made and the registry has."""
    client = connect(nodes.machines[0])
    try:
        image = import_shell(client)
        Registry(client, nodes.registry).push(image)
        return image
    finally:
        client.close()


class Run:
    """Attempts after attempts in one data folder."""

    def __init__(self, shop: Workshop, image: str, latency_s: float) -> None:
        self._shop, self._image, self._latency_s = shop, image, latency_s
        self._made = 0
        machines = shop.machines()
        assert isinstance(machines, RayCluster)
        self.machines = machines

    def attempt(self, count: int) -> float:
        """Make so many new ones; wall time, s."""
        wanted = attempts(self._image, range(self._made, self._made + count), self._latency_s)
        self._made += count
        began = time.monotonic()
        report = roll_out(
            self._shop.store(), wanted, self._shop.backend(), RolloutConfig(), Options(machines=self.machines)
        )
        if report.done != count:
            raise TrialFailed(f"{report.failed} of {count} attempts failed")
        return time.monotonic() - began

    def verify(self) -> None:
        """Raises TrialFailed unless every attempt was made once and passed."""
        options, store = Options(machines=self.machines), self._shop.store()
        verify_all(store, [task(self._image)], self._shop.backend(), options, command_timeout_s=60)
        rows = to_rows(store.read("verifications"))
        wrong = [row for row in rows if row["outcome"] != "passed"]
        if wrong or len(rows) != self._made:
            raise TrialFailed(f"{len(rows)} verdicts for {self._made} attempts; not passed: {wrong[:3]}")


def measure(nodes: TwoNodes, shop: Workshop, *, rounds: int, latency_s: float) -> dict[str, object]:
    """The figures. Raises TrialFailed."""
    run = Run(shop, shared_image(nodes), latency_s)
    rates, busy_share = [], 0.0
    for count in (1, 2):
        nodes.join(count - 1)
        wait_for_slots(run, count * nodes.slots)
        run.attempt(WARM_UP * count * nodes.slots)
        busy, wanted = busy_seconds(), rounds * count * nodes.slots
        wall_s = run.attempt(wanted)
        rates.append(wanted / wall_s)
        busy_share = (busy_seconds() - busy) / wall_s / (os.cpu_count() or 1)
    run.verify()
    run.machines.close()
    return {
        "one_node_per_s": round(rates[0], 3),
        "two_nodes_per_s": round(rates[1], 3),
        "ratio": round(rates[1] / rates[0], 2),
        "cpu_share": round(busy_share, 2),
        "slots": nodes.slots,
        "latency_s": latency_s,
        "attempts": [rounds * nodes.slots, 2 * rounds * nodes.slots],
    }


def wait_for_slots(run: Run, wanted: int) -> None:
    """Until the driver knows of so many. Raises TrialFailed."""
    deadline = time.monotonic() + 180
    while run.machines.slots() != wanted:
        if time.monotonic() > deadline:
            raise TrialFailed(f"{run.machines.slots()} slots after three minutes, {wanted} are wanted")
        time.sleep(0.5)


def main() -> None:
    from assets.resources import open_workshop

    parser = argparse.ArgumentParser(prog="make bench-ray", description=__doc__)
    parser.add_argument("--slots", type=int, default=4, help="of each node")
    parser.add_argument("--rounds", type=int, default=4, help="attempts of each slot")
    parser.add_argument("--latency-s", type=float, default=5.0, help="of each of the four answers of an attempt")
    chosen = parser.parse_args()
    data = open_workshop().data
    console = Console(width=110)
    with two_nodes(data, chosen.slots) as nodes, tempfile.TemporaryDirectory() as folder:
        console.print(f"two engines, a registry and a cluster are up; {chosen.slots} slots each")
        shop = workshop(nodes, Path(folder), data)
        found = measure(nodes, shop, rounds=chosen.rounds, latency_s=chosen.latency_s)
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except TrialFailed as error:
        raise SystemExit(f"bench-ray: {error}") from error
