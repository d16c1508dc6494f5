"""What a language model thinks of an attempt: to be compared with the verdict by execution, and never in its place.

The model reads the instruction and the transcript. It sees neither the verifier nor the solution: nothing here takes
them. Where opinions are kept: pipeline/stages/judging.py; how far they agree with verdicts: rollout_report.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from pipeline.agents.calling import ask
from pipeline.agents.protocol import ContextFull
from pipeline.llm.answers import NoAnswer, object_of
from pipeline.llm.protocol import ChatModel, Message, PromptRefused, Sampling
from pipeline.prompts import fenced, prompt
from pipeline.types import ModelCall, Record, Step, Trajectory

PROMPT = "judge_attempt"
NO_ANSWER = "no_answer"
"""Failure class of an answer that is no opinion, asked twice."""
PROMPT_REFUSED = "prompt_refused"
"""Failure class of a transcript that the model does not take, however much is left out."""
_TRIES = 2
_MAX_TOKENS = 1024
_KEPT = (20_000, 2_000, 500, 120)
"""Most characters of one text of the transcript, in forms of it that are shorter and shorter."""
_SHOWN = 300


class _Answer(Record):
    reason: str = ""
    outcome: Literal["passed", "failed"]


class Opinion(Record):
    """One model on one attempt."""

    trajectory_id: str
    model: str
    details: dict[str, str] = Field(default_factory=dict)
    """What tells the model from another one of its name."""
    prompt_sha256: str
    """Of the wording of the question."""
    outcome: Literal["passed", "failed", "error"]
    """`error`: the model was there and gave no opinion."""
    reason: str
    failure_class: str | None = None
    """Why there is no opinion; None where there is one."""
    calls: tuple[ModelCall, ...] = ()
    """The questions behind it."""


def opinion(instruction: str, trajectory: Trajectory, model: ChatModel) -> Opinion:
    """Ask once, and once more when the answer cannot be read. Raises ModelUnavailable and ConfigurationError."""
    calls: list[ModelCall] = []

    def said(outcome: Literal["passed", "failed", "error"], reason: str, failure_class: str | None = None) -> Opinion:
        return Opinion(
            trajectory_id=trajectory.trajectory_id,
            model=model.name,
            details=dict(model.details),
            prompt_sha256=prompt(PROMPT).sha256,
            outcome=outcome,
            reason=reason,
            failure_class=failure_class,
            calls=tuple(calls),
        )

    sampling = Sampling(max_tokens=_MAX_TOKENS, seed=0, answer_schema=_Answer.model_json_schema())
    again: list[Message] = []
    fault = ""
    for _ in range(_TRIES):
        talks = ([question, *again] for question in _questions(instruction, trajectory))
        try:
            completion, call = ask(model, talks, sampling)
        except (ContextFull, PromptRefused) as error:
            return said("error", str(error), PROMPT_REFUSED)
        calls.append(call)
        try:
            answer = object_of(completion.text, _Answer)
        except NoAnswer as error:
            fault = f"{error}: {completion.text[:_SHOWN]}"
            complaint = f"That cannot be used: {error}. Answer with the JSON object alone."
            # A server may refuse a message without any text.
            earlier = Message(role="assistant", content=completion.text or "(no answer)")
            again = [earlier, Message(role="user", content=complaint)]
            continue
        return said(answer.outcome, answer.reason)
    return said("error", fault, NO_ANSWER)


def transcript(trajectory: Trajectory, kept: int) -> str:
    """What the agent thought and did and what it saw, each text cut to `kept` characters, the middle left out."""
    seen = [step.observation for step in trajectory.steps[1:]]
    parts = []
    for number, step in enumerate(trajectory.steps):
        parts.append(_did(number + 1, step, trajectory, kept))
        if number < len(seen):
            parts.append(f"{_answered(step)}:\n{_cut(seen[number], kept) or '(nothing)'}")
    if trajectory.stop_reason != "submitted":
        parts.append(f"[the attempt was ended: {trajectory.stop_reason}]")
    return "\n\n".join(parts)


def _questions(instruction: str, trajectory: Trajectory) -> Iterator[Message]:
    for kept in _KEPT:
        text = prompt(PROMPT).render(instruction=fenced(instruction), transcript=fenced(transcript(trajectory, kept)))
        yield Message(role="user", content=text)


def _did(number: int, step: Step, trajectory: Trajectory, kept: int) -> str:
    thought = f"{_cut(step.thought, kept)}\n" if step.thought else ""
    if step.action:
        done = f"{'keys' if trajectory.interface == 'terminal' else '$'} {_cut(step.action, kept)}"
    else:
        done = "(no action)" if "told" in step.extra else "(hands in)"
    return f"[{number}] {thought}{done}"


def _answered(step: Step) -> str:
    return "it saw" if step.exit_code is None else f"exit code {step.exit_code}, it saw"


def _cut(text: str, kept: int) -> str:
    text = text.strip()
    if len(text) <= kept:
        return text
    half = kept // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
