"""A backend whose missing images come from the registry: another machine may have built them, or they made way here.

Sandboxes themselves are the business of the backend below it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sandbox.building.registry import Registry
from sandbox.errors import ImageMissing
from sandbox.protocol import Backend, Sandbox
from sandbox.types import USUAL, Conditions, FrozenState, Judgement, Limits

logger = logging.getLogger(__name__)

T = TypeVar("T")


class PullingBackend:
    """Implements `sandbox.protocol.Backend` over another one; as safe for several threads as that one."""

    def __init__(self, backend: Backend, registry: Registry, touch: Callable[[str], None]) -> None:
        """`touch` is told the image of each sandbox before it starts, so that it is not removed meanwhile."""
        self._backend = backend
        self._registry = registry
        self._touch = touch

    @property
    def name(self) -> str:
        """Name stored on rows: that of the backend below."""
        return self._backend.name

    def start(self, image_digest: str, limits: Limits) -> Sandbox:
        """A fresh sandbox. Raises ImageMissing when no registry has it either, ImageUnusable or SandboxUnavailable."""
        return self._with_image(image_digest, lambda: self._backend.start(image_digest, limits))

    def restore(self, state: FrozenState, limits: Limits) -> Sandbox:
        """A fresh sandbox over a frozen file system. Raises ImageMissing or SandboxUnavailable."""
        return self._with_image(state.image_digest, lambda: self._backend.restore(state, limits))

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        """See the protocol. Raises VerifierBroken, ImageMissing or SandboxUnavailable."""
        return self._with_image(
            state.image_digest,
            lambda: self._backend.judge(state, files, limits=limits, timeout_s=timeout_s, conditions=conditions),
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
        """See the protocol. Raises VerifierBroken, ImageMissing or SandboxUnavailable."""
        return self._backend.judge_live(sandbox, files, limits=limits, timeout_s=timeout_s, conditions=conditions)

    def has_state(self, reference: str) -> bool:
        """Whether a frozen state is still kept. Raises SandboxUnavailable."""
        return self._backend.has_state(reference)

    def states(self) -> set[str]:
        """References of all states that are kept. Raises SandboxUnavailable."""
        return self._backend.states()

    def discard(self, reference: str) -> None:
        """Forget a frozen state; safe to call twice. Raises SandboxUnavailable."""
        self._backend.discard(reference)

    def reap(self) -> int:
        """Remove what dead drivers left; how many sandboxes. Raises SandboxUnavailable."""
        return self._backend.reap()

    def _with_image(self, image_digest: str, call: Callable[[], T]) -> T:
        self._touch(image_digest)
        try:
            return call()
        except ImageMissing:
            if not self._registry.pull(image_digest):
                raise
        return call()
