"""How the nouns of types.py become rows of the working tables, and back. Columns are named in schemas.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from pipeline.contexts import DescribedContext
from pipeline.errors import PipelineError
from pipeline.image_attempts import Attempt
from pipeline.schemas import Row, to_rows
from pipeline.tables import Store
from pipeline.types import (
    Checkout,
    Domain,
    Repository,
    Score,
    Step,
    TaskInstance,
    Trajectory,
    VerificationResult,
    Verifier,
)
from sandbox.types import Limits

M = TypeVar("M", bound=BaseModel)


def _fields(model: type[M], row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in model.model_fields if name in row}


def _flat(prefix: str, model: BaseModel) -> Row:
    return {f"{prefix}_{name}": value for name, value in model.model_dump().items()}


def repository_row(repository: Repository) -> Row:
    return {"repository_id": repository.repository_id, **repository.model_dump()}


def repository_of(row: Mapping[str, object]) -> Repository:
    return Repository.model_validate(_fields(Repository, row))


def checkout_row(repository: Repository, checkout: Checkout) -> Row:
    return {**repository_row(repository), **checkout.model_dump()}


def checkout_of(row: Mapping[str, object]) -> Checkout:
    return Checkout.model_validate(_fields(Checkout, row))


def context_row(
    repository: Repository, domain: Domain, context: DescribedContext, retrieved_at: datetime | None
) -> Row:
    """Several versions of a domain may hold one context: its id and the repository's name one row."""
    return {
        **context.model_dump(exclude={"files"}),
        "context_id": context.context_id(domain),
        "repository_id": repository.repository_id,
        "domain": domain,
        "path": context.path,
        "retrieved_at": retrieved_at,
    }


def score_row(score: Score) -> Row:
    return score.model_dump()


def build_row(repository_id: str, attempt: Attempt) -> Row:
    """One attempt at the image of a repository."""
    candidate, build, check = attempt.candidate, attempt.build, attempt.check
    dockerfile = candidate.spec.dockerfile
    row: Row = {
        "repository_id": repository_id,
        "strategy": candidate.strategy,
        "repairs": list(candidate.repairs),
        "dockerfile": dockerfile,
        "dockerfile_sha256": hashlib.sha256(dockerfile.encode("utf-8", "surrogatepass")).hexdigest(),
        "image_digest": build.digest,
        "hosts": list(build.hosts),
        **build.model_dump(exclude={"digest", "hosts"}),
    }
    if check is not None:
        row |= check.model_dump(exclude={"seconds"}) | {"check_seconds": check.seconds}
        if not check.smoke_ok:
            row["failure_class"] = "smoke_failed"
            row["reason"] = f"built, but `{check.smoke_command}` does not work: {check.smoke_log[-300:].strip()}"
    return row


def instance_row(instance: TaskInstance) -> Row:
    return {
        **instance.model_dump(exclude={"verifier", "limits"}),
        "instance_id": instance.instance_id,
        **_flat("verifier", instance.verifier),
        "verifier_sha256": instance.verifier.sha256,
        **_flat("limits", instance.limits),
    }


def instance_of(row: Mapping[str, object]) -> TaskInstance:
    verifier = Verifier.model_validate(
        {
            "kind": row["verifier_kind"],
            "files": row["verifier_files"],
            "command": row["verifier_command"],
            "timeout_s": row["verifier_timeout_s"],
            "passing_tests": row["verifier_passing_tests"],
        }
    )
    limits = Limits.model_validate({name: row[f"limits_{name}"] for name in Limits.model_fields})
    fields = _fields(TaskInstance, row) | {"verifier": verifier, "limits": limits}
    return TaskInstance.model_validate(fields | {"provenance": _mapping(row["provenance"])})


def _mapping(pairs: object) -> dict[str, object]:
    assert isinstance(pairs, list)
    return {pair["key"]: pair["value"] for pair in pairs}


def trajectory_row(trajectory: Trajectory) -> Row:
    return {
        **trajectory.model_dump(),
        "trajectory_id": trajectory.trajectory_id,
        "n_turns": len(trajectory.steps),
        "n_tokens": sum(step.tokens for step in trajectory.steps),
        "n_prompt_tokens": sum(int(call.get("prompt_tokens") or 0) for call in _calls(trajectory)),
        "cost_usd": sum(costs) if (costs := [c["cost_usd"] for c in _calls(trajectory) if "cost_usd" in c]) else None,
        "messages": list(trajectory.messages),
    }


