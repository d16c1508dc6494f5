"""The columns of every table, by name and Arrow type. Versions, and how rows get in and out, are in schemas.py."""

from __future__ import annotations

import pyarrow as pa

TEXT = pa.string()
TEXTS = pa.list_(TEXT)
PAIRS = pa.list_(pa.struct([("key", TEXT), ("value", TEXT)]))
NUMBERS = pa.list_(pa.struct([("key", TEXT), ("value", pa.float64())]))
FILES = pa.list_(pa.struct([("path", TEXT), ("content", TEXT)]))
GATES = pa.list_(pa.struct([("gate", TEXT), ("passed", pa.bool_()), ("evidence", TEXT)]))
VARIANTS = pa.list_(pa.struct([("name", TEXT), ("commands", TEXTS)]))
TESTS = pa.list_(pa.struct([("test_id", TEXT), ("outcome", TEXT), ("message", TEXT)]))
MESSAGES = pa.list_(pa.struct([("role", TEXT), ("content", TEXT)]))
CHANGES = pa.list_(
    pa.struct(
        [
            ("path", TEXT),
            ("kind", TEXT),
            ("type", TEXT),
            ("sha256", TEXT),
            ("size", pa.int64()),
            ("mode", pa.int64()),
        ]
    )
)
STEPS = pa.list_(
    pa.struct(
        [
            ("index", pa.int64()),
            ("observation", TEXT),
            ("thought", TEXT),
            ("action", TEXT),
            ("exit_code", pa.int64()),
            ("seconds", pa.float64()),
            ("tokens", pa.int64()),
            ("extra", TEXT),
        ]
    )
)

FINDINGS = pa.list_(pa.struct([("kind", TEXT), ("text", TEXT), ("placeholder", TEXT), ("count", pa.int64())]))
OVERLAPS = pa.list_(
    pa.struct(
        [
            ("task", TEXT),
            ("part", TEXT),
            ("n_runs", pa.int64()),
            ("short", pa.list_(pa.int64())),
            ("long", pa.list_(pa.int64())),
            ("quoted", TEXTS),
            ("similarity", pa.float64()),
        ]
    )
)

JSON_COLUMNS = frozenset({"details", "extra", "sampling"})
"""Columns, nested ones too, that hold canonical JSON; a mapping given for one is written as such."""

BATCH_COLUMNS: dict[str, pa.DataType] = {
    "item_key": TEXT,
    "attempt": pa.int64(),
    "failure_class": TEXT,
    "reason": TEXT,
    "recorded_at": pa.timestamp("us", tz="UTC"),
}
"""What batch.py adds to every row. `failure_class` and `reason` may be given by the stage, row by row."""

REPOSITORY: dict[str, pa.DataType] = {
    "repository_id": TEXT,
    "source": TEXT,
    "full_name": TEXT,
    "commit": TEXT,
    "language": TEXT,
    "locator": TEXT,
    "archive_sha256": TEXT,
}

LISTINGS: dict[str, pa.DataType] = {"day": TEXT, "stream": TEXT, **REPOSITORY}

REPOSITORIES: dict[str, pa.DataType] = {
    **REPOSITORY,
    "tree_sha256": TEXT,
    "n_files": pa.int64(),
    "n_bytes": pa.int64(),
    "license": TEXT,
    "license_path": TEXT,
    "license_sha256": TEXT,
    "warnings": TEXTS,
    "submodules": pa.list_(pa.struct([("path", TEXT), ("url", TEXT), ("commit", TEXT)])),
}

CONTEXTS: dict[str, pa.DataType] = {
    "context_id": TEXT,
    "repository_id": TEXT,
    "domain": TEXT,
    "name": TEXT,
    "path": TEXT,
    "license": TEXT,
    "license_path": TEXT,
    "license_sha256": TEXT,
    "origin": TEXT,
    "ecosystem": TEXT,
    "package": TEXT,
    "version": TEXT,
    "file": TEXT,
    "sha256": TEXT,
    "n_bytes": pa.int64(),
    "retrieved_at": pa.timestamp("us", tz="UTC"),
}

SCORES: dict[str, pa.DataType] = {
    "repository_id": TEXT,
    "scorer": TEXT,
    "score": pa.float64(),
    "kept": pa.bool_(),
    "features": NUMBERS,
    "explanation": NUMBERS,
    "explored": pa.bool_(),
    "propensity": pa.float64(),
}

IMAGE_BUILDS: dict[str, pa.DataType] = {
    "repository_id": TEXT,
    "strategy": TEXT,
    "dockerfile": TEXT,
    "dockerfile_sha256": TEXT,
    "status": TEXT,
    "image_digest": TEXT,
    "base_substituted": pa.bool_(),
    "seconds": pa.float64(),
    "cached": pa.bool_(),
    "log_tail": TEXT,
    "size_bytes": pa.int64(),
    "repairs": TEXTS,
    "platform": TEXT,
    "builder": TEXT,
    "hosts": TEXTS,
    "registry_reference": TEXT,
    "smoke_ok": pa.bool_(),
    "smoke_command": TEXT,
    "smoke_log": TEXT,
    "tests_ok": pa.bool_(),
    "tests_command": TEXT,
    "tests_log": TEXT,
    "check_seconds": pa.float64(),
}

