"""Task folders of Terminal-Bench 1: task.yaml, Dockerfile or docker-compose.yaml, solution.sh or solution.yaml, tests.

As terminal-bench 0.2.18 reads them. Scripts that start the tests differ; what they install is not there here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pipeline.checkout import Tree
from pipeline.errors import ItemRejected
from pipeline.task_formats.folder import (
    TaskFolder,
    compose_lines,
    family_of,
    hash_of,
    level_of,
    pytest_verifier,
    scope_of,
    script_solution,
    text_of,
    without_canary,
    yaml_of,
)

SETTINGS = "task.yaml"
RUNNER, DOCKERFILE, COMPOSE = "run-tests.sh", "Dockerfile", "docker-compose.yaml"
SCRIPT, STEPS = "solution.sh", "solution.yaml"
NOT_IN_CONTEXT = (SETTINGS, RUNNER, COMPOSE, SCRIPT, STEPS, "tests/", "solution/")
"""What no image may hold: the tests, the solution and what says how they are run."""
USUAL_TIMEOUT_S = 180
_HARNESS = ("setup-uv-pytest.sh", "run-uv-pytest.sh")


def read(tree: Tree) -> TaskFolder:
    """Raises ItemRejected with what keeps it from being a task of ours."""
    settings = yaml_of(tree, SETTINGS)
    if not isinstance(settings, dict):
        raise ItemRejected("unreadable", f"{SETTINGS} is no mapping")
    try:
        return _folder(tree, settings)
    except (ValidationError, TypeError, ValueError) as error:
        raise ItemRejected("unreadable", f"{SETTINGS}: {str(error).splitlines()[0]}") from error


def _folder(tree: Tree, settings: Mapping[str, Any]) -> TaskFolder:
    if (parser := str(settings.get("parser_name") or "pytest")) != "pytest":
        raise ItemRejected("no_pytest_verifier", f"its tests are read by the parser {parser}")
    instruction, canary = without_canary(_instruction(settings))
    if not instruction.strip():
        raise ItemRejected("incomplete", f"{SETTINGS} has no instruction")
    solution = _solution(tree)
    if RUNNER not in tree.files:
        raise ItemRejected("no_pytest_verifier", f"there is no {RUNNER}")
    timeout_s = float(settings.get("max_test_timeout_sec") or USUAL_TIMEOUT_S)
    verifier = pytest_verifier(tree, RUNNER, _HARNESS, timeout_s)
    dockerfile, context = _image(tree)
    head = text_of(tree, SETTINGS).partition("\n")[0]
    return TaskFolder(
        format="terminal_bench",
        instruction=instruction,
        solution=solution,
        verifier=verifier,
        dockerfile=dockerfile,
        context=context,
        family=family_of(settings.get("category"), *(settings.get("tags") or ())),
        difficulty=level_of(settings.get("difficulty")),
        state_scope=scope_of(verifier),
        provenance=_provenance(tree, canary or (head if "canary" in head.lower() else "")),
    )


def _instruction(settings: Mapping[str, Any]) -> str:
    """The instruction, in early folders one of several descriptions."""
    if settings.get("instruction"):
        return str(settings["instruction"])
    for entry in settings.get("descriptions") or ():
        if isinstance(entry, dict) and entry.get("key") == "base":
            return str(entry.get("description") or "")
    return ""


def _solution(tree: Tree) -> tuple[str, ...]:
    if SCRIPT in tree.files:
        others = [name for name in tree.files if name.startswith("solution/")]
        return script_solution(tree, SCRIPT, others)
    if STEPS not in tree.files:
        raise ItemRejected("no_solution", f"there is neither {SCRIPT} nor {STEPS}")
    steps = yaml_of(tree, STEPS)
    if not isinstance(steps, list) or not all(isinstance(step, dict) and "command" in step for step in steps):
        raise ItemRejected("unreadable", f"{STEPS} is no list of commands")
    for step in steps:
        if not step.get("append_enter", True) or not step.get("block", True):
            raise ItemRejected("interactive_solution", f"{STEPS} types {str(step['command'])[:60]!r} into a program")
    commands = tuple(str(step["command"]) for step in steps if str(step["command"]).strip())
    if not commands:
        raise ItemRejected("no_solution", f"{STEPS} holds no command")
    return commands


def _image(tree: Tree) -> tuple[str, str | None]:
    image: str | None = None
    lines: list[str] = []
    if COMPOSE in tree.files:
        image, lines = compose_lines(yaml_of(tree, COMPOSE), COMPOSE)
    added = "".join(f"{line}\n" for line in lines)
    if DOCKERFILE in tree.files:
        return text_of(tree, DOCKERFILE).rstrip("\n") + "\n" + added, ""
    if not image:
        raise ItemRejected("no_image", f"there is neither a {DOCKERFILE} nor an image in {COMPOSE}")
    return f"FROM {image}\n{added}", None


def _provenance(tree: Tree, canary: str) -> dict[str, str]:
    tests = [text_of(tree, name) for name in tree.files if name.startswith("tests/")]
    solution = [text_of(tree, name) for name in (SCRIPT, STEPS) if name in tree.files]
    found = {
        "document": SETTINGS,
        "format": "terminal_bench",
        "settings_sha256": hash_of(text_of(tree, SETTINGS)),
        "solution_sha256": hash_of(*solution),
        "tests_sha256": hash_of(*tests),
    }
    return found | ({"canary": canary} if canary else {})
