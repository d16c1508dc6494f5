"""Reading and changing Dockerfiles, and the settings of base images."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox.building.base_images import CERTIFICATES, BaseImageConfig
from sandbox.building.builds import tar_of
from sandbox.building.dockerfile_text import (
    external_images,
    instructions,
    replace_images,
    with_arguments,
    with_original_lines,
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
