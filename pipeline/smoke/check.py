"""The check of one image: it keeps a shell, something of the project runs in it, its own tests pass.

What there is to try is found by the other files of this package. Faults of the sandbox are raised, never recorded.
"""

from __future__ import annotations

import logging
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping

from pipeline.checkout import Tree
from pipeline.smoke import go, java, native, php, programs, python, suites, web
from pipeline.smoke.subject import Candidate, Subject, Verdict
from pipeline.types import TASKS, ImageCheck, Language, Repository
from sandbox.protocol import Sandbox
from sandbox.streams import Deadline
from sandbox.types import ExecResult

logger = logging.getLogger(__name__)

_Finder = Callable[[Subject], Iterator[Candidate]]

_FINDERS: Mapping[Language, tuple[_Finder, ...]] = {
    "python": (python.candidates, programs.candidates),
    "javascript": (web.node_candidates, web.script_candidates, web.page_candidates, programs.candidates),
    "html": (web.page_candidates, web.node_candidates, web.script_candidates, programs.candidates),
    "php": (php.candidates, programs.candidates),
    "java": (java.candidates, programs.candidates),
    "go": (go.candidates, programs.candidates),
    "c": (programs.candidates, native.candidates),
    "cpp": (programs.candidates, native.candidates),
}

_LOG_CHARACTERS = 2000
_SAID_CHARACTERS = 600
"""Of one attempt, in the log of all."""
_ATTEMPTS = 5
"""The whole smoke may take this many times the limit of one attempt."""
_SHELL_S = 20
_DOMAIN_CHECK = "/check.sh"


def check_image(
    repository: Repository, tree: Tree, sandbox: Sandbox, *, smoke_timeout_s: int = 30, tests_timeout_s: int = 120
) -> ImageCheck:
    """What became of the image that `sandbox` was just started from; `sandbox` is worn afterwards.

    `tree` is what the image was made from. The tests run only where the smoke succeeded. Raises SandboxUnavailable.
    """
    clock = Deadline(smoke_timeout_s * _ATTEMPTS)
    if repository.domain is not None:
        return _domain_check(tree, sandbox, smoke_timeout_s, clock)
    if repository.source == TASKS:
        return _task_check(sandbox, clock)
    workdir, fault = _shell(tree, sandbox)
    if workdir is None:
        return ImageCheck(smoke_ok=False, smoke_command="", smoke_log=fault, seconds=clock.elapsed)
    subject = Subject(repository, tree, sandbox, workdir)
    works, command, log = _smoke(subject, smoke_timeout_s, clock)
    verdict = suites.run(subject, tests_timeout_s) if works else suites.NOT_RUN
    return ImageCheck(
        smoke_ok=works,
        smoke_command=command,
        smoke_log=log[-_LOG_CHARACTERS:],
        tests_ok=verdict.passed,
        tests_command=verdict.command,
        tests_log=verdict.log[-_LOG_CHARACTERS:],
        seconds=clock.elapsed,
    )


def _domain_check(tree: Tree, sandbox: Sandbox, timeout_s: int, clock: Deadline) -> ImageCheck:
    """The image of a domain brings the script that tries its tools."""
    sandbox.put({_DOMAIN_CHECK: tree.read(_DOMAIN_CHECK.lstrip("/"), max_bytes=1 << 20)})
    result = sandbox.execute(f"bash {_DOMAIN_CHECK}", timeout_s=timeout_s)
    log = result.output[-_LOG_CHARACTERS:]
    works = result.exit_code == 0
    return ImageCheck(smoke_ok=works, smoke_command=_DOMAIN_CHECK, smoke_log=log, seconds=clock.elapsed)


def _task_check(sandbox: Sandbox, clock: Deadline) -> ImageCheck:
    """A shell suffices: what a task needs of its image no file says, and the solution that has to pass shows it."""
    workdir, fault = _kept_shell(sandbox)
    works = workdir is not None
    return ImageCheck(smoke_ok=works, smoke_command="pwd", smoke_log=workdir or fault, seconds=clock.elapsed)


def _kept_shell(sandbox: Sandbox) -> tuple[str | None, str]:
    """Where the shell starts, or None and why there is none."""
    kept = secrets.token_hex(8)
    first = sandbox.execute(f"touchstone_kept={kept}; pwd", timeout_s=_SHELL_S)
    second = sandbox.execute('printf "%s\\n" "$touchstone_kept"', timeout_s=_SHELL_S)
    if first.shell_restarted or second.shell_restarted or second.output.strip() != kept:
        return None, f"it keeps no shell: {(first.output + second.output)[-_SAID_CHARACTERS:]}"
    return first.output.strip(), ""


def _shell(tree: Tree, sandbox: Sandbox) -> tuple[str | None, str]:
    """The working directory, or None and why the image is of no use."""
    workdir, fault = _kept_shell(sandbox)
    if workdir is None:
        return None, fault
    tops = sorted({name.partition("/")[0] for name in tree.files})[:40]
    count = f"cd {shlex.quote(workdir)} && for name in {shlex.join(tops)}; do test -e ./$name && echo $name; done"
    there = sandbox.execute(f"({count})", timeout_s=_SHELL_S).output.splitlines()
    if len(there) * 2 < len(tops):
        return None, f"the tree is not in its working directory {workdir}: {len(there)} of {len(tops)} names are there"
    return workdir, ""


def _smoke(subject: Subject, timeout_s: int, clock: Deadline) -> tuple[bool, str, str]:
    """Whether something ran, the last command, and the log of all attempts."""
    command, log = "", "nothing of the project was found that could be run"
    attempts: list[str] = []
    of_programs: set[Verdict] = set()
    for candidate in _candidates(subject):
        if candidate.kind == "import" and of_programs == {"broken"}:
            # What imports still shows is less than what its programs need.
            break
        if clock.left <= 0:
            attempts.append("there was no time for more")
            break
        command = candidate.command
        result = subject.run(candidate, min(timeout_s, max(clock.left, 1)))
        verdict = candidate.verdict(result)
        attempts.append(_attempt(candidate, result, verdict))
        logger.debug("%s: %s: %s", subject.repository.full_name, verdict, command)
        if verdict == "works":
            return True, command, "\n".join(attempts)
        if candidate.kind == "program":
            of_programs.add(verdict)
    return False, command, "\n".join(attempts) or log


def _candidates(subject: Subject) -> Iterator[Candidate]:
    for finder in _FINDERS[subject.repository.language]:
        yield from finder(subject)


def _attempt(candidate: Candidate, result: ExecResult, verdict: Verdict) -> str:
    ending = "no end within its time" if result.timed_out else f"exit code {result.exit_code}"
    said = result.output[-_SAID_CHARACTERS:].rstrip()
    return f"$ {candidate.command[:_SAID_CHARACTERS]}\n{said}\n[{ending}: {verdict}]"
