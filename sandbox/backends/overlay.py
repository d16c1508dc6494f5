"""Sandboxes under an OCI runtime, on overlays over the layers of images that Docker built: fast, Linux, root only.

Docker's part ends with the image. One sandbox is in overlay/overlay_sandbox.py, the process that holds them all in
overlay/keeper_process.py, how they are confined in overlay/spec.py. Sandboxes with a network are left to Docker.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import threading
from pathlib import Path

from docker import DockerClient
from docker.errors import NotFound

from sandbox.backends.docker import DockerBackend
from sandbox.container.containers import Containers
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.overlay.box import Box, Ground
from sandbox.overlay.keeper import Keeper, remove_dead_groups
from sandbox.overlay.layers import base_layer, image_layers
from sandbox.overlay.overlay_sandbox import OverlaySandbox
from sandbox.overlay.spec import Program, engine_spec
from sandbox.overlay.states import States
from sandbox.protocol import Sandbox
from sandbox.streams import Deadline, engine_call
from sandbox.types import USUAL, Conditions, FrozenState, Judgement, Limits
from sandbox.verifier.verdicts import START_ENVIRONMENT, Hearing, scratch_options
from sandbox.verifier.verifier_runtime import VerifierRuntime

logger = logging.getLogger(__name__)

# In the order of preference: the first starts a container in half the time.
RUNTIMES = ("crun", "runc")


class OverlayBackend:
    """Starts sandboxes without the engine. Implements `sandbox.protocol.Backend`; safe for several threads."""

    def __init__(
        self,
        client: DockerClient,
        runtime: VerifierRuntime,
        docker: DockerBackend,
        data: Path,
        runtimes: tuple[str, ...] = RUNTIMES,
    ) -> None:
        """`docker` serves the sandboxes that need a network. Raises SandboxUnavailable when no runtime is installed."""
        self._client = client
        self._runtime = runtime
        self._docker = docker
        self._data = data / "overlay"
        self._containers = Containers(client)
        if not (program := installed_runtime(runtimes)):
            raise SandboxUnavailable(f"no OCI runtime is installed; looked for {' and '.join(runtimes)}")
        self._keeper = Keeper(self._data / "sandboxes", program)
        self._states = States(self._data / "states")
        self._grounds: dict[str, Ground] = {}
        self._passing: dict[str, Box] = {}
        self._directories: dict[str, str] = {}
        self._library: str | None = None
        self._guard = threading.Lock()

    @property
    def name(self) -> str:
        """Name stored on rows."""
        return "overlay"

    def start(self, image_digest: str, limits: Limits) -> Sandbox:
        """A fresh sandbox. Raises ImageMissing, ImageUnusable or SandboxUnavailable."""
        if limits.network != "none":
            return self._docker.start(image_digest, limits)
        return self._sandbox(image_digest, None, limits)

    def restore(self, state: FrozenState, limits: Limits) -> Sandbox:
        """A fresh sandbox over a frozen file system; its `changes` are those made since then.

        Raises ImageMissing or SandboxUnavailable.
        """
        return self._sandbox(state.image_digest, self._changes_of(state), limits)

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        """Run pytest files with the trusted interpreter on a fresh copy of `state`, network off.

        Raises VerifierBroken, ImageMissing or SandboxUnavailable.
        """
        hearing = Hearing(files, self._ground(state.image_digest).facts, conditions)
        return self._judge(state.image_digest, self._changes_of(state), hearing, limits, timeout_s, net=None)

    def judge_live(
        self,
        sandbox: Sandbox,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        """Run pytest files on a copy of a running sandbox, in its network.

        Raises VerifierBroken, ImageMissing or SandboxUnavailable, ValueError for a sandbox of another backend.
        """
        if not isinstance(sandbox, OverlaySandbox):
            raise ValueError("the sandbox was not started by the overlay backend")
        changes = self._states.new()
        try:
            net = sandbox.snapshot(str(changes))
            hearing = Hearing(files, self._ground(sandbox.image_digest).facts, conditions)
            return self._judge(sandbox.image_digest, str(changes), hearing, limits, timeout_s, net=net)
        finally:
            self._states.drop(changes)

    def _judge(
        self, image_digest: str, below: str, hearing: Hearing, limits: Limits, timeout_s: float, net: str | None
    ) -> Judgement:
        ground = self._ground(image_digest)
        program = Program(
            hearing.command,
            environment=START_ENVIRONMENT,
            binds={hearing.place: self._library_place()},
            tmpfs={hearing.scratch: scratch_options(limits)},
        )
        box = Box(self._keeper, secrets.token_hex(8), ground, below, limits)
        try:
            late = _talk(box, program, net, hearing, timeout_s)
        finally:
            box.remove()
        if late:
            raise hearing.broken(f"gave no verdict within {timeout_s:g} s")
        return hearing.judgement()

    def has_state(self, reference: str) -> bool:
        """Whether a frozen state is still kept."""
        return reference in self._passing or self._states.find(reference) is not None

    def states(self) -> set[str]:
        """References of all frozen states."""
        return self._states.references() | set(self._passing)

    def discard(self, reference: str) -> None:
        """Forget a frozen state; safe to call twice."""
        with self._guard:
            box = self._passing.pop(reference, None)
            self._directories.pop(reference, None)
        if box is not None:
            box.remove()
        self._states.discard(reference)

    def reap(self) -> int:
        """Remove what dead drivers left: control groups, unfinished states and those not to be kept.

        Their sandboxes ended with them. Returns how many sandboxes left something, Docker's among them.
        """
        self._states.reap()
        return self._docker.reap() + remove_dead_groups(self._keeper)

    def close(self) -> None:
        """End all sandboxes of this process."""
        self._keeper.close()

    def _sandbox(self, image_digest: str, below: str | None, limits: Limits) -> OverlaySandbox:
        ground = self._ground(image_digest)
        box = Box(self._keeper, secrets.token_hex(8), ground, below, limits)
        try:
            return OverlaySandbox(box, ground, below, lambda reference, keep: self._freeze(box, below, reference, keep))
        except BaseException:
            box.remove()
            raise

    def _freeze(self, box: Box, below: str | None, reference: str, keep: bool) -> bool:
        """Make a state of a box; True when the box itself is the state from now on."""
        if not keep:
            directory = str(box.ask("freeze", target=None, below=below))
            self.discard(reference)
            with self._guard:
                self._passing[reference], self._directories[reference] = box, directory
            return True
        changes = self._states.new()
        try:
            box.ask("freeze", target=str(changes), below=below)
            self._states.keep(changes, reference)
        except BaseException:
            self._states.drop(changes)
            raise
        return False

    def _changes_of(self, state: FrozenState) -> str:
        """Directory of a state's changes. Raises ImageMissing when it is gone."""
        with self._guard:
            if state.reference in self._directories:
                return self._directories[state.reference]
        found = self._states.find(state.reference)
        if found is None:
            raise ImageMissing(f"the frozen state {state.reference} is gone")
        return str(found)

    def _ground(self, image_digest: str) -> Ground:
        """What is known of an image, asked once. Raises ImageMissing, ImageUnusable or SandboxUnavailable."""
        with self._guard:
            known = self._grounds.get(image_digest)
        if known is None:
            layers = image_layers(self._containers, image_digest)
            known = Ground(
                image_digest=image_digest,
                facts=self._containers.image(image_digest),
                engine_spec=engine_spec(self._containers, image_digest),
                layers=[base_layer(self._data / "base"), *layers],
            )
            with self._guard:
                self._grounds[image_digest] = known
        elif not Path(known.layers[-1]).is_dir():
            with self._guard:
                del self._grounds[image_digest]
            return self._ground(image_digest)
        return known

    def _library_place(self) -> str:
        """Folder of this machine with the verifier runtime. Raises SandboxUnavailable."""
        if self._library is None or not Path(self._library).is_dir():
            volume = self._runtime.volume()
            with engine_call("looking for the verifier runtime"):
                try:
                    self._library = str(self._client.api.inspect_volume(volume)["Mountpoint"])
                except NotFound as error:
                    raise SandboxUnavailable(f"the volume {volume} of the verifier runtime is gone") from error
        return self._library


def _talk(box: Box, program: Program, net: str | None, hearing: Hearing, timeout_s: float) -> bool:
    """Start the verifier, hand it the request and listen until it ends; True when it was still running at the end."""
    pipes = box.run(program, net)
    try:
        clock = Deadline(timeout_s)
        # A verifier that ended before it was told everything says why on its other stream.
        with contextlib.suppress(SandboxUnavailable):
            pipes.send(hearing.request)
        while not pipes.ended and clock.left > 0:
            pipes.read(hearing.sinks, clock.left)
        if pipes.ended:
            box.started()
        return not pipes.ended
    finally:
        pipes.close()


def installed_runtime(names: tuple[str, ...] = RUNTIMES) -> str:
    """Path of the OCI runtime to use, the first of `names` that is there; empty when none is."""
    return next((found for name in names if (found := shutil.which(name)) is not None), "")
