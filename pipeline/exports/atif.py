"""One recorded attempt as an ATIF-v1.8 document (Agent Trajectory Interchange Format), as harbor 0.26.0 reads it.

Nothing of the attempt is left out: what the format has no field for is under `extra`. One turn becomes one step of the
agent, and one more before it when the model summed up what had been done; what an agent was told in place of an output
becomes a step of the user. Solution and verifier stay out: the document is about an attempt, and is read by trainers.

Not here: the folder that `harbor view` opens (atif_job.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.exports.recorded import RecordedAttempt
from pipeline.schemas import canonical_json, clean_text
from pipeline.terminal_environment import BATCH, COLUMNS, ROWS
from pipeline.types import Interface, ModelCall, Step, TaskInstance, Trajectory, VerificationResult

SCHEMA_VERSION = "ATIF-v1.8"
IMPOSSIBLE = -9999.0
"""Written for a log-probability that is no finite number, which JSON cannot hold."""

_SHELL, _TERMINAL = "bash_command", "keystrokes"
_OF_THE_CALL = ("purpose", "prompt_sha256", "finish_reason", "seconds")
"""What the format has no field for."""
_COUNTED = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
_TASK = ("repository_id", "image_digest", "generator", "domain", "language", "family", "seed", "difficulty")


def document(attempt: RecordedAttempt) -> dict[str, Any]:
    """The attempt with its task and its verdict, ready for JSON."""
    trajectory = attempt.trajectory
    steps = [{"step_id": number, **step} for number, step in enumerate(_steps(attempt), 1)]
    found = {
        "schema_version": SCHEMA_VERSION,
        "session_id": trajectory.trajectory_id,
        "trajectory_id": trajectory.trajectory_id,
        "agent": _agent(trajectory),
        "steps": steps,
        "final_metrics": totals(trajectory) | {"total_steps": len(steps), "extra": {"turns": len(trajectory.steps)}},
        "extra": _extra(attempt),
    }
    cleaned = _clean(found)
    assert isinstance(cleaned, dict)
    return cleaned


def calls_of(step: Step) -> list[ModelCall]:
    """The questions to a model behind a turn."""
    # What a server does not tell is missing in the row.
    unknown = dict.fromkeys(_COUNTED)
    return [ModelCall.model_validate(unknown | call) for call in step.extra.get("calls", ())]


def totals(trajectory: Trajectory) -> dict[str, float]:
    """Sums over all questions to the model; what no answer told is missing."""
    calls = [call for step in trajectory.steps for call in calls_of(step)]
    found: dict[str, float] = {}
    for name in _COUNTED:
        known = [value for call in calls if (value := getattr(call, name)) is not None]
        if known:
            found[f"total_{name}"] = sum(known)
    return found


def agent_version(trajectory: Trajectory) -> str:
    """Tells the prompts of an agent apart; `1` for an agent without any."""
    prompts = {name: text for name, text in trajectory.details.items() if name.startswith(trajectory.agent)}
    return hashlib.sha256(canonical_json(prompts).encode()).hexdigest()[:12] if prompts else "1"


def _agent(trajectory: Trajectory) -> dict[str, Any]:
    return _known(
        name=trajectory.agent,
        version=agent_version(trajectory),
        model_name=trajectory.model,
        tool_definitions=[_tool(trajectory.interface)],
        extra={"interface": trajectory.interface, "sampling": trajectory.sampling, "details": trajectory.details},
    )


def _tool(interface: Interface) -> dict[str, Any]:
    text, seconds = {"type": "string"}, {"type": "number"}
    if interface == "terminal":
        name, told = _TERMINAL, f"Type keys into a terminal of {ROWS} rows and {COLUMNS} columns, and look at it."
        properties, required = {"keystrokes": text, "duration": seconds}, ["keystrokes"]
    else:
        name, told = _SHELL, "Run a command in a shell that keeps its state; its output and exit code come back."
        properties, required = {"command": text}, ["command"]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": told, "parameters": parameters}}


def _extra(attempt: RecordedAttempt) -> dict[str, Any]:
    trajectory = attempt.trajectory
    names = {"instance_id", "sample", "stop_reason", "state_reference", "backend", "messages", "changes"}
    return {
        **trajectory.model_dump(mode="json", include=names),
        "task": _task(attempt.instance),
        "verdict": None if attempt.verdict is None else _verdict(attempt.verdict),
    }


def _task(instance: TaskInstance) -> dict[str, Any]:
    found = instance.model_dump(mode="json", include={*_TASK, "context_ids", "provenance"})
    return found | {"verifier_sha256": instance.verifier.sha256}


def _verdict(verdict: VerificationResult) -> dict[str, Any]:
    return verdict.model_dump(mode="json", exclude={"trajectory_id"})


def _steps(attempt: RecordedAttempt) -> Iterator[dict[str, Any]]:
    trajectory = attempt.trajectory
    steps = trajectory.steps
    if steps and steps[0].observation:
        shown = {"results": [{"content": steps[0].observation}]}
        yield {"source": "system", "message": "The environment was started.", "observation": shown}
    yield {"source": "user", "message": attempt.instance.instruction}
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        calls = calls_of(step)
        for call in calls[:-1]:
            yield {"source": "system", "message": "What was done so far did not fit the context any more."}
            yield _asked(call, message=call.answer, extra={"turn": step.index})
        yield _decision(trajectory, step, calls[-1:], following)
        if "told" in step.extra:
            yield {"source": "user", "message": step.extra["told"], "extra": {"turn": step.index}}


def _decision(trajectory: Trajectory, step: Step, calls: Sequence[ModelCall], following: Step | None) -> dict[str, Any]:
    others = {name: value for name, value in step.extra.items() if name not in ("calls", "told")}
    extra = others | {"turn": step.index, "seconds": step.seconds, "tokens": step.tokens}
    acted: dict[str, Any] = {}
    if step.action:
        made = _tool_calls(trajectory.interface, step)
        result = _known(
            source_call_id=made[-1]["tool_call_id"] if made else None,
            content=None if following is None else following.observation,
            extra={"exit_code": step.exit_code, "seconds": step.seconds},
        )
        extra["exit_code"] = step.exit_code
        acted = {"tool_calls": made, "observation": {"results": [result]}}
    elif "told" not in step.extra:
        extra["handed_in"] = True
    if calls:
        thought = {"reasoning_content": step.thought} if step.thought else {}
        return _asked(calls[0], message=calls[0].answer, extra=extra, **thought, **acted)
    if trajectory.model is None:
        return {"source": "agent", "message": step.thought, "llm_call_count": 0, "extra": extra, **acted}
    return {"source": "agent", "message": step.thought, "extra": extra, **acted}


def _asked(call: ModelCall, *, extra: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The step of the agent that one answer of a model is."""
    ids = call.model_dump(mode="json", include={"prompt_token_ids", "completion_token_ids"})
    counted = {name: getattr(call, name) for name in _COUNTED}
    chances = None if call.logprobs is None else [one if math.isfinite(one) else IMPOSSIBLE for one in call.logprobs]
    other = {name: getattr(call, name) for name in _OF_THE_CALL}
    return {
        "source": "agent",
        "model_name": call.model,
        "llm_call_count": 1,
        "metrics": _known(**counted, **ids, logprobs=chances, extra=other),
        "extra": dict(extra),
        **fields,
    }


def _tool_calls(interface: Interface, step: Step) -> list[dict[str, Any]]:
    """Each command, or each text of keys that was typed before the screen was looked at."""
    if interface == "shell":
        return [_tool_call(step, 1, _SHELL, {"command": step.action})]
    batch = BATCH.validate_json(step.action)
    return [_tool_call(step, number, _TERMINAL, one.model_dump()) for number, one in enumerate(batch, 1)]


def _tool_call(step: Step, number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    identity = f"turn-{step.index}-call-{number}"
    return {"tool_call_id": identity, "function_name": name, "arguments": arguments}


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _clean(value: object) -> object:
    """Texts as valid Unicode: what a program wrote may hold halves of characters, which readers refuse."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return value
