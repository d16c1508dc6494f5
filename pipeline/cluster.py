"""The machines of a Ray cluster: one process on each node does the work, in as many threads as the node has slots.

A node says how many with its resource `sandboxes`; nodes that join later are used. The one that asks keeps all results:
nodes write nothing but to their own engine, their own folder and the registry of images. Ray is imported when a cluster
is asked for, and by nobody else.

Not here: which node takes the next item (slots.py), how work gets there (travel.py), what is kept of it (batch.py).
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from pydantic import Field

from pipeline.batch import BrokenOff, Outcome
from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.machines import Near
from pipeline.slots import NoMachine, Slots
from pipeline.travel import Named, NameOf, answer, pack, read, unpack
from pipeline.types import Record
from sandbox.errors import SandboxUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
Found = TypeVar("Found")

RESOURCE = "sandboxes"
"""Ray's name for the slots of a node."""
LOOK_S = 2.0
"""How often is looked which nodes there are."""
LOSSES = 3
"""So often one item may lose its machine: then the item is the likely cause."""
WORKS_HELD = 8
"""Pieces of work that a node keeps unpacked."""
REMEDY = f"start nodes with `ray start --address=HEAD:6379 --resources='{{\"{RESOURCE}\": 8}}'`"


class ClusterConfig(Record):
    """Other machines that build, attempt and verify."""

    address: str | None = Field(default=None, min_length=1)
    """`auto` for the Ray cluster that this machine belongs to, or `host:port` of its head; None for this machine
    alone. Each node says how many items it works on at a time (`ray start --resources='{"sandboxes": 8}'`), and has an
    engine. `[images] registry` must be set."""
    patience_s: float = Field(default=300.0, gt=0)
    """How long a run waits while the cluster has no such node."""


class Worker:
    """What runs on a node. Its methods are called from many threads at once."""

    def __init__(self, opening: Callable[[], Named]) -> None:
        """`opening` gives what there is on this node, by name."""
        self._opening = opening
        self._named: Named | None = None
        self._works: OrderedDict[str, Callable[[object], object]] = OrderedDict()
        # What is made when it is first asked for is made once. The same thread comes here twice.
        self._guard = threading.RLock()

    def ready(self) -> None:
        """Answers as soon as this process can."""

    def do(self, name: str, work: Sequence[Any], value: bytes) -> bytes:
        """The answer of a piece of work for a value. Where the work is not known by its name, its reference is used."""
        return answer(lambda: self._work(name, work[0])(self._unpack(value)))

    def call(self, call: bytes) -> bytes:
        """The answer of a function without arguments."""
        return answer(lambda: cast("Callable[[], object]", self._unpack(call))())

    def _work(self, name: str, reference: Any) -> Callable[[object], object]:
        import ray

        with self._guard:
            if name not in self._works:
                self._works[name] = cast("Callable[[object], object]", self._unpack(ray.get(reference)))
                if len(self._works) > WORKS_HELD:
                    self._works.popitem(last=False)
            return self._works[name]

    def _unpack(self, packed: bytes) -> object:
        with self._guard:
            if self._named is None:
                self._named = self._opening()
            return unpack(packed, self._named)


class _AtWork:
    """The nodes that do one piece of work at the moment, until it ends."""

    def __init__(self) -> None:
        self._nodes: Counter[str] = Counter()
        self._guard = threading.Lock()
        self.ended = False

    @contextmanager
    def on(self, node: str) -> Iterator[None]:
        with self._guard:
            self._nodes[node] += 1
        try:
            yield
        finally:
            with self._guard:
                self._nodes[node] -= 1

    def end(self) -> list[str]:
        """Start nothing any more; the nodes that are still at it."""
        with self._guard:
            self.ended = True
            return [node for node, count in self._nodes.items() if count > 0]


