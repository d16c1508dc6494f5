"""Recorded answers in place of what a test has no need of: a sandbox with registries' clients, a model, a terminal."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence

from pipeline.agents.protocol import Agent
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Completion, ContextOverflow, Message, Sampling
from pipeline.types import Step, TaskInstance
from sandbox.errors import SandboxUnavailable
from sandbox.types import USUAL, Conditions, ExecResult, FileChange, FrozenState, Judgement, Limits


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class RecordedSandbox:
    """Gives recorded answers in turn, and recorded files."""

    image_digest = "sha256:recorded"

    def __init__(self, answers: list[ExecResult], files: dict[str, bytes]) -> None:
        self.answers = list(answers)
        self.files = files
        self.commands: list[str] = []
        self.closed = False

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        self.commands.append(command)
        return self.answers.pop(0)

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        data = self.files.get(path.rpartition("/")[2])
        if data is not None and len(data) > max_bytes:
            raise ValueError(path)
        return data

    def close(self) -> None:
        self.closed = True

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        raise NotImplementedError("fetching puts nothing")

    def changes(self) -> list[FileChange]:
        raise NotImplementedError("fetching compares nothing")

    def freeze(self, reference: str) -> FrozenState:
        raise NotImplementedError("fetching freezes nothing")


class RecordedBackend:
    """Starts the one recorded sandbox, or is unreachable."""

    name = "recorded"

    def __init__(self, sandbox: RecordedSandbox | None) -> None:
        self.sandbox = sandbox
        self.started: list[tuple[str, Limits]] = []

    def start(self, image_digest: str, limits: Limits) -> RecordedSandbox:
        if self.sandbox is None:
            raise SandboxUnavailable("the engine is gone")
        self.started.append((image_digest, limits))
        return self.sandbox

    def restore(self, state: FrozenState, limits: Limits) -> RecordedSandbox:
        raise NotImplementedError("fetching restores nothing")

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        raise NotImplementedError("fetching judges nothing")

    def has_state(self, reference: str) -> bool:
        return False

    def discard(self, reference: str) -> None:
        raise NotImplementedError("fetching keeps no state")

    def reap(self) -> int:
        return 0


def answer(exit_code: int | None, output: str = "") -> ExecResult:
    return ExecResult(
        exit_code=exit_code,
        output=output,
        output_bytes=len(output),
        truncated=False,
        timed_out=exit_code is None,
        seconds=0.1,
    )


class RecordedModel:
    """Gives `answers` in turn, the last one for ever; takes no more than `context` characters of messages."""

    name = "recorded"

    def __init__(
        self, *answers: str | Completion, context: int | None = None, answer: Callable[[int], str] | None = None
    ) -> None:
        """`answer` takes the place of `answers`: it gets the number of the call, from 1."""
        self._answers = answers
        self.answer = answer
        self.context = context
        self._lock = threading.Lock()
        self.details: Mapping[str, str] = {"weights_sha256": "1"}
        self.asked: list[tuple[Message, ...]] = []
        """What was answered."""
        self.refused: list[tuple[Message, ...]] = []
        """What was too long."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        size = sum(len(one.content) for one in messages)
        if self.context is not None and size > self.context:
            self.refused.append(tuple(messages))
            raise ContextOverflow(f"{size} characters are more than {self.context}")
        with self._lock:
            self.asked.append(tuple(messages))
            number = len(self.asked)
            answer = self.answer(number) if self.answer else self._answers[min(number, len(self._answers)) - 1]
        return answer if isinstance(answer, Completion) else said(answer)


def said(text: str, **fields: object) -> Completion:
    """What a model answers, in a second, for ten tokens read and two written."""
    usual: dict[str, object] = {
        "finish_reason": "stop",
        "model": "recorded",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "seconds": 1.0,
    }
    return Completion.model_validate({"text": text, **usual, **fields})


class Acting:
    """An agent as the loop calls it, with observations of the test's choice in place of an environment."""

    def __init__(self, task: TaskInstance, agent: Agent, observe: Callable[[str], StepOutcome]) -> None:
        self._task = task
        self._agent = agent
        self._observe = observe
        self.history: list[Step] = []
        self.observation = ""
        self.submitted = False

    def turn(self) -> Step:
        """One decision and what came of it."""
        action = self._agent.act(self._task, self.history, self.observation)
        extra = action.extra | {"calls": [call.model_dump(mode="json") for call in action.calls]}
        outcome = None
        if action.told is not None:
            extra["told"] = action.told
        if action.command is not None:
            outcome = self._observe(action.command)
        step = Step(
            index=len(self.history),
            observation=self.observation,
            thought=action.thought,
            action=action.command or "",
            exit_code=outcome.exit_code if outcome else None,
            extra=extra,
        )
        self.history.append(step)
        self.submitted = action.command is None and action.told is None
        self.observation = outcome.observation if outcome else (action.told or self.observation)
        return step

    def conversation(self) -> list[tuple[str, str]]:
        """The chat as (role, content)."""
        return [(one["role"], one["content"]) for one in self._agent.conversation(self._task, self.history)]


def roles(chat: Sequence[Message] | Sequence[tuple[str, str]]) -> list[str]:
    return [one.role if isinstance(one, Message) else one[0] for one in chat]


def alternates(chat: Sequence[Message] | Sequence[tuple[str, str]]) -> bool:
    """Whether user and assistant speak in turn, the user first."""
    return roles(chat) == [("user", "assistant")[number % 2] for number in range(len(chat))]
