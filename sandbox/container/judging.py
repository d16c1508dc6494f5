"""A verdict through a Docker engine: the verifier as the first process of a fresh container of the frozen state.

What is believed of its answer is in verifier/verdicts.py.
"""

from __future__ import annotations

from sandbox.container.containers import Containers, ImageFacts, Role
from sandbox.container.image_users import user_by_number
from sandbox.streams import Deadline, HijackedStream, engine_call
from sandbox.types import USUAL, Conditions, Judgement, Limits
from sandbox.verifier.verdicts import START_ENVIRONMENT, Hearing, scratch_options
from sandbox.verifier.verifier_runtime import VerifierRuntime


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
    try:
        late = _talk(containers, container, hearing, timeout_s)
    finally:
        containers.remove(container)
    if late:
        raise hearing.broken(f"gave no verdict within {timeout_s:g} s")
    return hearing.judgement()


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
