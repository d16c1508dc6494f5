"""The contract of an agent: from a task and what happened so far to the next action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pipeline.errors import PipelineError
from pipeline.types import Action, Interface, Step, TaskInstance


class ContextFull(PipelineError):
    """What the model has to know of the attempt does not fit its context any more, however much is left out."""


class Agent(Protocol):
    """Decides; keeps no state between calls, so that one object serves many attempts at a time."""

    @property
    def name(self) -> str:
        """Name stored on trajectories."""

    @property
    def interface(self) -> Interface:
        """What its commands are for."""

    @property
    def model(self) -> str | None:
        """Name of the model that decides; None for an agent without one."""

    @property
    def sampling(self) -> Mapping[str, Any]:
        """How the model's tokens are chosen, the seed included: with the agent and the model it names the attempt."""

    @property
    def details(self) -> Mapping[str, str]:
        """What else tells the policy apart, e.g. hashes of its prompts."""

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """The next action. `observation` is what the last action of `history` brought (empty at the start).

        An action without a command hands the task in, unless it says what the agent is told. Raises ContextFull; a
        model that cannot be reached raises the error of its ChatModel.
        """

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """The chat behind `history` as the model saw it last (role, content).

        Empty for an agent without a model, and for one whose prompts each stand alone.
        """