def _calls(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [call for step in trajectory.steps for call in step.extra.get("calls", ())]


def trajectory_of(row: Mapping[str, object]) -> Trajectory:
    steps = row["steps"]
    assert isinstance(steps, list)
    return Trajectory.model_validate(
        _fields(Trajectory, row)
        | {
            "sampling": json.loads(str(row["sampling"])),
            # Rows of schema 2 and before know neither.
            "details": json.loads(str(row["details"] or "{}")),
            "messages": tuple(_as_list(row["messages"])),
            "interface": row["interface"] or "shell",
            "steps": tuple(Step.model_validate(step | {"extra": json.loads(step["extra"])}) for step in steps),
        }
    )


def _as_list(value: object) -> list[Any]:
    assert value is None or isinstance(value, list)
    return value or []


def verification_row(result: VerificationResult) -> Row:
    return result.model_dump(exclude={"failure_class"}) | {
        "failure_class": result.failure_class,
        "reason": result.log_tail[-500:] if result.failure_class else "",
    }


class RowMissing(PipelineError):
    """A row that another one names is not in its table: somebody removed files of the data folder."""


def _named(rows: Mapping[object, Row], key: object, table: str) -> Row:
    if key not in rows:
        raise RowMissing(
            f"the table {table} has no row {key}, which other tables name; put tables/{table} of the data folder back "
            "as it was, or start over with another data folder (--data)"
        )
    return rows[key]


class JudgedRow(NamedTuple):
    """An attempt with a verdict: what a replay needs."""

    instance: TaskInstance
    trajectory: Trajectory
    outcome: Literal["passed", "failed"]


def judged_rows(store: Store) -> list[JudgedRow]:
    """Every attempt that has a verdict, passed and failed, sorted by trajectory id. Raises RowMissing."""
    instances = {row["instance_id"]: row for row in to_rows(store.current("instances")) if row["instance_id"]}
    trajectories = {row["trajectory_id"]: row for row in to_rows(store.current("trajectories"))}
    judged = []
    for row in sorted(to_rows(store.current("verifications")), key=lambda row: str(row["trajectory_id"])):
        outcome = row["outcome"]
        if outcome == "passed" or outcome == "failed":
            trajectory = _named(trajectories, row["trajectory_id"], "trajectories")
            instance = _named(instances, trajectory["instance_id"], "instances")
            judged.append(JudgedRow(instance_of(instance), trajectory_of(trajectory), outcome))
    return judged


def verified_rows(store: Store) -> Iterator[Row]:
    """Rows of the published schema: each attempt that passed, with its instance and its repository.

    Raises RowMissing.
    """
    repositories = {row["repository_id"]: row for row in to_rows(store.current("repositories"))}
    instances = {row["instance_id"]: row for row in to_rows(store.current("instances")) if row["instance_id"]}
    trajectories = {row["trajectory_id"]: row for row in to_rows(store.current("trajectories"))}
    for verification in sorted(to_rows(store.current("verifications")), key=lambda row: str(row["trajectory_id"])):
        if verification["outcome"] != "passed":
            continue
        trajectory = _named(trajectories, verification["trajectory_id"], "trajectories")
        instance = _named(instances, trajectory["instance_id"], "instances")
        repository = _named(repositories, instance["repository_id"], "repositories")
        yield {
            **{name: repository[name] for name in ("source", "full_name", "commit", "license", "license_sha256")},
            **{name: instance[name] for name in _PUBLISHED_OF_INSTANCE},
            **{name: trajectory[name] for name in _PUBLISHED_OF_TRAJECTORY},
            "provenance": _mapping(instance["provenance"]),
            "messages": trajectory["messages"] or messages(instance_of(instance), trajectory_of(trajectory)),
            "outcome": verification["outcome"],
            "tests": verification["tests"],
            "integrity": verification["integrity"],
        }


_PUBLISHED_OF_INSTANCE = (
    "instance_id",
    "repository_id",
    "language",
    "domain",
    "family",
    "difficulty",
    "instruction",
    "solution",
    "verifier_files",
    "verifier_command",
    "verifier_timeout_s",
    "verifier_passing_tests",
    "verifier_sha256",
    "image_digest",
    "generator",
)
_PUBLISHED_OF_TRAJECTORY = (
    "trajectory_id",
    "agent",
    "model",
    "sampling",
    "sample",
    "steps",
    "n_turns",
    "n_tokens",
    "stop_reason",
    "backend",
)


def messages(instance: TaskInstance, trajectory: Trajectory) -> list[dict[str, str]]:
    """An attempt without a model as a chat: the instruction, a command and what it answered in turn, last the hand-in.

    User and assistant alternate and the assistant ends, as trainers ask for.
    """
    chat = [{"role": "user", "content": instance.instruction}]
    for index, step in enumerate(trajectory.steps):
        thought = f"{step.thought}\n\n" if step.thought else ""
        said = f"```bash\n{step.action}\n```" if step.action else "The task is complete."
        chat.append({"role": "assistant", "content": thought + said})
        if step.action and index + 1 < len(trajectory.steps):
            observed = trajectory.steps[index + 1].observation
            chat.append({"role": "user", "content": f"[exit code {step.exit_code}]\n{observed}"})
    return chat
