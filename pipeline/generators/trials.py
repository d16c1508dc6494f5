"""Runs one plan in a fresh sandbox: what it printed, which files and programs it left, why it is unusable."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.generators.commands import is_stateful, outputs_of, stages
from pipeline.generators.facts import Fact, ProgramRun, classify, normalised_lines
from pipeline.generators.plans import Plan
from pipeline.generators.protocol import Start
from pipeline.generators.survey import Survey
from sandbox.protocol import Sandbox

STEP_TIMEOUT_S = 30.0
MAX_FILE_BYTES = 400_000
MAX_CREATED = 6
MAX_PROGRAMS = 3
BUILDERS = {"make", "cmake", "cc", "gcc", "g++", "c++", "clang", "javac", "meson", "ninja"}
MAX_PROGRAM_BYTES = 4_000_000
# A sentence or a usage line, as only the sources of the program hold it.
MESSAGE = re.compile(rb"(?<=\0)[A-Za-z][A-Za-z0-9 ,.:'<>\[\]|-]{17,70}(?=[\n\0])")
PROGRAM_TIMEOUT_S = 5.0
CHECKED = {"json", "jsonl", "csv", "table", "sqlite", "xml", "text"}
NOISE = re.compile(
    r"(?:^|/)(?:__pycache__|\.cache|\.npm|\.config|\.local|\.git|\.pytest_cache|node_modules"
    r"|CMakeFiles|\.gradle|go-build\w*|CMakeTmp)(?:/|$)"
    r"|\.(?:pyc|pyo|log|lock|tmp|swp|pid|o|d|class|bash_history)$|(?:^|/)(?:CMakeCache\.txt"
    r"|cmake_install\.cmake|Makefile|CTestTestfile\.cmake)$"
    r"|^/(?:tmp|var|root|run|proc|sys|dev|etc)(?:/|$)|(?:^|/)\.(?:bash_history|viminfo|wget-hsts)$"
)
UNSTABLE = re.compile(
    r"/tmp/tmp|\b0x[0-9a-f]{8,}\b|\b\d+(?:\.\d+)?\s?(?:ms|µs|seconds?|secs?)\b|\b\d{2}:\d{2}:\d{2}\b.*\b(?:UTC"
    r"|GMT|CEST|CET)\b|/proc/\d+|\bpid[ =:]+\d+",
    re.IGNORECASE,
)
FAILURE_TEXT = re.compile(
    r"^Traceback \(most recent|command not found|No such file or directory|Fatal error|SyntaxError"
    r"|Segmentation fault|Unknown (?:option|command)"
    r"|unrecognized (?:option|argument)|cannot open|Error: ",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Trial:
    """One run of one plan."""

    steps: tuple[str, ...]
    """What was run, command after command in one shell."""
    printed: Fact | None
    """What the last step printed on standard output, when it was kept in a file."""
    created: tuple[Fact, ...] = ()
    runs: tuple[ProgramRun, ...] = ()
    """Programs that appeared and can be started."""
    failure_class: str | None = None
    reason: str = ""


def solution_steps(plan: Plan, workdir: str, output: str | None) -> tuple[str, ...]:
    """The commands of the reference solution: files the document shows, earlier plans, then the plan itself.

    All but the last leave the shell as it was, since each plan was written for a shell of its own.
    """
    *earlier, last = _steps(plan, workdir, output)
    return (*(step if step in _writes(plan) else contained(step) for step in earlier), last)


def _steps(plan: Plan, workdir: str, output: str | None) -> list[str]:
    steps: list[str] = []
    for earlier in plan.before:
        steps += _steps(earlier, workdir, None)
    steps += [step for step in (write_file(name, text) for name, text in plan.files) if step not in steps]
    own = list(plan.steps)
    if output is not None:
        redirected = redirect(
            own[-1], PurePosixPath(output).name if str(PurePosixPath(output).parent) == workdir else output
        )
        own[-1] = redirected
    if any(is_stateful(s) for s in plan.steps):
        own = ["\n".join([*plan.steps[:-1], redirect(plan.steps[-1], output)]) if output else "\n".join(plan.steps)]
    return [*steps, *own]


def _writes(plan: Plan) -> set[str]:
    """The steps that only write files, of the plan and of those before it."""
    own = {write_file(name, text) for name, text in plan.files}
    return own.union(*(_writes(earlier) for earlier in plan.before))


def contained(step: str) -> str:
    """The step in a subshell when it changes the shell that runs it: directory, variables, options."""
    commands = [step, *(" ".join(stage.words) + " " for stage in stages(step))]
    return f"(\n{step}\n)" if any(is_stateful(command) for command in commands) else step


def write_file(name: str, text: str) -> str:
    """A command that writes a file with a heredoc."""
    mark = "EOF" if "\nEOF\n" not in f"\n{text}" else "END_OF_FILE"
    folder = str(PurePosixPath(name).parent)
    make = f"mkdir -p {shlex.quote(folder)}\n" if folder not in {".", "/"} else ""
    body = text if text.endswith("\n") else text + "\n"
    return f"{make}cat > {shlex.quote(name)} <<'{mark}'\n{body}{mark}"


def redirect(command: str, target: str) -> str:
    """The command with its standard output kept in a file."""
    target = shlex.quote(target)
    parts = stages(command)
    simple = "\n" not in command and all(p.joined_by in {"", "|"} for p in parts) and "<<" not in command
    return f"{command} > {target}" if simple else f"{{\n{command}\n}} > {target}"


def writes_output(plan: Plan) -> bool:
    """Whether the last step already says where its output goes."""
    return any(s.writes for s in stages(plan.steps[-1])[-1:])


def builds(plan: Plan) -> bool:
    """Whether the plan makes programs: then what it prints is a log."""
    names = {s.words[0] for s in stages(plan.steps[-1]) if s.words}
    return plan.kind == "sample" or bool(names & BUILDERS) or "go build" in plan.text


def run_plan(plan: Plan, start: Start, survey: Survey, output: str | None) -> Trial:
    """Run a plan in a fresh sandbox. Raises SandboxUnavailable."""
    steps = solution_steps(plan, survey.workdir, output)
    sandbox = start()
    try:
        for step in steps:
            result = sandbox.execute(step, timeout_s=STEP_TIMEOUT_S)
            if result.timed_out:
                reason = f"no end within {STEP_TIMEOUT_S:.0f} s: {step[:120]}"
                return Trial(steps, None, failure_class="timeout", reason=reason)
            if result.exit_code != 0:
                tail = " ".join(result.output.strip().split("\n")[-2:])[:200]
                return Trial(steps, None, failure_class="failed", reason=f"exit code {result.exit_code}: {tail}")
        printed = None
        if output is not None and (content := _get(sandbox, output)) is not None:
            printed = Fact(output, classify(output, content), content)
        silent = printed is None or not printed.text.strip()
        writes = plan.missing or plan.kind != "shell" or any(outputs_of(step) for step in plan.steps)
        # Looking for changes is the dearest part of a trial: skipped where printing is plainly all that happens.
        created, runs = _left_behind(sandbox, plan, survey, output) if silent or writes else ((), ())
        return Trial(steps, printed, created, runs)
    finally:
        sandbox.close()


def _left_behind(
    sandbox: Sandbox, plan: Plan, survey: Survey, output: str | None
) -> tuple[tuple[Fact, ...], tuple[ProgramRun, ...]]:
    """Files of interest that are new or changed, and the new programs that can be started."""
    given = {f"{survey.workdir}/{name}" for p in (plan, *plan.before) for name, _ in p.files} | {output}
    created: list[Fact] = []
    programs: list[str] = []
    for change in sandbox.changes():
        if (
            change.kind == "deleted"
            or change.type != "file"
            or change.path in given
            or _is_noise(change.path, plan, survey)
        ):
            continue
        content = _get(sandbox, change.path)
        if (
            builds(plan)
            and re.search(r"(?:^|/)(?:[Bb]uild|cmake)\S*/|\.(?:cmake|pc)$", change.path)
            and not change.mode & 0o111
        ):
            continue
        if change.mode & 0o111 and (content is None or content.startswith(b"\x7fELF")) and ".so" not in change.path:
            programs.append(change.path)
        elif content is not None and content.strip() and classify(change.path, content) in CHECKED:
            created.append(Fact(change.path, classify(change.path, content), content))
    runs = [run for path in programs[:MAX_PROGRAMS] if (run := _start_program(sandbox, path, plan, survey)) is not None]
    return tuple(created[:MAX_CREATED]), tuple(runs)


def _start_program(sandbox: Sandbox, path: str, plan: Plan, survey: Survey) -> ProgramRun | None:
    """Start a built program where its sources lie; None when it prints nothing stable and holds no message either."""
    source = next((w for s in stages(plan.steps[-1]) for w in s.words if re.search(r"/.*\.(?:c|cc|cpp|cxx)$", w)), "")
    folder = (
        str(PurePosixPath(survey.workdir) / PurePosixPath(source).parent) if plan.kind == "sample" else survey.workdir
    )
    command = f"cd {shlex.quote(folder)} && {shlex.quote(path)} < /dev/null > /tmp/printed 2>/dev/null"
    result = sandbox.execute(command, timeout_s=PROGRAM_TIMEOUT_S)
    printed = _get(sandbox, "/tmp/printed")
    text = (printed or b"").decode("utf-8", "replace")
    if result.exit_code == 0 and len(text.strip()) >= 12 and not UNSTABLE.search(text):
        return ProgramRun(path, folder, tuple(normalised_lines(text)))
    try:
        content = sandbox.get(path, max_bytes=MAX_PROGRAM_BYTES) or b""
    except ValueError:
        return None
    found = dict.fromkeys(
        m[0].decode() for m in MESSAGE.finditer(content) if b"GLIBC" not in m[0] and b"GCC" not in m[0]
    )
    messages = tuple(sorted(found, key=lambda m: (-len(m), m))[:3])
    return ProgramRun(path, folder, (), messages) if len(messages) == 3 else None


def _get(sandbox: Sandbox, path: str) -> bytes | None:
    """Content of a file, None when there is none or when it is too large to be a fact."""
    try:
        return sandbox.get(path, max_bytes=MAX_FILE_BYTES)
    except ValueError:
        return None


def _is_noise(path: str, plan: Plan, survey: Survey) -> bool:
    if path in plan.text or (plan.kind == "program" and path.startswith("/tmp/") and path != "/tmp/printed"):
        return bool(re.search(r"go-build|/\.", path))
    relative = path.removeprefix(survey.workdir + "/")
    return not path.startswith(survey.workdir + "/") or bool(NOISE.search(relative))


def unsuitable(facts: Iterable[Fact], survey: Survey, *, work: bool = False) -> tuple[str, str] | None:
    """(failure class, reason) when what came out cannot be asked for: trivial, unstable, an error, help, a version.

    With `work` the way there is work of its own, so a short result is no trivial task.
    """
    facts = list(facts)
    text = "\n".join(f.text for f in facts if f.kind not in {"sqlite", "executable", "binary"})
    if not facts or (not text.strip() and all(f.kind != "sqlite" for f in facts)):
        return "no_effect", "nothing was printed and no file of interest changed"
    if match := UNSTABLE.search(text):
        return "not_deterministic", f"holds a time, an address or a temporary name: {match[0]!r}"
    if any(day in text for day in _days()) or (len(survey.hostname) >= 12 and survey.hostname in text):
        return "not_deterministic", "holds the date of the run or the name of the host"
    if match := FAILURE_TEXT.search(text):
        return "failed", f"the result is an error message: {match[0].strip()!r}"
    stripped = text.strip()
    if re.fullmatch(r"(?:[\w.-]+ )?(?:version )?v?\d+(?:\.\d+){1,3}\S*", stripped, re.IGNORECASE):
        return "trivial", "only a version"
    if re.search(r"version\(\)|^\S[^\n]*\n[-\s]+$", stripped) and len(facts) == 1:
        return "trivial", "a version, or a table without rows"
    if (
        re.search(r"^\s*usage:|^Usage\b|\bSYNOPSIS\b|^Options:$", stripped, re.IGNORECASE | re.MULTILINE)
        and len(facts) == 1
    ):
        return "help_text", "the output is the program's own help"
    if all(f.kind != "sqlite" for f in facts) and (len(stripped) < (4 if work else 12) or len(set(stripped)) < 4):
        return "trivial", f"the whole result is {stripped!r}"
    return None


def _days() -> set[str]:
    """The date of today (and of the days beside it, for other time zones) as programs write it."""
    today = datetime.datetime.now(datetime.UTC).date()
    days = [today + datetime.timedelta(days=d) for d in (-1, 0, 1)]
    return {
        d.strftime(f)
        for d in days
        for f in ("%Y-%m-%d", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%-d-%b-%Y", "%B %-d, %Y", "%Y/%m/%d", "%b %-d %Y")
    }
