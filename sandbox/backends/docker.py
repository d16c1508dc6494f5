"""Sandboxes as containers of any Docker engine, through its API only.

One sandbox is in container/sandbox.py, the hardening beside it in containers.py, how a verifier judges in judging.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

import docker
from docker.errors import APIError, ImageNotFound

from sandbox.building.builds import remove_dead_steps
from sandbox.container.containers import Containers
from sandbox.container.image_diff import PristineEntries
from sandbox.container.judging import judge
from sandbox.container.sandbox import FROZEN_LABEL, ContainerSandbox, reference_of, state_tag
from sandbox.engine import DEADLINE, OWNER, owner_is_alive
from sandbox.protocol import Sandbox
from sandbox.streams import engine_call
from sandbox.types import USUAL, Conditions, FrozenState, Judgement, Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime


class DockerBackend:
    """Starts sandboxes in a Docker engine. Implements `sandbox.protocol.Backend`; safe for several threads."""

    def __init__(
        self,
        client: docker.DockerClient,
        runtime: VerifierRuntime,
        network_environment: Mapping[str, str] | None = None,
    ) -> None:
        """`network_environment` is seen by sandboxes with a network, which on our engine reach it by a proxy only."""
        self._client = client
        self._runtime = runtime
        self._containers = Containers(client, network_environment)
        self._pristine = PristineEntries()

    @property
    def name(self) -> str:
        """Name stored on rows."""
        return "docker"

    def start(self, image_digest: str, limits: Limits) -> ContainerSandbox:
        """A fresh sandbox. Raises ImageMissing, ImageUnusable or SandboxUnavailable."""
        return ContainerSandbox(self._containers, image_digest, image_digest, limits, self._pristine)

    def restore(self, state: FrozenState, limits: Limits) -> ContainerSandbox:
        """A fresh sandbox over a frozen file system; its `changes` are those made since then.

        Raises ImageMissing or SandboxUnavailable.
        """
        return ContainerSandbox(
            self._containers, state_tag(state.reference), state.image_digest, limits, PristineEntries()
        )

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
        facts = self._containers.image(state.image_digest)
        image = state_tag(state.reference)
        return judge(
            self._containers,
            self._runtime,
            image,
            facts,
            files,
            limits=limits,
            timeout_s=timeout_s,
            conditions=conditions,
        )

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
        if not isinstance(sandbox, ContainerSandbox):
            raise ValueError("the sandbox was not started by the docker backend")
        facts = self._containers.image(sandbox.image_digest)
        reference = f"live-{secrets.token_hex(8)}"
        container = sandbox.snapshot(reference)
        try:
            return judge(
                self._containers,
                self._runtime,
                state_tag(reference),
                facts,
                files,
                limits=limits,
                timeout_s=timeout_s,
                conditions=conditions,
                network_of=container,
            )
        finally:
            self.discard(reference)

    def has_state(self, reference: str) -> bool:
        """Whether a frozen state is still kept. Raises SandboxUnavailable."""
        with engine_call(f"looking for state {reference}"):
            try:
                self._client.api.inspect_image(state_tag(reference))
            except ImageNotFound:
                return False
        return True

    def states(self) -> set[str]:
        """References of all frozen states. Raises SandboxUnavailable."""
        return {reference for reference, _ in self._states()}

    def _states(self) -> list[tuple[str, dict[str, str]]]:
        """Reference and labels of each frozen state."""
        with engine_call("listing states"):
            images = self._client.api.images(filters={"label": FROZEN_LABEL})
        tags = [(tag, image["Labels"] or {}) for image in images for tag in image["RepoTags"] or ()]
        return [(reference_of(tag), labels) for tag, labels in tags if reference_of(tag)]

    def discard(self, reference: str) -> None:
        """Forget a frozen state; safe to call twice. Raises SandboxUnavailable."""
        with engine_call(f"discarding state {reference}"):
            try:
                # Parents stay: they are the images of other instances.
                self._client.api.remove_image(state_tag(reference), force=True, noprune=True)
            except ImageNotFound:
                return

    def reap(self) -> int:
        """Remove sandboxes, build steps and passing states whose driver is dead or whose lifetime is over.

        Returns how many sandboxes and steps were removed.

        Raises SandboxUnavailable.
        """
        with engine_call("listing containers"):
            ours = self._client.api.containers(all=True, filters={"label": OWNER})
        removed = sum(self._containers.remove(one["Id"]) for one in ours if _is_abandoned(one["Labels"]))
        for reference, labels in self._states():
            if labels.get(OWNER) and not owner_is_alive(labels[OWNER]):
                self.discard(reference)
        self._remove_replaced_states()
        return removed + remove_dead_steps(self._client)

    def _remove_replaced_states(self) -> None:
        """A state frozen again under its old name leaves the older one without a name."""
        with engine_call("listing replaced states"):
            replaced = self._client.api.images(filters={"label": FROZEN_LABEL, "dangling": True})
        for image in replaced:
            with engine_call("removing a replaced state"):
                try:
                    self._client.api.remove_image(image["Id"], noprune=True)
                except APIError as error:
                    # A sandbox restored from it still runs; the next call finds it again.
                    if error.status_code not in (404, 409):
                        raise


def _is_abandoned(labels: dict[str, str]) -> bool:
    deadline = labels.get(DEADLINE, "")
    over = deadline.isdigit() and int(deadline) < time.time()
    return over or not owner_is_alive(labels[OWNER])
