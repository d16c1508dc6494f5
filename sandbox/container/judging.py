"""A verdict through a Docker engine: the verifier as the first process of a fresh container of the frozen state.

What is believed of its answer is in verifier/verdicts.py.
"""

from __future__ import annotations

import time

from sandbox.container.containers import Containers, ImageFacts, Role
from sandbox.container.image_users import user_by_number
from sandbox.errors import SandboxUnavailable
from sandbox.streams import Deadline, HijackedStream, engine_call
from sandbox.types import USUAL, Conditions, Judgement, Limits
from sandbox.verifier.verdicts import START_ENVIRONMENT, Hearing, scratch_options
from sandbox.verifier.verifier_runtime import VerifierRuntime

EVENT_S = 2.0
"""How long the engine may take to say how a container ended."""


def judge(
    containers: Containers,
    runtime: VerifierRuntime,
    image: str,
    facts: ImageFacts,
    files: dict[str, str],
    *,
    limits: Limits,
    timeout_s: float,
    conditions: Conditions = USUAL,
    network_of: str | None = None,
) -> Judgement:
    """Run pytest files over a fresh container of `image`; `facts` are of the image that it was made from.

    The network is off, or that of the running container `network_of`.

    Raises VerifierBroken, ImageMissing or SandboxUnavailable, ValueError for a file name that leaves its folder.
    """
    hearing = Hearing(files, facts, conditions)
    user = user_by_number(containers, facts)
    role = Role(
        command=hearing.command,
        environment=START_ENVIRONMENT,
        volumes=(f"{runtime.volume()}:{hearing.place}:ro",),
        tmpfs={hearing.scratch: scratch_options(limits)},
        reads_input=True,
        # As PID 1 it outlives whatever a program under test kills.
        init=False,
        network_of=network_of,
        user=user,
    )
    container = containers.create(image, limits.model_copy(update={"network": "none"}), role)
    began = time.time()
    try:
        late = _talk(containers, container, hearing, timeout_s)
        if not late and not hearing.answered and not _ended_itself(containers, container, began):
            raise SandboxUnavailable("the container of a verifier was stopped from outside")
    finally:
        containers.remove(container)
    if late:
        raise hearing.broken(f"gave no verdict within {timeout_s:g} s")
    return hearing.judgement()


def _ended_itself(containers: Containers, container: str, began: float) -> bool:
    """Whether a container ended without anybody asking the engine for it; no when the engine does not know its end.

    Raises SandboxUnavailable.
    """
    patience = Deadline(EVENT_S)
    while True:
        with engine_call("asking for the events of a verifier"):
            events = containers.client.api.events(
                since=f"{began:.3f}", until=f"{time.time():.3f}", filters={"container": container}, decode=True
            )
            actions = {str(event.get("Action", "")).partition(":")[0] for event in events}
        if actions & {"kill", "stop", "destroy"}:
            return False
        if "die" in actions or patience.left <= 0:
            return "die" in actions
        time.sleep(0.1)


def _talk(containers: Containers, container: str, hearing: Hearing, timeout_s: float) -> bool:
    """Start the verifier, hand it the request and listen until it ends; True when it was still running at the end."""
    with engine_call("starting a verifier"):
        # Listening before it starts: nothing it says can be missed.
        stream = HijackedStream(
            containers.client, f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1", None
        )
        with stream:
            containers.start(container)
            clock = Deadline(timeout_s)
            stream.send(hearing.request)
            while not stream.ended and clock.left > 0:
                stream.read(hearing.sinks, clock.left)
            return not stream.ended
