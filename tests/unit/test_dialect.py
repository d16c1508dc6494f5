"""A Dockerfile in the words of the engine's builders: what is rewritten, and that all else stays where it was."""

from __future__ import annotations

import json

import pytest

from sandbox.building.dialect import Platform, downloads, portable, with_own_caches
from sandbox.building.dockerfile_text import external_images, instructions
from sandbox.building.heredocs import lowered

PLATFORM = Platform("linux", "amd64")


def text_of(dockerfile: str) -> str:
    return portable(dockerfile, PLATFORM).text


class TestDirectives:
    def test_a_front_end_is_dropped_and_the_escape_stays_in_force(self) -> None:
        text = "# syntax=x/y:1\n# check=skip=all\n# escape=`\nFROM a\nRUN x `\n  y\n"
        assert text_of(text) == "# escape=`\n#\n#\nFROM a\nRUN x `\n  y\n"
        assert len(instructions(text_of(text))) == 2

    def test_a_comment_later_on_is_no_directive(self) -> None:
        text = "FROM a\n# syntax=x\nRUN y\n"
        assert text_of(text) == text

    def test_windows_line_ends_and_a_byte_order_mark_go(self) -> None:
        assert text_of("\ufeff# syntax=x\r\nFROM a\r\nRUN b\r\n") == "#\nFROM a\nRUN b\n"


class TestFlags:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("COPY --link a b", "COPY a b"),
            ("COPY --chown=1 --link=true --from=x a b", "COPY --chown=1 --from=x a b"),
            ("add --link a b", "add a b"),
            ("RUN --network=host --security=insecure make --link", "RUN make --link"),
            ("RUN ln --link a", "RUN ln --link a"),
            ("FROM --platform=linux/amd64 b", "FROM b"),
            ("FROM --platform=${BUILDPLATFORM} b AS c", "FROM b AS c"),
            ("FROM --platform=$TARGETOS/$TARGETARCH b", "FROM b"),
            ("FROM --platform=$MY_PLATFORM b", "FROM b"),
        ],
    )
    def test_what_changes_nothing_is_dropped(self, line: str, expected: str) -> None:
        assert text_of(f"FROM a AS x\nFROM x\n{line}\nRUN --mount=from=x y\n").splitlines()[2] == expected

    @pytest.mark.parametrize("wanted", ["linux/arm64", "windows/amd64"])
    def test_another_platform_is_told(self, wanted: str) -> None:
        assert portable(f"FROM --platform={wanted} a\n", PLATFORM).foreign == wanted

    def test_lines_keep_their_numbers(self) -> None:
        text = "FROM a\nCOPY --link \\\n  # why\n  a b\nRUN c\n"
        assert [one.first for one in instructions(text_of(text))] == [0, 1, 4]


class TestBuilder:
    @pytest.mark.parametrize(
        "line",
        [
            "RUN --mount=type=cache,target=/x y",
            "COPY --chmod=755 a b",
            "COPY --from=x --parents a b",
            "ADD --checksum=sha256:0 a b",
            "ADD git@host.invalid:a/b.git /c",
            "ADD https://host.invalid/a.git#main /c",
        ],
    )
    def test_what_only_buildkit_knows(self, line: str) -> None:
        assert portable(f"FROM a AS x\nFROM x\n{line}\n", PLATFORM).buildkit

    @pytest.mark.parametrize(
        "line", ["RUN x --mount=y", "COPY --chown=1 a b", "ADD https://host.invalid/a.tgz /", "RUN <<EOF\nx\nEOF"]
    )
    def test_what_the_classic_builder_knows_or_is_told(self, line: str) -> None:
        assert not portable(f"FROM a\n{line}\n", PLATFORM).buildkit

    def test_declared_variables_of_the_platform_get_values(self) -> None:
        text = "ARG TARGETOS\nFROM a\nARG TARGETARCH=x OTHER\nARG TARGETVARIANT\n"
        assert portable(text, PLATFORM).arguments == {"TARGETOS": "linux", "TARGETARCH": "amd64", "TARGETVARIANT": ""}

    def test_caches_belong_to_one_owner(self) -> None:
        text = "RUN --mount=type=cache,target=/x --mount=target=/y,type=cache,id=z,ro --mount=type=tmpfs,target=/t a\n"
        assert with_own_caches(text, "me") == (
            "RUN --mount=type=cache,target=/x,id=me-/x --mount=target=/y,type=cache,ro,id=me-z"
            " --mount=type=tmpfs,target=/t a\n"
        )