INSTANCES: dict[str, pa.DataType] = {
    "instance_id": TEXT,
    "repository_id": TEXT,
    "image_digest": TEXT,
    "instruction": TEXT,
    "solution": TEXTS,
    "verifier_kind": TEXT,
    "verifier_files": FILES,
    "verifier_command": TEXT,
    "verifier_timeout_s": pa.int64(),
    "verifier_passing_tests": TEXTS,
    "verifier_sha256": TEXT,
    "generator": TEXT,
    "domain": TEXT,
    "language": TEXT,
    "family": TEXT,
    "seed": pa.int64(),
    "difficulty": TEXT,
    "state_scope": TEXT,
    "limits_memory_mb": pa.int64(),
    "limits_cpus": pa.float64(),
    "limits_pids": pa.int64(),
    "limits_lifetime_s": pa.int64(),
    "limits_network": TEXT,
    "context_ids": TEXTS,
    "provenance": PAIRS,
    "admitted": pa.bool_(),
    "gates": GATES,
    "flake_rate": pa.float64(),
    "repository_image_digest": TEXT,
    "right": VARIANTS,
    "weak": VARIANTS,
}

SELECTIONS: dict[str, pa.DataType] = {
    "instance_id": TEXT,
    "repository_id": TEXT,
    "selected": pa.bool_(),
    "near_copy_of": TEXT,
    "similarity": pa.float64(),
}

CONTAMINATIONS: dict[str, pa.DataType] = {
    "instance_id": TEXT,
    "benchmark_sha256": TEXT,
    "decision": TEXT,
    "task": TEXT,
}

RATINGS: dict[str, pa.DataType] = {
    "instance_id": TEXT,
    "rater": TEXT,
    "kind": TEXT,
    "task_soundness": pa.int64(),
    "evaluability": pa.int64(),
    "information_sufficiency": pa.int64(),
    "behavioural_constrainedness": pa.int64(),
    "remark": TEXT,
    "provenance": PAIRS,
}

TRAJECTORIES: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "instance_id": TEXT,
    "agent": TEXT,
    "model": TEXT,
    "sampling": TEXT,
    "sample": pa.int64(),
    "steps": STEPS,
    "stop_reason": TEXT,
    "state_reference": TEXT,
    "n_turns": pa.int64(),
    "n_tokens": pa.int64(),
    "backend": TEXT,
    "interface": TEXT,
    "messages": MESSAGES,
    "details": TEXT,
    "changes": CHANGES,
    "n_prompt_tokens": pa.int64(),
    "cost_usd": pa.float64(),
}

VERIFICATIONS: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "outcome": TEXT,
    "tests": TESTS,
    "seconds": pa.float64(),
    "integrity": TEXTS,
    "state_sha256": TEXT,
    "log_tail": TEXT,
    "backend": TEXT,
}

JUDGEMENTS: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "model": TEXT,
    "details": TEXT,
    "prompt_sha256": TEXT,
    "outcome": TEXT,
    "n_prompt_tokens": pa.int64(),
    "n_tokens": pa.int64(),
    "cost_usd": pa.float64(),
    "seconds": pa.float64(),
}

REPLAYS: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "number": pa.int64(),
    "recorded": TEXT,
    "replayed": TEXT,
    "seconds": pa.float64(),
    "backend": TEXT,
}

CURATIONS: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "trajectory_attempt": pa.int64(),
    "rules": TEXT,
    "benchmark_sha256": TEXT,
    "findings": FINDINGS,
    "n_planted": pa.int64(),
    "unscrubbable": TEXT,
    "by_model": pa.bool_(),
    "n_turns": pa.int64(),
    "n_thoughts": pa.int64(),
    "commands_sha256": TEXT,
    "instruction_sha256": TEXT,
    "commands_signature": pa.binary(),
    "instruction_signature": pa.binary(),
    "overlaps": OVERLAPS,
}

ANNOTATIONS: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "annotator": TEXT,
    "path_sha256": TEXT,
    "environment": TEXT,
    "subtasks": pa.list_(pa.struct([("name", TEXT), ("n_actions", pa.int64())])),
    "progress": TEXTS,
    "faults": TEXTS,
}

TERMINAL: dict[str, pa.DataType] = {
    "trajectory_id": TEXT,
    "instance_id": TEXT,
    "repository_id": TEXT,
    "source": TEXT,
    "full_name": TEXT,
    "commit": TEXT,
    "license": TEXT,
    "license_sha256": TEXT,
    "language": TEXT,
    "domain": TEXT,
    "family": TEXT,
    "difficulty": TEXT,
    "instruction": TEXT,
    "solution": TEXTS,
    "verifier_files": FILES,
    "verifier_command": TEXT,
    "verifier_timeout_s": pa.int64(),
    "verifier_passing_tests": TEXTS,
    "verifier_sha256": TEXT,
    "image_digest": TEXT,
    "agent": TEXT,
    "model": TEXT,
    "sampling": TEXT,
    "sample": pa.int64(),
    "steps": STEPS,
    "messages": MESSAGES,
    "n_turns": pa.int64(),
    "n_tokens": pa.int64(),
    "stop_reason": TEXT,
    "outcome": TEXT,
    "tests": TESTS,
    "integrity": TEXTS,
    "backend": TEXT,
    "generator": TEXT,
    "provenance": PAIRS,
    "split": TEXT,
    "verified": pa.bool_(),
    "failure_class": TEXT,
    "n_repeats": pa.int64(),
    "flake_rate": pa.float64(),
    "scrubbed": pa.int64(),
    "license_path": TEXT,
    "interface": TEXT,
    "details": TEXT,
    "n_prompt_tokens": pa.int64(),
    "n_message_tokens": pa.int64(),
    "tokenizer_id": TEXT,
    "seed": pa.int64(),
    "state_scope": TEXT,
    "context_ids": TEXTS,
    "limits_memory_mb": pa.int64(),
    "limits_cpus": pa.float64(),
    "limits_pids": pa.int64(),
    "limits_lifetime_s": pa.int64(),
    "limits_network": TEXT,
}
