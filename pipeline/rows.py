"""How the nouns of types.py become rows of the working tables, and back. Columns are named in schemas.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from pipeline.contexts import DescribedContext
from pipeline.image_attempts import Attempt
from pipeline.schemas import Row
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
    # Rows of version 1 have no submodules.
    return Checkout.model_validate({**_fields(Checkout, row), "submodules": row.get("submodules") or ()})


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
