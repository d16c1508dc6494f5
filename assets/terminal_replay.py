"""One recorded attempt as it is read in a terminal: turn by turn what was thought, done and seen, then the verdict."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from assets.visible import visible
from pipeline.exports.atif import calls_of, totals
from pipeline.exports.recorded import RecordedAttempt
from pipeline.terminal_environment import BATCH
from pipeline.types import Interface, Step, Trajectory, VerificationResult

HEAD_LINES, TAIL_LINES = 15, 10
"""Of each output; what is between is left out."""

_COLOURS = {"passed": "green", "failed": "red", "error": "red"}


def replay(attempt: RecordedAttempt) -> Iterator[RenderableType]:
    """The attempt from its task to its verdict."""
    trajectory, steps = attempt.trajectory, attempt.trajectory.steps
    yield _title(attempt)
    yield Padding(visible(attempt.instance.instruction), (0, 0, 1, 2))
    if steps and steps[0].observation:
        yield Padding(_output(steps[0].observation), (0, 0, 0, 2))
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        yield Rule(_headline(step, trajectory.interface), align="left", style="dim")
        seen = None if following is None else following.observation
        for part in _turn(step, trajectory.interface, seen):
            yield Padding(part, (0, 0, 0, 2))
    yield Rule(_ending(trajectory), align="left", style="dim")
    yield from _verdict(attempt.verdict)


def _title(attempt: RecordedAttempt) -> RenderableType:
    trajectory, instance = attempt.trajectory, attempt.instance
    who = " with ".join(part for part in (trajectory.agent, trajectory.model) if part)
    sampling = ", ".join(f"{name}={value}" for name, value in sorted(trajectory.sampling.items()))
    facts = {
        "task": f"{trajectory.instance_id} ({instance.domain}, {instance.family}, {instance.difficulty})",
        "image": f"{instance.image_digest} of {instance.repository_id}",
        "agent": f"{who}, sample {trajectory.sample}" + (f" ({sampling})" if sampling else ""),
        "sandbox": f"{trajectory.interface}, {trajectory.backend or 'unknown backend'}",
    }
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(Text(name, "bold"), visible(fact))
    table = Table.grid()
    table.add_row(visible(f"{trajectory.trajectory_id}, recorded {attempt.recorded_at:%Y-%m-%d %H:%M} UTC", "bold"))
    table.add_row(grid)
    return table


def _headline(step: Step, interface: Interface) -> Text:
    said = [f"step {step.index}"]
    if step.action and interface == "shell":
        said.append("stopped" if step.exit_code is None else f"exit code {step.exit_code}")
    elif step.action and "terminal" in step.extra:
        exit_code = "" if step.exit_code is None else f", exit code {step.exit_code}"
        said.append(f"terminal {step.extra['terminal']}{exit_code}")
    said += [name.replace("_", " ") for name in ("shell_restarted", "oom_killed") if step.extra.get(name)]
    said.append(f"{step.seconds:.1f} s")
    if calls := calls_of(step):
        said.append(f"{step.tokens} tokens in {sum(call.seconds for call in calls):.1f} s")
    return visible(" · ".join(said), "cyan")


def _turn(step: Step, interface: Interface, seen: str | None) -> Iterator[RenderableType]:
    for call in calls_of(step)[:-1]:
        yield visible(f"[{call.purpose}] {call.answer}", "magenta")
    if step.thought:
        yield visible(step.thought, "italic")
    if "told" in step.extra:
        yield visible(f"[told] {step.extra['told']}", "yellow")
    elif not step.action:
        yield Text("hands in", "bold")
    else:
        yield _keys(step) if interface == "terminal" else visible(f"$ {step.action}", "bold")
        if seen is not None:
            yield _output(seen)


def _keys(step: Step) -> Text:
    """The keys as a Python program would write them, so that line ends are seen."""
    typed = [f"{one.keystrokes!r} {one.duration:g} s" for one in BATCH.validate_json(step.action)]
    return visible("keys: " + ", ".join(typed), "bold")


def _output(text: str) -> Text:
    lines = text.rstrip("\n").split("\n") if text.strip() else ["(no output)"]
    if (left_out := len(lines) - HEAD_LINES - TAIL_LINES) > 1:
        lines = [*lines[:HEAD_LINES], f"[{left_out} lines left out]", *lines[-TAIL_LINES:]]
    return visible("\n".join(lines), "dim")


def _ending(trajectory: Trajectory) -> Text:
    spent = totals(trajectory)
    said = [f"{len(trajectory.steps)} steps", f"stopped: {trajectory.stop_reason}"]
    said += [
        f"{spent[name]:,.0f} {name.removeprefix('total_').replace('_', ' ')}"
        for name in ("total_prompt_tokens", "total_cached_tokens", "total_completion_tokens")
        if name in spent
    ]
    if "total_cost_usd" in spent:
        said.append(f"{spent['total_cost_usd']:.4f} USD")
    return visible(" · ".join(said), "cyan")


def _verdict(verdict: VerificationResult | None) -> Iterator[RenderableType]:
    if verdict is None:
        yield Text("not judged", "yellow")
        return
    flags = f", {', '.join(verdict.integrity)}" if verdict.integrity else ""
    reason = f" ({verdict.failure_class})" if verdict.failure_class else ""
    told = f"verdict: {verdict.outcome}{reason} in {verdict.seconds:.1f} s{flags}"
    yield visible(told, f"bold {_COLOURS[verdict.outcome]}")
    if not verdict.tests:
        yield visible(verdict.log_tail, "dim")
        return
    table = Table("test", "outcome", "message")
    for test in verdict.tests:
        colour = _COLOURS.get(test.outcome, "yellow")
        table.add_row(visible(test.test_id), visible(test.outcome, colour), visible(test.message))
    yield table
