"""What to try in an image of a Python project: its console scripts, then an import of its own packages or modules."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from pipeline.smoke.subject import Candidate, Subject, exited_well, plain, programs

_INTERPRETERS = (".venv/bin/python", "venv/bin/python", "python3", "python", "/opt/venv/bin/python3")
_TOOLS = {"pip", "setuptools", "wheel", "pytest"}
"""What every Python environment of ours has: only an installation from the tree shows that it is the project's."""
_MOST_SCRIPTS = 4
_MOST_MODULES = 12
_OTHERS = re.compile(
    r"(?:.*/)?(?:tests?|testing|docs?|examples?|samples?|benchmarks?|scripts?|tools?|migrations|build|dist|debian"
    r"|setup|conftest|noxfile|tasks|versioneer|fabfile|conf|dodo|test_.*|.*_tests?)(?:\.py)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"^\s*name\s*=\s*['\"]?([\w.-]+)|\bname\s*=\s*['\"]([\w.-]+)['\"]", re.MULTILINE)
_STARTS = re.compile(r"__name__\s*==|argparse|sys\.argv|click|fire\.Fire|docopt|optparse")


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    interpreter, found = _installed(subject)
    if interpreter is None:
        return
    imports = subject.probe("imports.py")
    for scripts, modules in found:
        for script in sorted(scripts, key=subject.likeness)[:_MOST_SCRIPTS]:
            if subject.ask(f"command -v {shlex.quote(script)}"):
                yield from programs(f"cd /tmp && {shlex.quote(script)}")
        own = [name for name in sorted(modules, key=subject.likeness) if not _OTHERS.fullmatch(name)]
        if own:
            yield Candidate(f"cd /tmp && {interpreter} {imports} {shlex.join(own[:_MOST_MODULES])}", exited_well)
    for roots, names in _in_tree(subject):
        path = ":".join(shlex.quote(f"{subject.workdir}/{root}".rstrip("/")) for root in roots)
        yield Candidate(f"PYTHONPATH={path} {interpreter} {imports} {shlex.join(names[:_MOST_MODULES])}", exited_well)
    for script in _scripts(subject):
        yield from programs(f"{interpreter} {shlex.quote(script)}")


def _installed(subject: Subject) -> tuple[str | None, list[tuple[list[str], list[str]]]]:
    """The interpreter that has the project, or else the first there is; scripts and modules of what is installed."""
    wanted = {plain(subject.repository.name)}
    for file in ("pyproject.toml", "setup.cfg", "setup.py"):
        if (name := _NAME.search(subject.text(file))) is not None:
            wanted.add(plain(name[1] or name[2]))
    first = None
    for interpreter in _INTERPRETERS:
        answer = subject.ask(f"{interpreter} {subject.probe('distributions.py')} {shlex.quote(subject.workdir)}")
        if not answer:
            continue
        first = first or interpreter
        try:
            listed = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
        except (ValueError, RecursionError):
            continue  # more distributions than an output may hold
        own = [one for one in listed if one["local"] or (plain(one["name"]) in wanted - _TOOLS)]
        if own:
            own.sort(key=lambda one: subject.likeness(one["name"]))
            return interpreter, [(one["scripts"], _modules(one)) for one in own]
    return first, []


def _modules(distribution: Mapping[str, object]) -> list[str]:
    modules = distribution["modules"]
    return [str(name) for name in modules] if isinstance(modules, list) else []


def _in_tree(subject: Subject) -> Iterator[tuple[list[str], list[str]]]:
    """Folders for the search path and what can be imported from them: packages, then modules that lie free."""
    sources = [name for name in subject.named(r".*\.py") if not any(map(_OTHERS.fullmatch, name.split("/")))]
    for root in ("", "src", "lib", "python"):
        prefix = f"{root}/" if root else ""
        packages = [
            name.removeprefix(prefix).partition("/")[0]
            for name in sources
            if re.fullmatch(rf"{prefix}[A-Za-z_]\w*/__init__\.py", name)
        ]
        if packages:
            yield [root], sorted(dict.fromkeys(packages), key=subject.likeness)
    folders: dict[str, list[str]] = {}
    for name in sources:
        folder, _, file = name.rpartition("/")
        if re.fullmatch(r"[A-Za-z_]\w*\.py", file) and file != "__init__.py" and f"{folder}/__init__.py" not in sources:
            folders.setdefault(folder, []).append(file.removesuffix(".py"))
    for folder, names in list(folders.items())[:3]:
        if folder.count("/") < 2:
            yield [folder, ""], sorted(names, key=subject.likeness)


def _scripts(subject: Subject) -> list[str]:
    """Files that are programs, those first that look like the main one."""
    found = [
        name
        for name in subject.named(r"(?:(?:src|bin|app)/)?[\w.-]+")
        if not any(map(_OTHERS.fullmatch, name.split("/"))) and _is_script(subject, name)
    ]
    main = re.compile(r"(?:.*/)?(?:main|app|cli|manage|run|__main__)\.py")
    found.sort(key=lambda name: (subject.likeness(name.rpartition("/")[2]), main.fullmatch(name) is None))
    return found[:_MOST_SCRIPTS]


def _is_script(subject: Subject, name: str) -> bool:
    if not name.endswith(".py"):
        return re.match(r"#!.*python", subject.text(name)) is not None
    return _STARTS.search(subject.text(name)) is not None
