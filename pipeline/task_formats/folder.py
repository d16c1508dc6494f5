"""What both formats of task folders have in common: the task that is read, and where its texts come from."""

from __future__ import annotations

import ast
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Literal

import yaml  # type: ignore[import-untyped]

from pipeline.checkout import Tree, printable
from pipeline.errors import ItemRejected
from pipeline.types import DOMAINS, Record, TaskLanguage, Verifier, VerifierFile
from sandbox.types import Limits

Difficulty = Literal["easy", "medium", "hard"]

MAX_TEXT = 1 << 20
"""Bytes of one file that is read as text."""
_TEST_FILE = re.compile(r"(test_[^/]*|[^/]*_test)\.py$")
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_NETWORK_MODULES = {"socket", "urllib", "http"}
_DEMANDING = {"privileged", "cap_add", "devices", "device_cgroup_rules", "gpus", "runtime", "pid", "ipc", "userns_mode"}
"""Keys of a service that ask for more than a sandbox gives."""
_OF_THE_HARNESS = ("${T_BENCH_", "$T_BENCH_")


class TaskFolder(Record):
    """One task as its folder says it."""

    format: Literal["harbor", "terminal_bench"]
    instruction: str
    solution: tuple[str, ...]
    verifier: Verifier
    """With the passing tests where the folder names them, as our own exports do."""
    dockerfile: str
    context: str | None
    """Folder of the tree that is the build context, empty for its root; None when the image needs none."""
    domain: str = "general"
    language: TaskLanguage = "shell"
    family: str = "task"
    seed: int = 0
    difficulty: Difficulty = "medium"
    state_scope: Literal["full", "live"] = "full"
    limits: Limits = Limits()
    context_ids: tuple[str, ...] = ()
    provenance: dict[str, str]


def text_of(tree: Tree, name: str) -> str:
    """A file as it is. Raises ItemRejected when it is not there, too long, or no UTF-8."""
    size = tree.files.get(name)
    if size is None:
        raise ItemRejected("incomplete", f"{name} is missing")
    if size > MAX_TEXT:
        raise ItemRejected("unreadable", f"{printable(name)} has {size:,} bytes; {MAX_TEXT:,} are read as text")
    try:
        return tree.read(name, max_bytes=MAX_TEXT).decode()
    except UnicodeDecodeError as error:
        raise ItemRejected("unreadable", f"{printable(name)} is no UTF-8 text") from error


def yaml_of(tree: Tree, name: str) -> object:
    """Raises ItemRejected for what is no YAML."""
    try:
        return yaml.safe_load(text_of(tree, name))
    except (yaml.YAMLError, RecursionError) as error:
        raise ItemRejected("unreadable", f"{name} is no YAML: {str(error).splitlines()[0]}") from error


def without_canary(text: str) -> tuple[str, str]:
    """The text, and the marks against training at its beginning, which are no part of a task."""
    lines = text.replace("\r\n", "\n").split("\n")
    count = 0
    while count < len(lines) and _CANARY.match(lines[count].strip()):
        count += 1
    return "\n".join(lines[count:]).strip("\n"), "\n".join(lines[:count])


def hash_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def level_of(said: object) -> Difficulty:
    """`medium` for words that are none of our three."""
    match str(said).strip().lower():
        case "easy":
            return "easy"
        case "hard":
            return "hard"
        case _:
            return "medium"


def family_of(*said: object) -> str:
    """The first word that can name a family."""
    for word in said:
        name = re.sub(r"[^a-z0-9]+", "_", str(word or "").lower()).strip("_")
        if re.match(r"[a-z]", name):
            return name
    return "task"


def domain_of(said: object) -> str:
    return next((domain for domain in DOMAINS if domain == said), "general")


def script_solution(tree: Tree, script: str, others: Iterable[str]) -> tuple[str, ...]:
    """A script as one command, in a shell of its own; `others` are files beside it, which lie in /solution then."""
    body, _ = without_canary(re.sub(r"^#![^\n]*\n", "", text_of(tree, script).replace("\r\n", "\n")))
    if not body.strip():
        raise ItemRejected("no_solution", f"{script} is empty")
    written = [_written(f"/solution/{name.partition('/')[2] or name}", text_of(tree, name)) for name in sorted(others)]
    return (*written, f"(\n{body}\n)")


