"""Solutions of one instance carried out in sandboxes, and what they leave, judged as often as a gate asks.

What a verdict means is for the gates. Every sandbox has the limits of the instance and no network.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from pipeline.types import TaskInstance
from sandbox.protocol import Backend, Sandbox
from sandbox.types import USUAL, Conditions, FrozenState, Judgement

Prepare = Callable[[Sandbox], None]
"""Looks at a sandbox, or changes it, before or after commands run in it."""


@dataclass(frozen=True)
class EndState:
    """What was left: a frozen file system, or a sandbox that goes on where services are judged."""

    left: FrozenState | Sandbox
    fault: str
    """What went wrong with the first command that failed; empty when none did."""


class Attempts:
    """Makes and judges end states of one instance. Keeps none: each one lasts as long as the caller's stack."""

    def __init__(self, instance: TaskInstance, backend: Backend, *, step_timeout_s: float) -> None:
        self.instance = instance
        self._backend = backend
        self._step_timeout_s = step_timeout_s

    @property
    def is_live(self) -> bool:
        """Whether services are judged, in the sandbox in which they run."""
        return self.instance.state_scope == "live"

    def make(
        self,
        stack: ExitStack,
        commands: Sequence[str],
        *,
        before: Prepare | None = None,
        after: Prepare | None = None,
        to_the_end: bool = False,
        over: FrozenState | None = None,
    ) -> EndState:
        """What the commands leave in a fresh sandbox, or in one over a frozen state, until the stack is closed.

        They stop at the first one that fails, unless `to_the_end`. Raises SandboxUnavailable, ImageMissing.
        """
        with ExitStack() as own:
            limits = self.instance.limits
            started = self._backend.restore(over, limits) if over else self._backend.start(self._image, limits)
            sandbox = own.enter_context(closing(started))
            if before is not None:
                before(sandbox)
            fault = self._carry_out(commands, sandbox, to_the_end)
            if after is not None:
                after(sandbox)
            if self.is_live:
                stack.push(own.pop_all())
                return EndState(sandbox, fault)
            state = sandbox.freeze(f"admission-{secrets.token_hex(8)}", keep=False)
            stack.callback(self._backend.discard, state.reference)
            return EndState(state, fault)

    def judge(self, end: EndState, conditions: Conditions = USUAL) -> Judgement:
        """What the verifier says about an end state. Raises VerifierBroken, SandboxUnavailable, ImageMissing."""
        verifier, limits = self.instance.verifier, self.instance.limits
        if isinstance(end.left, FrozenState):
            return self._backend.judge(
                end.left, verifier.texts, limits=limits, timeout_s=verifier.timeout_s, conditions=conditions
            )
        return self._backend.judge_live(
            end.left, verifier.texts, limits=limits, timeout_s=verifier.timeout_s, conditions=conditions
        )

    @property
    def _image(self) -> str:
        return self.instance.image

    def _carry_out(self, commands: Sequence[str], sandbox: Sandbox, to_the_end: bool) -> str:
        fault = ""
        for command in commands:
            result = sandbox.execute(command, timeout_s=self._step_timeout_s)
            if result.exit_code != 0:
                fault = fault or f"exit code {result.exit_code} of {command[:80]!r}: {result.output[-160:]}"
                if not to_the_end:
                    break
        return fault
