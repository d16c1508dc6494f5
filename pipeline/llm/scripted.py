"""A model whose answers were written beforehand: for tests, and to repeat a conversation without a server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from pipeline.llm.protocol import Completion, Message, ModelUnavailable, Sampling


class ScriptedModel:
    """A ChatModel that gives its answers in turn; an answer that is an error is raised."""

    def __init__(self, answers: Sequence[str | Exception], name: str = "scripted") -> None:
        self._answers = list(answers)
        self._name = name
        self._lock = threading.Lock()
        self.asked: list[tuple[Message, ...]] = []
        """The messages of every call, first to last."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def details(self) -> Mapping[str, str]:
        return {}

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The next answer. Raises ModelUnavailable after the last one."""
        with self._lock:
            number = len(self.asked)
            self.asked.append(tuple(messages))
        if number >= len(self._answers):
            raise ModelUnavailable(f"the script has {len(self._answers)} answers and was asked once more")
        answer = self._answers[number]
        if isinstance(answer, Exception):
            raise answer
        return Completion(
            text=answer,
            finish_reason="stop",
            model=self._name,
            prompt_tokens=None,
            completion_tokens=None,
            seconds=0.0,
        )
