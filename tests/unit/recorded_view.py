"""Working tables with a few attempts, or one whose every text tries to break out of a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.rows import checkout_row, instance_row, trajectory_row, verification_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import (
    Checkout,
    Repository,
    Step,
    TaskInstance,
    Trajectory,
    VerificationResult,
    Verifier,
    VerifierFile,
)
from sandbox.types import FileChange, TestOutcome

OWN = "document.title='owned';window.owned=1;alert(1);fetch('http://127.0.0.1:9/')"
HOSTILE = "\n".join(
    [
        f"<script>{OWN}</script>",
        f"</script><script>{OWN}</script>",
        f"<!--<script></script>--><script>{OWN}</script>",
        f'"><img src="http://127.0.0.1:9/i.png" onerror="{OWN}">',
        f"'><svg onload={OWN}></svg>",
        f"</pre></summary></style></title></textarea><script>{OWN}</script>",
        "<style>body{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/s.css>",
        '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/"><base href="http://127.0.0.1:9/">',
        f"<iframe srcdoc='<script>{OWN}</script>'></iframe><a href=\"javascript:{OWN}\">there</a>",
        "{{ 7 * 7 }} {% raw %} ${7*7} &lt;b&gt; &#x3c;b>",
        "sep\u2028arated\u2029 \x00 \x1b[2J\x1b]0;owned\x07 \x9b31m \u202eback\u2066wards \U000e0041 \r over",
    ]
)


def repository(name: str = "local/words") -> Repository:
    return Repository(source="local", full_name=name, commit="1", language="python", locator="words")


def record(
    store: Store,
    tasks: Sequence[TaskInstance],
    trajectories: Sequence[Trajectory],
    verdicts: Sequence[VerificationResult] = (),
    *,
    of: Repository | None = None,
) -> None:
    """The rows of attempts, one attempt that broke off among them."""
    found = of or repository()
    checkout = Checkout(
        repository_id=found.repository_id,
        tree_sha256="0" * 64,
        n_files=1,
        n_bytes=1,
        license="MIT",
        license_path="LICENSE",
        license_sha256="0" * 64,
    )
    broken: Row = {"agent": "bash", "failure_class": "infrastructure", "reason": "the engine is gone"}
    _append(store, "repositories", [checkout_row(found, checkout)])
    _append(store, "instances", [instance_row(task) for task in tasks])
    _append(store, "trajectories", [*map(trajectory_row, trajectories), broken])
    _append(store, "verifications", [verification_row(one) for one in verdicts])


def _append(store: Store, table: str, rows: Sequence[Row]) -> None:
    stamped: Row = {"attempt": 1, "recorded_at": datetime(2026, 11, 2, tzinfo=UTC)}
    batch = [row | stamped | {"item_key": str(number)} for number, row in enumerate(rows)]
    store.append(table, batch, app_id=table, sequence=1)


def record_second_opinions(store: Store, attempt: Trajectory) -> None:
    of: Row = {"trajectory_id": attempt.trajectory_id}
    opinions = {"outcome": "passed", "model": "judge-model", "reason": "It looks right."}
    _append(store, "judgements", [of | opinions])
    _append(store, "replays", [of | {"recorded": "failed", "replayed": "passed", "reason": "A file was late."}])


def task_of(found: Repository, task: TaskInstance, instruction: str) -> TaskInstance:
    return task.model_copy(update={"repository_id": found.repository_id, "instruction": instruction})


def plain_attempt(task: TaskInstance, agent: str = "bash", model: str | None = "small", sample: int = 0) -> Trajectory:
    """Three steps: a command that works, an answer that is none, the hand-in."""
    call = {
        "purpose": "decision",
        "model": model,
        "prompt_sha256": "ab" * 32,
        "answer": "I count.",
        "finish_reason": "stop",
        "prompt_tokens": 812,
        "cached_tokens": 512,
        "completion_tokens": 33,
        "seconds": 1.25,
        "cost_usd": 0.5,
    }
    asked = {"calls": [call]} if model else {}
    steps = (
        Step(
            index=0,
            observation="",
            thought="Count.",
            action="wc -l a",
            exit_code=3,
            seconds=0.5,
            tokens=33,
            extra=asked,
        ),
        Step(index=1, observation="12 a", thought="Hm.", action="", extra=asked | {"told": "That is no command."}),
        Step(index=2, observation="That is no command.", thought="Finished.", action=""),
    )
    return Trajectory(
        instance_id=task.instance_id,
        agent=agent,
        model=model,
        sampling={"temperature": 0.7} if model else {},
        sample=sample,
        steps=steps,
        changes=(FileChange(path=steps[0].action, kind="added", type="file", size=2, mode=0o644),),
        stop_reason="submitted",
        state_reference="state",
        backend="overlay",
    )


def verdict(attempt: Trajectory, *, passed: bool) -> VerificationResult:
    outcome = TestOutcome(
        test_id="test_state.py::test_count",
        outcome="passed" if passed else "failed",
        message="" if passed else "AssertionError: 12 is not 3",
    )
    return VerificationResult(
        trajectory_id=attempt.trajectory_id, outcome="passed" if passed else "failed", tests=(outcome,), seconds=0.4
    )


def record_hostile(store: Store, task: TaskInstance, text: str = HOSTILE) -> list[Trajectory]:
    """Two attempts, with commands and with keys, that hold `text` wherever a text is free."""
    found = repository(text)
    hostile = task.model_copy(
        update={
            "repository_id": found.repository_id,
            "instruction": text,
            "solution": (text, text),
            "verifier": Verifier(files=(VerifierFile(path=text, content=text),), command=text, passing_tests=(text,)),
            "generator": text,
            "domain": text,
            "family": text,
            "context_ids": (text,),
            "provenance": {text: text},
        }
    )
    call = {"purpose": "summary", "model": text, "prompt_sha256": text, "answer": text, "finish_reason": text}
    extra = {"calls": [call | {"seconds": 1.0}], "terminal": text}
    keys = json.dumps([{"keystrokes": text, "duration": 1}])
    attempts = []
    for interface, action in (("shell", text), ("terminal", keys)):
        steps = (
            Step(index=0, observation=text, thought=text, action=action, exit_code=1, extra=extra),
            Step(index=1, observation=text, thought=text, action="", extra=extra | {"told": text}),
            Step(index=2, observation=text, thought=text, action=text),
        )
        attempt = plain_attempt(hostile).model_copy(
            update={
                "agent": f"{interface} {text}",
                "model": text,
                "sampling": {text: text},
                "details": {text: text},
                "interface": interface,
                "steps": steps,
                "backend": text,
            }
        )
        attempts.append(attempt)
    results = [
        VerificationResult(
            trajectory_id=one.trajectory_id,
            outcome="error",
            tests=(TestOutcome(test_id=f"of {text}", outcome="failed", message=text),),
            seconds=1.0,
            integrity=(text,),
            backend=text,
            failure_class=text,
            log_tail=text,
        )
        for one in attempts
    ]
    record(store, [hostile], attempts, results, of=found)
    of: Row = {"trajectory_id": attempts[0].trajectory_id, "reason": text}
    _append(store, "judgements", [of | {"outcome": text, "model": text}])
    _append(store, "replays", [of | {"replayed": text, "recorded": text}])
    return attempts
