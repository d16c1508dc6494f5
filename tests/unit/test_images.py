"""Reading Dockerfiles, classes of failed builds (recorded texts of real engines) and the settings of base images."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox.building.base_images import CERTIFICATES, BaseImageConfig
from sandbox.building.build_failures import classify
from sandbox.building.builds import BuildOutcome, tar_of
from sandbox.building.dockerfile_text import (
    external_images,
    instructions,
    replace_images,
    with_arguments,
    with_original_lines,
)
from sandbox.types import FailureClass


def failed(error: str, last_step: str = "", *, timed_out: bool = False) -> BuildOutcome:
    return BuildOutcome(
        image_id=None, error=error, log=last_step, last_step=last_step, timed_out=timed_out, seconds=1.0
    )


class TestInstructions:
    def test_continuations_comments_and_empty_lines_inside_one_belong_together(self) -> None:
        text = "FROM a\n# note\nRUN one \\\n  # inner\n\n  two\nCMD x\n"
        assert [(one.first, one.last, one.word) for one in instructions(text)] == [
            (0, 0, "FROM"),
            (2, 5, "RUN"),
            (6, 6, "CMD"),
        ]

    def test_the_escape_directive_is_obeyed(self) -> None:
        assert len(instructions("# escape=`\nFROM a\nRUN x `\n  y\nRUN z \\\n")) == 3

    def test_windows_line_ends_and_a_byte_order_mark_are_read(self) -> None:
        assert external_images("\ufeff# escape=`\r\nFROM a\r\nRUN x `\r\n y\r\n") == ["a"]


class TestExternalImages:
    def test_stages_scratch_and_numbers_are_not_external(self) -> None:
        text = (
            "FROM golang:1 AS Build\nFROM scratch\nCOPY --from=build /a /a\nCOPY --from=0 /b /b\n"
            "COPY --chown=1 --from=busybox:1 /bin/sh /sh\nFROM build\n"
        )
        assert external_images(text) == ["golang:1", "busybox:1"]

    def test_defaults_of_arguments_before_the_first_from_are_known(self) -> None:
        text = (
            'ARG VERSION="3.11"\nARG OS=slim\nFROM --platform=x python:${VERSION}-$OS\nARG VERSION=9\nFROM x:${NO:-1}\n'
        )
        assert external_images(text) == ["python:3.11-slim", "x:1"]

    def test_an_argument_without_a_default_stays_visible(self) -> None:
        assert external_images("ARG BASE\nFROM ${BASE}\n") == ["${BASE}"]


class TestChanges:
    def test_arguments_are_declared_in_every_stage_after_its_from(self) -> None:
        text = "FROM a \\\n  AS one\nRUN x\nFROM b\n"
        assert with_arguments(text, ["B", "A"]) == "FROM a \\\n  AS one\nARG A\nARG B\nRUN x\nFROM b\nARG A\nARG B\n"

    def test_without_arguments_nothing_changes(self) -> None:
        assert with_arguments("FROM a", []) == "FROM a"

    def test_messages_get_the_line_numbers_of_the_original(self) -> None:
        text = "FROM a\nRUN x\nFROM b\nFOO y\n"
        message = "dockerfile parse error line 8: unknown instruction: FOO"
        assert (
            with_original_lines(message, text, ["A", "B"]) == "dockerfile parse error line 4: unknown instruction: FOO"
        )

    def test_only_the_reference_of_a_from_is_replaced(self) -> None:
        text = "FROM --platform=linux/amd64 a:1 AS x\nRUN echo a:1\nFROM x\n"
        changed = replace_images(text, lambda name: "ours:2" if name == "a:1" else name)
        assert changed == "FROM --platform=linux/amd64 ours:2 AS x\nRUN echo a:1\nFROM x\n"


class TestFailureClasses:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            ("dockerfile parse error line 3: unknown instruction: FOO", "dockerfile_invalid"),
            ("failed to parse Dockerfile: file with no instructions", "dockerfile_invalid"),
            ("pull access denied for x, repository does not exist or may require 'docker login'", "base_missing"),
            ("manifest for debian:none not found: manifest unknown: manifest unknown", "base_missing"),
            ('Get "https://registry/v2/": dial tcp: lookup registry: no such host', "infrastructure"),
            ("Error processing tar file(exit status 1): write /big: no space left on device", "infrastructure"),
            ("Error processing tar file(exit status 1): unexpected EOF", "context_invalid"),
            ("the --mount option requires BuildKit. Refer to the documentation", "needs_buildkit"),
            ("COPY failed: file not found in build context: stat x: file does not exist", "build_failed"),
        ],
    )
    def test_the_engines_own_errors(self, error: str, expected: FailureClass) -> None:
        assert classify("FROM a\n", failed(error)) == expected

    @pytest.mark.parametrize(
        ("last_step", "expected"),
        [
            ("make: *** No rule to make target 'x'. Stop.", "build_failed"),
            ("E: Unable to locate package libfoo-dev", "build_failed"),
            ("ERROR: Could not find a version that satisfies the requirement x==9", "build_failed"),
            ("Temporary failure resolving 'mirror.invalid'", "infrastructure"),
            ("npm ERR! code EAI_AGAIN", "infrastructure"),
            ("go: dial tcp: lookup proxy: i/o timeout", "infrastructure"),
            ("ERROR: [Errno 28] No space left on device", "infrastructure"),
            ("SSL: CERTIFICATE_VERIFY_FAILED certificate verify failed", "infrastructure"),
        ],
    )
    def test_what_the_failing_step_wrote(self, last_step: str, expected: FailureClass) -> None:
        error = "The command '/bin/sh -c x' returned a non-zero code: 1"
        assert classify("FROM a\nRUN x\n", failed(error, last_step)) == expected

    @pytest.mark.parametrize(
        "line",
        ["RUN <<EOF", "COPY <<'EOF' /x", "RUN --mount=type=secret,id=a x", "COPY --link a b", "ADD --checksum=a b c"],
    )
    def test_what_only_buildkit_reads(self, line: str) -> None:
        assert classify(f"FROM a\n{line}\n", failed("dockerfile parse error line 4: unknown flag")) == "needs_buildkit"

    def test_a_shell_heredoc_inside_a_command_is_not_buildkits(self) -> None:
        text = "FROM a\nRUN cat /x && grep '<' y\n"
        assert classify(text, failed("The command 'x' returned a non-zero code: 1")) == "build_failed"

    def test_an_empty_platform_variable_needs_buildkit(self) -> None:
        error = "The command 'x' returned a non-zero code: 8"
        assert classify("FROM a\nRUN wget x-$TARGETARCH.tgz\n", failed(error)) == "needs_buildkit"

    def test_a_time_limit_comes_before_all_else(self) -> None:
        assert classify("FROM a\n", failed("no space left on device", timed_out=True)) == "build_timeout"


class TestSettings:
    @pytest.mark.parametrize("address", ["https://me:secret@index.invalid/simple", "a https://token@index.invalid/"])
    def test_credentials_in_build_settings_are_refused(self, address: str) -> None:
        with pytest.raises(ValidationError, match="PIP_INDEX_URL holds credentials"):
            BaseImageConfig(build_env={"PIP_INDEX_URL": address})

    def test_an_index_without_credentials_is_taken(self) -> None:
        BaseImageConfig(build_env={"PIP_INDEX_URL": "https://index.invalid/simple", "OTHER": "a@b"})

    def test_certificates_are_named_only_where_a_bundle_is_given(self) -> None:
        assert BaseImageConfig().build_args() == {}
        assert BaseImageConfig(ca_bundle=Path("/x.pem")).build_args()["PIP_CERT"] == CERTIFICATES


def test_an_archive_of_the_same_files_is_the_same_archive() -> None:
    assert tar_of({"b": b"2", "a": b"1"}) == tar_of({"a": b"1", "b": b"2"})