class RayCluster:
    """Implements `pipeline.machines.Machines`. Connected when first used, until `close`."""

    def __init__(self, config: ClusterConfig, opening: Callable[[], Named], name_of: NameOf) -> None:
        """`name_of` names what stays on its machine; `opening`, called on a node, gives what is named so there."""
        self._config = config
        self._opening = opening
        self._name_of = name_of
        self._slots = Slots()
        self._workers: dict[str, Any] = {}
        """Ray's handle of each node's worker."""
        self._starting: dict[str, tuple[Any, Any]] = {}
        """Workers that did not answer yet, with the answer to come."""
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._looking: threading.Thread | None = None
        self._numbers = itertools.count()
        self._connected_by_us = False

    def slots(self) -> int:
        """See Machines. Raises ConfigurationError where there is no cluster, or none of its nodes takes work."""
        self._connected()
        return max(1, self._slots.total())

    @contextmanager
    def spread(self, work: Callable[[T], Outcome], near: Near[T]) -> Iterator[Callable[[T], Outcome]]:
        """See Machines. Raises ConfigurationError like `slots`."""
        ray = self._connected()
        # In a list, so that Ray hands on the reference: a node asks for the work once.
        name, work_there = f"{os.getpid()}-{next(self._numbers)}", [ray.put(pack(work, self._name_of))]
        at_work = _AtWork()

        def elsewhere(value: T) -> Outcome:
            packed = pack(value, self._name_of)
            return cast(
                "Outcome", self._done(lambda one: one.do.remote(name, work_there, packed), near(value), at_work)
            )

        try:
            yield elsewhere
        finally:
            for node in at_work.end():
                self._drop(node, self._workers.get(node))

    def everywhere(self, call: Callable[[], Found]) -> Mapping[str, Found]:
        """See Machines."""
        ray = self._connected()
        packed = pack(call, self._name_of)
        with self._guard:
            workers = dict(self._workers)
        asked = {node: worker.call.remote(packed) for node, worker in workers.items()}
        found: dict[str, Found] = {}
        for node, reference in asked.items():
            try:
                found[node] = cast("Found", read(ray.get(reference)))
            except _losses() as error:
                self._lost(node, workers[node], error)
        return found

    def close(self) -> None:
        """End what runs on the nodes. Safe to call twice."""
        self._closed.set()
        if self._looking is not None:
            self._looking.join(timeout=LOOK_S * 2)
        for node, worker in list(self._workers.items()):
            self._drop(node, worker)
        for worker, _ in self._starting.values():
            _end(worker)
        if self._connected_by_us:
            import ray

            ray.shutdown()
            self._connected_by_us = False

    def _done(self, ask: Callable[[Any], Any], near: str | None, at_work: _AtWork) -> object:
        """What a worker answers. Raises what it raised, InfrastructureFailure after too many losses."""
        import ray

        losses: list[Exception] = []
        while len(losses) < LOSSES and not at_work.ended:
            try:
                with self._slots.take(near, self._config.patience_s) as node, at_work.on(node):
                    with self._guard:
                        worker = self._workers.get(node)
                    if worker is None:  # it was lost just now
                        continue
                    try:
                        answered = ray.get(ask(worker))
                    except _losses() as error:
                        self._lost(node, worker, error)
                        losses.append(error)
                        continue
                    return self._judged(node, answered)
            except NoMachine as error:
                raise ConfigurationError(
                    f"no node of the Ray cluster takes work any more ({error}); {REMEDY}"
                ) from error
        if not losses:
            raise InfrastructureFailure("the work was broken off")
        raise InfrastructureFailure(f"the machine that worked on this was lost: {_line(losses[-1])}") from losses[-1]

    def _judged(self, node: str, answered: bytes) -> object:
        """What was answered; a node that breaks one item after the other gets a rest."""
        try:
            given = read(answered)
        except Exception as raised:
            error = raised.cause if isinstance(raised, BrokenOff) else raised
            if isinstance(error, SandboxUnavailable | InfrastructureFailure):
                logger.warning("node %s: %s", node, error)
                self._slots.failed(node)
            else:
                self._slots.worked(node)
            raise
        self._slots.worked(node)
        return given

    def _connected(self) -> Any:
        """Ray, connected to the cluster. Raises ConfigurationError."""
        try:
            import ray
        except ImportError as error:
            raise ConfigurationError(
                "[cluster] address asks for Ray, which is not installed: the extra `ray`"
            ) from error
        with self._guard:
            if self._looking is not None:
                return ray
            if not ray.is_initialized():
                _connect(ray, str(self._config.address))
                self._connected_by_us = True
        self._wait_for_nodes(ray)
        with self._guard:
            if self._looking is None:
                self._looking = threading.Thread(target=self._keep_looking, args=(ray,), name="nodes", daemon=True)
                self._looking.start()
        return ray

    def _wait_for_nodes(self, ray: Any) -> None:
        """Have a first worker ready. Raises ConfigurationError where no node has slots, or none gets ready."""
        deadline = time.monotonic() + self._config.patience_s
        while self._look(ray) == 0:
            if not self._starting:
                raise ConfigurationError(f"[cluster] address: no node there has the resource {RESOURCE!r}; {REMEDY}")
            if time.monotonic() >= deadline:
                raise ConfigurationError(f"no node of the Ray cluster got ready in {self._config.patience_s:g} s")
            ray.wait([ready for _, ready in self._starting.values()], timeout=LOOK_S)

    def _keep_looking(self, ray: Any) -> None:
        while not self._closed.wait(LOOK_S):
            try:
                self._look(ray)
            except Exception as error:  # noqa: BLE001 - Ray has no common one; the next look may do better
                logger.warning("the nodes of the cluster cannot be listed: %s", _line(error))

    def _look(self, ray: Any) -> int:
        """Have a worker on each node that is there; how many are ready.

        A node that was lost is listed for a while as if it were there: only a worker that answers gets work.
        """
        there = {
            str(node["NodeID"]): int(node["Resources"][RESOURCE])
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get(RESOURCE, 0) >= 1
        }
        with self._guard:
            for node in set(self._workers) - set(there):
                logger.warning("node %s has left the cluster", node)
                del self._workers[node]
            for node in set(there) - set(self._workers) - set(self._starting):
                worker = self._hired(ray, node, there[node])
                self._starting[node] = worker, worker.ready.remote()
            for node, (worker, ready) in list(self._starting.items()):
                if node in there and not ray.wait([ready], timeout=0)[0]:
                    continue
                del self._starting[node]
                if node not in there:
                    _end(worker)
                elif _answered(ray, node, ready):
                    self._workers[node] = worker
                    logger.info("node %s works on %d items at a time", node, there[node])
            self._slots.there({node: there[node] for node in self._workers})
            return len(self._workers)

    def _hired(self, ray: Any, node: str, slots: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Two threads more than slots: questions are answered while all are at work.
        kind = ray.remote(num_cpus=0, max_concurrency=slots + 2, max_restarts=0, max_task_retries=0)(Worker)
        place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        return kind.options(scheduling_strategy=place).remote(self._opening)

    def _lost(self, node: str, worker: Any, error: Exception) -> None:
        logger.warning("node %s was lost: %s", node, _line(error))
        self._drop(node, worker)

    def _drop(self, node: str, worker: Any) -> None:
        """End a worker; the next look makes another one where the node is still there."""
        with self._guard:
            if worker is None or self._workers.get(node) is not worker:
                return
            del self._workers[node]
            self._slots.lost(node)
        _end(worker)


def _connect(ray: Any, address: str) -> None:
    """Raises ConfigurationError."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except Exception as error:
        raise ConfigurationError(
            f"[cluster] address = {address!r}: there is no Ray cluster to which this machine belongs ({_line(error)}); "
            "run `ray start --head` here, or `ray start --address=HEAD:6379` to join one"
        ) from error
    finally:
        # Ray puts handlers of its own there, which end the process before what was finished is kept.
        for number, handler in before.items():
            signal.signal(number, handler)


def _answered(ray: Any, node: str, ready: Any) -> bool:
    try:
        ray.get(ready)
    except _losses() as error:
        logger.info("node %s is not ready: %s", node, _line(error))
        return False
    return True


def _end(worker: Any) -> None:
    import ray

    with suppress(Exception):  # it is gone already, or Ray is
        ray.kill(worker)


def _losses() -> tuple[type[Exception], ...]:
    """What Ray raises when a node or its worker is gone, or what it had given."""
    from ray import exceptions

    return (
        exceptions.RayActorError,
        exceptions.ActorUnschedulableError,
        exceptions.NodeDiedError,
        exceptions.WorkerCrashedError,
        exceptions.OutOfMemoryError,
        exceptions.ObjectLostError,
        exceptions.RaySystemError,
    )


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
