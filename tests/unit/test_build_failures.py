"""Classes of failed builds. The texts in tests/data/build_logs are those of real builds, shortened, hosts renamed.

Each begins with its class and the lines of the Dockerfile, as comments; then the engine's message, an empty line, and
what the step wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from sandbox.building.build_failures import classify
from sandbox.building.outcome import BuildOutcome
from sandbox.types import FailureClass

LOGS = Path(__file__).resolve().parent.parent / "data" / "build_logs"
STEP_FAILED = "The command '/bin/sh -c x' returned a non-zero code: 1"


@dataclass(frozen=True)
class Host:
    """What the proxy says about a host."""

    outcome: str
    host: str = "index.invalid"
    reached_today: bool = False


def outcome(error: str, last_step: str = "", *, timed_out: bool = False, out_of_space: bool = False) -> BuildOutcome:
    return BuildOutcome(
        image_id=None,
        error=error,
        log=last_step,
        last_step=last_step,
        timed_out=timed_out,
        out_of_space=out_of_space,
        seconds=1.0,
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_a_real_build_has_its_class(name: str) -> None:
    lines = (LOGS / f"{name}.log").read_text().splitlines()
    comments = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    rest = "\n".join(line for line in lines if not line.startswith("# "))
    error, _, step = rest.partition("\n\n")
    dockerfile = "FROM base\n" + "\n".join(comments[1:]) + "\n"
    assert classify(dockerfile, outcome(error, step)) == comments[0]


def test_every_class_that_a_log_can_show_has_one() -> None:
    shown = {path.read_text().partition("\n")[0].removeprefix("# ") for path in LOGS.glob("*.log")}
    # The others are told by the limits, by the proxy or before anything is run.
    silent = {"build_timeout", "context_invalid", "host_not_allowed", "unreachable_host"}
    assert shown | silent == set(get_args(FailureClass))


class TestLimits:
    def test_a_time_limit_comes_before_all_else(self) -> None:
        assert classify("FROM a\n", outcome("no space left on device", timed_out=True)) == "build_timeout"

    def test_a_build_that_filled_the_disk(self) -> None:
        assert classify("FROM a\n", outcome("the build wrote more than 9 MB", out_of_space=True)) == "disk"

    def test_a_step_that_was_killed_ran_out_of_memory(self) -> None:
        error = "The command '/bin/sh -c make' returned a non-zero code: 137"
        assert classify("FROM a\nRUN make\n", outcome(error, "cc -c a.c\n")) == "memory"


class TestHosts:
    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            (Host("refused"), "host_not_allowed"),
            (Host("refused", reached_today=True), "host_not_allowed"),
            (Host("unreachable"), "infrastructure"),
            (Host("unresolved"), "infrastructure"),
            (Host("unreachable", reached_today=True), "unreachable_host"),
            (Host("unresolved", reached_today=True), "unreachable_host"),
        ],
    )
    def test_what_the_proxy_saw_decides(self, host: Host, expected: FailureClass) -> None:
        step = "curl: (56) CONNECT tunnel failed, response 502\n"
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step), [host]) == expected

    def test_pip_does_not_say_that_the_network_failed(self) -> None:
        step = "ERROR: No matching distribution found for six (from versions: none)\n"
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step)) == "version_drift"
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step), [Host("unreachable")]) == "infrastructure"

    def test_a_host_that_the_step_could_do_without_is_no_cause(self) -> None:
        step = "a.c:1:10: fatal error: x.h: No such file or directory\n"
        failures = [Host("refused"), Host("unreachable")]
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step), failures) == "missing_dependency"

    def test_the_host_that_the_step_names_counts(self) -> None:
        step = "curl: (6) Could not resolve host: gone.invalid\n"
        failures = [Host("refused", "telemetry.invalid"), Host("unresolved", "gone.invalid", reached_today=True)]
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step), failures) == "unreachable_host"

    @pytest.mark.parametrize(
        "line",
        [
            "curl: (56) CONNECT tunnel failed, response 403",
            "OSError('Tunnel connection failed: 403 Forbidden')",
            "npm error tunneling socket could not be established, statusCode=403",
            "  Invalid response from proxy: HTTP/1.1 403 Forbidden     [IP: 192.0.2.1 3128]",
        ],
    )
    def test_the_proxys_refusal_is_known_by_its_words(self, line: str) -> None:
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, line)) == "host_not_allowed"


class TestEngine:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            ("failed to parse Dockerfile: file with no instructions", "dockerfile_invalid"),
            ("pull access denied for x, repository does not exist or may require 'docker login'", "base_missing"),
            ("manifest for debian:none not found: manifest unknown: manifest unknown", "base_missing"),
            ('Get "https://registry/v2/": dial tcp: lookup registry: no such host', "infrastructure"),
            ("Error processing tar file(exit status 1): write /big: no space left on device", "disk"),
            ("Error processing tar file(exit status 1): unexpected EOF", "context_invalid"),
            ("the --mount option requires BuildKit. Refer to the documentation", "needs_buildkit"),
            ("something that nobody has seen", "build_failed"),
        ],
    )
    def test_what_the_engine_itself_says(self, error: str, expected: FailureClass) -> None:
        assert classify("FROM a\n", outcome(error)) == expected

    def test_a_warning_is_no_cause(self) -> None:
        step = (
            "npm warn EBADENGINE Unsupported engine\nnpm WARN deprecated x: No module named y\nsh: 1: tsc: not found\n"
        )
        assert classify("FROM a\nRUN x\n", outcome(STEP_FAILED, step)) == "missing_dependency"

    def test_an_argument_that_is_no_secret_is_no_cause(self) -> None:
        text = "FROM a\nARG VERSION\nARG NPM_TOKEN=none\nRUN x\n"
        assert classify(text, outcome(STEP_FAILED, "it failed\n")) == "build_failed"