def _written(path: str, text: str) -> str:
    """A command that writes a text byte by byte."""
    folder = shlex.quote(str(PurePosixPath(path).parent))
    return f"mkdir -p {folder} && printf %s {shlex.quote(text)} > {shlex.quote(path)}"


def pytest_verifier(tree: Tree, runner: str, passed_over: Iterable[str], timeout_s: float) -> Verifier:
    """The tests of a folder that has its own `runner`. Raises ItemRejected when pytest is not what judges.

    Names are relative to tests/. `passed_over` are further files there that are known to be of no use to the tests.
    """
    if "pytest" not in text_of(tree, runner):
        raise ItemRejected("no_pytest_verifier", f"{runner} judges without pytest")
    files, needed = [], []
    for name in tree.files:
        inner = name.removeprefix("tests/")
        if inner == name or inner in passed_over or name == runner:
            continue
        if _TEST_FILE.fullmatch(inner):
            files.append(VerifierFile(path=inner, content=text_of(tree, name)))
        else:
            needed.append(inner)
    if not files:
        raise ItemRejected("no_pytest_verifier", "there is no test_*.py in tests/")
    if needed:
        raise ItemRejected(
            "tests_need_files", f"tests/ holds {printable(needed[0])}, which is not there when the state is judged"
        )
    return Verifier(files=tuple(files), timeout_s=max(1, int(timeout_s)))


def scope_of(verifier: Verifier) -> Literal["full", "live"]:
    """Tests that speak to a network ask services, which have to run when they are judged."""
    for file in verifier.files:
        try:
            tree = ast.parse(file.content)
        except (SyntaxError, ValueError, RecursionError):
            continue  # the gate that reads it gives the reason
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] in _NETWORK_MODULES for name in names):
                return "live"
    return "full"


def compose_lines(compose: object, name: str) -> tuple[str | None, list[str]]:
    """Image and further lines of a Dockerfile that a compose file asks for.

    Raises ItemRejected for several services and for what a sandbox does not give.
    """
    services = compose.get("services") if isinstance(compose, dict) else None
    if not isinstance(services, dict) or not services:
        raise ItemRejected("unreadable", f"{name} names no service")
    if len(services) > 1:
        raise ItemRejected("several_services", f"{name} has the services {', '.join(map(str, services))}")
    service = next(iter(services.values())) or {}
    if not isinstance(service, dict):
        raise ItemRejected("unreadable", f"the service in {name} is no mapping")
    if demanded := sorted(_DEMANDING & set(service)):
        raise ItemRejected("needs_privileges", f"{name} asks for {', '.join(demanded)}")
    for volume in service.get("volumes") or ():
        if not str(volume).startswith(_OF_THE_HARNESS):
            raise ItemRejected("needs_volumes", f"{name} mounts {volume}")
    image = service.get("image")
    used = str(image) if image and "build" not in service and not str(image).startswith(_OF_THE_HARNESS) else None
    return used, variable_lines(_pairs(service.get("environment")), name)


def variable_lines(variables: Mapping[str, str], where: str) -> list[str]:
    """Lines of a Dockerfile for variables. Raises ItemRejected for those whose values this machine would have to know.

    What a harness fills in for itself is left out.
    """
    lines = []
    for name, value in variables.items():
        if value.startswith(_OF_THE_HARNESS):
            continue
        if "$" in value or "\n" in value:
            raise ItemRejected("needs_variables", f"{where} takes {name} from the machine that runs it")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'ENV {name}="{quoted}"')
    return lines


def _pairs(environment: object) -> dict[str, str]:
    if isinstance(environment, dict):
        return {str(name): str(value) for name, value in environment.items()}
    if isinstance(environment, list):
        return dict(_split(str(entry)) for entry in environment)
    return {}


def _split(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    return name, value if equals else "$"
