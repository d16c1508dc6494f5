"""Harbor's task folders: task.toml of schema 1.0 to 1.4, as harbor 0.26.0 reads them; our own exports among them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from pipeline.checkout import Tree
from pipeline.errors import ItemRejected
from pipeline.task_formats.folder import (
    TaskFolder,
    compose_lines,
    domain_of,
    family_of,
    hash_of,
    level_of,
    pytest_verifier,
    scope_of,
    script_solution,
    text_of,
    variable_lines,
    without_canary,
    yaml_of,
)
from pipeline.task_formats.layout import COMMANDS, EXPECTED, VERIFIER, instruction_of
from pipeline.types import LANGUAGES, TaskLanguage, Verifier, VerifierFile
from sandbox.types import Limits

SETTINGS = "task.toml"
INSTRUCTION, SOLUTION, RUNNER = "instruction.md", "solution/solve.sh", "tests/test.sh"
DOCKERFILE, COMPOSE = "environment/Dockerfile", "environment/docker-compose.yaml"
USUAL_TIMEOUT_S = 600
_LANGUAGES: tuple[TaskLanguage, ...] = (*LANGUAGES, "shell")
_SCOPES = get_args(TaskFolder.model_fields["state_scope"].annotation)


def read(tree: Tree) -> TaskFolder:
    """Raises ItemRejected with what keeps it from being a task of ours."""
    settings = _settings(tree)
    _refuse_foreign(settings)
    metadata = _table(settings, "metadata")
    try:
        if {COMMANDS, EXPECTED} <= set(tree.files) and "verifier_sha256" in metadata:
            return _own(tree, metadata)
        return _foreign(tree, settings, metadata)
    except (ValidationError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ItemRejected("unreadable", f"{SETTINGS}: {str(error).splitlines()[0]}") from error


def _own(tree: Tree, metadata: Mapping[str, Any]) -> TaskFolder:
    """An export of ours, without loss; its image is the one that the task was admitted in."""
    commands = json.loads(text_of(tree, COMMANDS))
    expected = json.loads(text_of(tree, EXPECTED))
    names = [name for name in tree.files if name.startswith(VERIFIER)]
    files = tuple(VerifierFile(path=name.removeprefix(VERIFIER), content=text_of(tree, name)) for name in names)
    verifier = Verifier(files=files, timeout_s=expected["timeout_s"], passing_tests=tuple(expected["passing_tests"]))
    if verifier.sha256 != metadata["verifier_sha256"]:
        raise ItemRejected("changed", f"the verifier is not the one that {SETTINGS} names")
    origin = {f"origin_{name}": str(metadata[name]) for name in ("instance_id", "generator", "repository", "commit")}
    return TaskFolder.model_validate(
        {
            "format": "harbor",
            "instruction": instruction_of(text_of(tree, INSTRUCTION)),
            "solution": commands,
            "verifier": verifier,
            "dockerfile": f"FROM {metadata['image']}\n",
            "context": None,
            **{name: metadata[name] for name in ("domain", "language", "family", "seed", "difficulty", "state_scope")},
            "limits": metadata["limits"],
            "context_ids": metadata["context_ids"],
            "provenance": _provenance(tree, "") | origin,
        }
    )


def _foreign(tree: Tree, settings: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskFolder:
    instruction, canary = without_canary(text_of(tree, INSTRUCTION))
    if not instruction.strip():
        raise ItemRejected("incomplete", f"{INSTRUCTION} is empty")
    if SOLUTION not in tree.files:
        raise ItemRejected("no_solution", f"there is no {SOLUTION}")
    others = [name for name in tree.files if name.startswith("solution/") and name != SOLUTION]
    timeout_s = _table(settings, "verifier").get("timeout_sec", USUAL_TIMEOUT_S)
    if RUNNER not in tree.files:
        raise ItemRejected("no_pytest_verifier", f"there is no {RUNNER}")
    verifier = pytest_verifier(tree, RUNNER, (), float(timeout_s))
    dockerfile, context = _image(tree, _table(settings, "environment"), _table(settings, "agent"))
    words = [metadata.get("category"), *metadata.get("tags", ()), *_table(settings, "task").get("keywords", ())]
    return TaskFolder(
        format="harbor",
        instruction=instruction,
        solution=script_solution(tree, SOLUTION, others),
        verifier=verifier,
        dockerfile=dockerfile,
        context=context,
        domain=domain_of(metadata.get("domain")),
        language=next((one for one in _LANGUAGES if one == metadata.get("language")), "shell"),
        family=family_of(metadata.get("family"), *words),
        difficulty=level_of(metadata.get("difficulty")),
        state_scope=scope_of(verifier),
        limits=_limits(_table(settings, "environment")),
        provenance=_provenance(tree, canary),
    )


def _image(tree: Tree, environment: Mapping[str, Any], agent: Mapping[str, Any]) -> tuple[str, str | None]:
    """Dockerfile and context. A Dockerfile comes first: what it gives is known, what an image is called may change."""
    image = environment.get("docker_image")
    lines: list[str] = []
    if COMPOSE in tree.files:
        named, lines = compose_lines(yaml_of(tree, COMPOSE), COMPOSE)
        image = image or named
    lines += variable_lines({k: str(v) for k, v in _table(environment, "env").items()}, "[environment].env")
    lines += [f"WORKDIR {environment['workdir']}"] if environment.get("workdir") else []
    lines += [f"USER {agent['user']}"] if agent.get("user") else []
    added = "".join(f"{line}\n" for line in lines)
    if DOCKERFILE in tree.files:
        return text_of(tree, DOCKERFILE).rstrip("\n") + "\n" + added, "environment"
    if not image:
        raise ItemRejected("no_image", f"there is neither {DOCKERFILE} nor a docker_image")
    return f"FROM {image}\n{added}", None


def _settings(tree: Tree) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text_of(tree, SETTINGS))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ItemRejected("unreadable", f"{SETTINGS} is no TOML: {error}") from error


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name, {})
    if not isinstance(found, Mapping):
        raise ItemRejected("unreadable", f"{name} in {SETTINGS} is no table")
    return found


def _refuse_foreign(settings: Mapping[str, Any]) -> None:
    """What no sandbox of ours can be asked for. Raises ItemRejected."""
    environment, verifier = _table(settings, "environment"), _table(settings, "verifier")
    if settings.get("steps"):
        raise ItemRejected("multi_step", "it has several steps, each with an instruction of its own")
    if str(environment.get("os", "linux")).lower() != "linux":
        raise ItemRejected("windows", f"it is for {environment['os']}")
    if environment.get("gpus") or environment.get("tpu"):
        raise ItemRejected("needs_accelerator", "it asks for an accelerator")
    if verifier.get("environment_mode") == "separate" or "environment" in verifier or verifier.get("collect"):
        raise ItemRejected("separate_verifier", "it is judged in another container by what is carried there")
    for place in ("verifier", "solution"):
        if _table(_table(settings, place), "env"):
            raise ItemRejected("needs_variables", f"[{place}].env sets variables that the files rely on")


def _limits(environment: Mapping[str, Any]) -> Limits:
    usual = Limits()
    return usual.model_copy(
        update={
            "cpus": float(environment.get("cpus") or usual.cpus),
            "memory_mb": int(environment.get("memory_mb") or usual.memory_mb),
        }
    )


def _provenance(tree: Tree, canary: str) -> dict[str, str]:
    """Hashes of what the task was read from, by the parts of a folder."""
    found = {"document": SETTINGS, "format": "harbor", "settings_sha256": hash_of(text_of(tree, SETTINGS))}
    for part in ("solution/", "tests/"):
        texts = [text_of(tree, name) for name in tree.files if name.startswith(part)]
        found[f"{part.rstrip('/')}_sha256"] = hash_of(*texts)
    return found | ({"canary": canary} if canary else {})