class TestStages:
    def test_only_what_the_last_one_needs_stays(self) -> None:
        text = "FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\nFROM one AS three\nFROM c\nCOPY --from=three x y\n"
        assert external_images(text_of(text)) == ["a", "c"]

    def test_a_mount_needs_its_stage(self) -> None:
        text = "FROM a AS one\nFROM b\nRUN --mount=type=bind,from=one,target=/x y\n"
        assert external_images(text_of(text)) == ["a", "b"]

    @pytest.mark.parametrize("source", ["0", "$STAGE"])
    def test_with_numbers_or_variables_all_stay(self, source: str) -> None:
        text = f"FROM a AS one\nFROM b AS two\nFROM c\nCOPY --from={source} x y\n"
        assert text_of(text) == text

    def test_a_variable_of_the_platform_chooses_the_stage(self) -> None:
        text = "FROM a AS for-amd64\nFROM b AS for-arm64\nFROM for-$TARGETARCH\n"
        assert external_images(text_of(text), PLATFORM.arguments) == ["a"]


class TestHeredocs:
    def test_a_script_becomes_an_argument(self) -> None:
        text, files = lowered('FROM a\nRUN <<EOF\nx "$y"\n\nEOF\nRUN z\n')
        assert text == 'FROM a\nRUN ["/bin/sh", "-c", "x \\"$y\\"\\n\\n"]\n\n\n\nRUN z\n'
        assert files == {}

    def test_the_shell_of_the_stage_runs_it(self) -> None:
        text, _ = lowered('FROM a AS x\nSHELL ["/bin/bash", "-c"]\nFROM x\nRUN --mount=target=/m <<-E\n\ty\n\tE\n')
        assert 'RUN --mount=target=/m ["/bin/bash", "-c", "y\\n"]' in text

    def test_a_command_keeps_its_heredocs(self) -> None:
        text, _ = lowered("FROM a\nRUN cat <<A > x && \\\n  cat <<'B' > y\n1\nA\n2\nB\n")
        words = json.loads(text.splitlines()[1].removeprefix("RUN "))
        assert words == ["/bin/sh", "-c", "cat <<A > x &&   cat <<'B' > y\n1\nA\n2\nB\n"]

    def test_files_get_the_values_that_are_known(self) -> None:
        _, files = lowered(
            'FROM a\nARG A=1\nENV B="$A b" C=c\nENV D d e\nCOPY <<X /y\n$A ${B} ${C} $D \\$A $PATH ${NO:-none}\nX\n'
        )
        assert list(files.values()) == ["1 1 b c d e $A $PATH none\n"]

    @pytest.mark.parametrize(
        "line", ["RUN x <<<EOF", "RUN echo $((1<<2))", "RUN cat <<EOF > x", "LABEL a=<<EOF", "RUN echo '<<EOF'"]
    )
    def test_what_is_none_stays(self, line: str) -> None:
        text = f"FROM a\n{line}\nRUN y\n"
        assert lowered(text) == (text, {})

    def test_instructions_inside_of_one_are_none(self) -> None:
        text = "FROM a\nCOPY <<EOF /Dockerfile\nFROM b\nRUN \\\nEOF\nRUN c\n"
        assert [(one.first, one.last, one.word) for one in instructions(text)] == [
            (0, 0, "FROM"),
            (1, 4, "COPY"),
            (5, 5, "RUN"),
        ]
        assert external_images(text) == ["a"]


class TestDownloads:
    def test_hosts_that_the_engine_would_ask(self) -> None:
        text = (
            "FROM a\nARG SITE=one.invalid\nENV V=1\nADD --chown=1 https://$SITE/x-${V}.tgz /\n"
            'ADD ["http://user@two.invalid:8080/x", "/y"]\nADD file /z\nRUN curl https://three.invalid\n'
            "ADD https://$UNKNOWN/x /\n"
        )
        assert downloads(text) == [("one.invalid", 443), ("two.invalid", 8080), ("$UNKNOWN", 443)]
