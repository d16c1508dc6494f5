"""A Ray cluster of two nodes on this machine: each has an engine, and they share a registry and a data folder only."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from assets.resources import MACHINE_VARIABLE, Workshop, open_workshop
from pipeline.cluster import RESOURCE
from sandbox.engine import connect
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.contract.registries import TestRegistry, network_of, program
from tests.integration.small_engines import small_engine

logger = logging.getLogger(__name__)

Started = TypeVar("Started")

STARTS = 4
"""How often something of Ray is started before that is a fault."""


@dataclass
class TwoNodes:
    """The cluster, and the folders of its machines."""

    cluster: Any
    machines: tuple[Path, Path]
    registry: str
    slots: int

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def settings(self) -> str:
        """Lines of a configuration that uses it."""
        return f'[images]\nregistry = "{self.registry}"\n[cluster]\naddress = "{self.address}"\n'

    def join(self, number: int) -> Any:
        """Have that machine in the cluster."""
        return patiently(
            lambda: self.cluster.add_node(
                num_cpus=1,
                resources={RESOURCE: self.slots},
                env_vars={MACHINE_VARIABLE: str(self.machines[number])},
                include_dashboard=False,
            )
        )

    def kill(self, node: Any) -> None:
        """End all processes of a node at once, as a power cut does."""
        for processes in node.all_processes.values():
            for one in processes:
                os.kill(one.process.pid, signal.SIGKILL)
        self.cluster.worker_nodes.discard(node)


def patiently(start: Callable[[], Started]) -> Started:
    """Start something of Ray: on a machine with much else to do it takes longer than Ray waits for it."""
    for _ in range(STARTS - 1):
        try:
            return start()
        except Exception as error:  # noqa: BLE001 - Ray has no other one for it
            logger.warning("starting again: %s", str(error).partition("\n")[0])
    return start()


@contextmanager
def two_nodes(data_folder: Path, slots: int) -> Iterator[TwoNodes]:
    """Two engines, a registry that both reach, and a head of a cluster that neither has joined yet."""
    from ray.cluster_utils import Cluster

    with ExitStack() as stack:
        machines = (stack.enter_context(small_engine(data_folder)), stack.enter_context(small_engine(data_folder)))
        seed(data_folder, machines)
        networks = [network_of(machine) for machine in machines]
        server = TestRegistry(program(data_folder), machines[0].parent / "registry", networks)
        stack.callback(server.stop)
        server.start()
        cluster = patiently(
            lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        )
        stack.callback(cluster.shutdown)
        yield TwoNodes(cluster, machines, server.address, slots)


def seed(data_folder: Path, machines: Sequence[Path], toolchains: Sequence[str] = ()) -> None:
    """Give engines the images that everything is made from, to spare each of them the minutes of making its own."""
    client = connect(data_folder)
    bases = Workshop(open_workshop().settings, data_folder, data_folder).bases()
    runtime = VerifierRuntime(client, bases).image()
    tags = [bases.base().tag, runtime.tag, *(bases.toolchain(one).tag for one in toolchains)]
    archive = machines[0].parent / "images.tar"
    api = client.api
    # docker-py knows the archive of one image only, and these share most of their layers.
    asked = api.get(f"{api.base_url}/v{api.api_version}/images/get", params={"names": tags}, stream=True)
    with asked as answer, archive.open("wb") as file:
        answer.raise_for_status()
        for chunk in answer.iter_content(1 << 20):
            file.write(chunk)
    client.close()
    for machine in machines:
        target = connect(machine, timeout_s=120)
        with archive.open("rb") as file:
            target.images.load(file)
        target.close()
    archive.unlink()
