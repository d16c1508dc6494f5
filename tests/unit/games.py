"""A game of two rooms in this process: go through the door, take the lamp. For tests of what is done with games."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.environment import StepOutcome
from pipeline.types import Interface, TaskInstance, Verifier
from sandbox.types import FileChange

WAY = ("open door", "go east", "take lamp")


def lamp_task(variation: str = "0", split: str = "train") -> TaskInstance:
    return TaskInstance(
        repository_id="repo-lamp",
        image_digest=None,
        instruction=f"Take lamp {variation}.",
        solution=WAY,
        verifier=Verifier(kind="environment", files=(), command=""),
        generator="lamps",
        domain="game",
        language="text",
        family="take",
        difficulty="easy",
        provenance={"environment": "lamps", "task_type": "take", "variation": variation, "split": split},
    )


class LampGame:
    """See pipeline.environment.Environment."""

    def __init__(self) -> None:
        self.done = 0

    def reset(self) -> str:
        self.done = 0
        return "You are in a hall. There is a door."

    def step(self, command: str) -> StepOutcome:
        right = self.done < len(WAY) and command == WAY[self.done]
        before, self.done = self.done, self.done + right
        score = {0: 0.0, 1: 0.0, 2: 0.5, 3: 1.0}
        return StepOutcome(
            observation=f"You did it: {command}." if right else "Nothing happens.",
            exit_code=None,
            seconds=0.0,
            done=self.done == len(WAY),
            extra={"reward": score[self.done] - score[before], "score": score[self.done], "rejected": not right},
        )

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        del reference
        return ""

    def close(self) -> None:
        pass


class LampGames:
    """See pipeline.interfaces.Environments."""

    name = "lamps"

    @contextmanager
    def opened(self, instance: TaskInstance, interface: Interface) -> Iterator[LampGame]:
        assert interface == "shell"
        yield LampGame()
