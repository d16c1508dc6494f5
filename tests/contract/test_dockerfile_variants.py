"""Every way in which people write Dockerfiles, on a real engine: what must build builds, the rest has its class."""

from __future__ import annotations

import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import docker
import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.building.base_images import BaseImages
from sandbox.building.buildkit import client_command
from sandbox.building.images import ImageBuilder
from sandbox.building.step_limits import groups_of
from sandbox.types import BuildLimits, ImageBuild, ImageSpec, Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

Build = Callable[..., ImageBuild]
END = "-- end --\n"


def output_of(client: docker.DockerClient, image: str, command: str) -> str:
    """What a shell command writes in a fresh container. A busy engine hands out the last of it some time later."""
    arguments = ["-c", f"{command}; printf %s {END.strip()!r}; echo"]
    container = client.containers.create(image, arguments, entrypoint="sh", network_mode="none")
    try:
        container.start()
        container.wait(timeout=60)
        end = time.monotonic() + 10
        written = ""
        while not written.endswith(END):
            written = container.logs().decode()
            assert time.monotonic() < end, written
            time.sleep(0.05)
    finally:
        container.remove(force=True)
    return written.removesuffix(END)


@pytest.fixture(scope="module")
def base(bases: BaseImages) -> str:
    return bases.base().tag


@pytest.fixture
def build(builder: ImageBuilder, base: str, unique: str) -> Build:
    """Build a text in which BASE is our base; every image is new, and removed at the end."""

    def run(text: str, files: dict[str, str] | None = None, **limits: int) -> ImageBuild:
        text = text.replace("BASE", base).rstrip("\n") + f"\nLABEL test={unique}\n"
        spec = ImageSpec(name="variant", dockerfile=text, context_files={"a.txt": unique} | (files or {}))
        return builder.build(spec, BuildLimits.model_validate({"timeout_s": 60} | limits))

    return run


@pytest.fixture
def said(client: docker.DockerClient, build: Build) -> Callable[..., str]:
    """What a command writes in the image of a text."""

    def run(text: str, command: str, files: dict[str, str] | None = None) -> str:
        made = build(text, files)
        assert made.status == "built", made
        assert made.digest is not None
        return output_of(client, made.digest, command)

    return run


class TestSyntax:
    def test_a_heredoc_is_a_script(self, said: Callable[..., str]) -> None:
        text = 'FROM BASE\nRUN <<EOF\nset -e\necho one > /x\necho "$HOME" >> /x\nEOF\n'
        assert said(text, "cat /x") == "one\n/root\n"

    def test_a_heredoc_may_name_its_interpreter(self, said: Callable[..., str]) -> None:
        text = "FROM BASE\nRUN <<'EOF'\n#!/usr/bin/perl\nopen(my $f, '>', '/x'); print $f 'perl';\nEOF\n"
        assert said(text, "cat /x") == "perl"

    def test_a_heredoc_feeds_a_command(self, said: Callable[..., str]) -> None:
        text = "FROM BASE\nRUN cat <<EOF > /x && cat <<-'END' >> /x\n$HOME\nEOF\n\t$HOME\n\tEND\nRUN echo two >> /x\n"
        assert said(text, "cat /x") == "/root\n$HOME\ntwo\n"

    def test_heredocs_are_files_of_a_copy(self, said: Callable[..., str]) -> None:
        text = (
            "FROM BASE\nARG NAME=world\nENV GREETING=hello\n"
            "COPY <<EOF <<'raw.txt' a.txt /d/\n$GREETING ${NAME}\nEOF\n$GREETING\nraw.txt\n"
            "COPY --chmod=700 <<-EOF /run.sh\n\techo ran\n\tEOF\n"
        )
        assert said(text, "cat /d/EOF /d/raw.txt; ls /d; sh /run.sh; stat -c %a /run.sh") == (
            "hello world\n$GREETING\nEOF\na.txt\nraw.txt\nran\n700\n"
        )

    def test_mounts(self, said: Callable[..., str]) -> None:
        text = (
            "FROM BASE AS first\nRUN echo kept > /kept\nFROM BASE\n"
            "RUN --mount=type=cache,target=/cache --mount=type=tmpfs,target=/t touch /cache/x /t/y && ls /cache > /x\n"
            "RUN --mount=from=first,target=/first --mount=target=/context cat /first/kept >> /x; ls /context >> /x\n"
        )
        assert said(text, "cat /x; ls /cache") == "x\nkept\na.txt\n"

    def test_what_a_cache_mount_keeps_no_other_build_gets(self, said: Callable[..., str], unique: str) -> None:
        text = f"FROM BASE\nRUN --mount=type=cache,id={unique},target=/c ls /c > /x; touch /c/%s\n"
        assert [said(text % word, "cat /x") for word in ("one", "two")] == ["", ""]

    def test_a_mode_for_copies(self, said: Callable[..., str]) -> None:
        assert said("FROM BASE\nCOPY --chmod=0741 --chown=7:8 a.txt /x\n", "stat -c '%a %u %g' /x") == "741 7 8\n"

    def test_linked_copies(self, said: Callable[..., str]) -> None:
        text = (
            "FROM BASE AS first\nRUN echo 1 > /1\nFROM BASE\nCOPY --link a.txt /\nCOPY --link=true --from=first /1 /\n"
        )
        assert said(text, "ls /1 /a.txt") == "/1\n/a.txt\n"

    @pytest.mark.parametrize("more", ["", "RUN --mount=type=cache,target=/c true\n"], ids=["classic", "buildkit"])
    def test_variables_of_the_platform(self, said: Callable[..., str], client: docker.DockerClient, more: str) -> None:
        text = (
            f"ARG TARGETARCH\nFROM --platform=$BUILDPLATFORM BASE\n{more}"
            "ARG TARGETARCH\nARG TARGETPLATFORM BUILDOS\nRUN echo $TARGETARCH $TARGETPLATFORM $BUILDOS > /x\n"
        )
        version = client.api.version()
        assert said(text, "cat /x") == f"{version['Arch']} {version['Os']}/{version['Arch']} {version['Os']}\n"

    @pytest.mark.parametrize("more", ["", " --mount=type=cache,target=/c"], ids=["classic", "buildkit"])
    def test_windows_line_ends_and_a_byte_order_mark(self, said: Callable[..., str], more: str) -> None:
        text = f"\ufeff# a comment\r\nFROM BASE\r\nRUN{more} echo one > /x && \\\r\n    echo two >> /x\r\nENV A=b\r\n"
        assert said(text, "cat /x; echo $A") == "one\ntwo\nb\n"

    def test_a_script_with_windows_line_ends_has_a_class(self, build: Build) -> None:
        failed = build("FROM BASE\nCOPY a.sh /\nRUN chmod +x /a.sh && /a.sh\n", {"a.sh": "#!/bin/sh\r\ntrue\r\n"})
        assert failed.failure_class == "missing_dependency"

    @pytest.mark.parametrize("line", ["# syntax=registry.invalid/frontend:1", "#syntax = registry.invalid/frontend:1"])
    def test_a_front_end_of_its_own_is_not_fetched(self, said: Callable[..., str], line: str) -> None:
        text = f"{line}\n# escape=`\nFROM BASE\nRUN --mount=type=cache,target=/c echo one `\n  > /x\n"
        assert said(text, "cat /x") == "one\n"

    def test_what_this_engine_does_not_know_needs_another(self, build: Build) -> None:
        failed = build("FROM BASE\nCOPY --unheard-of --parents a.txt /\n")
        assert failed.failure_class == "needs_buildkit"

    def test_a_secret_is_not_there(self, build: Build) -> None:
        failed = build("FROM BASE\nRUN --mount=type=secret,id=token,required=true cat /run/secrets/token\n")
        assert failed.failure_class == "secrets_needed"

    def test_the_host_network_is_never_given(self, said: Callable[..., str]) -> None:
        links = said("FROM BASE\nRUN --network=host ls /sys/class/net > /x\n", "cat /x").split()
        assert len(links) == 2, links

    def test_the_builder_and_the_platform_are_told(self, build: Build, client: docker.DockerClient) -> None:
        version = client.api.version()
        made = [build("FROM BASE\nRUN true\n"), build("FROM BASE\nRUN --mount=type=tmpfs,target=/t true\n")]
        assert [one.builder for one in made] == ["classic", "buildkit"]
        assert {one.platform for one in made} == {f"{version['Os']}/{version['Arch']}"}


class TestBases:
    def test_a_pinned_digest_has_a_stand_in_or_is_pulled(self, build: Build) -> None:
        made = build(f"FROM debian:bookworm-slim@sha256:{'0' * 64}\nRUN true\n")
        assert (made.status, made.base_substituted) == ("built", True) or made.failure_class == "base_missing", made

    def test_arguments_in_a_from(self, said: Callable[..., str], base: str) -> None:
        name, _, tag = base.partition(":")
        text = f'ARG NAME={name}\nARG TAG="{tag}"\nFROM ${{NAME}}:${{TAG:-none}} AS last\nARG TAG\nRUN echo $TAG > /x\n'
        assert said(text, "cat /x") == f"{tag}\n"

    def test_an_argument_without_a_value_names_no_base(self, build: Build) -> None:
        assert build("ARG IMAGE\nFROM ${IMAGE}\n").failure_class == "base_missing"

    def test_stages_that_the_last_one_does_not_need_are_passed_over(self, said: Callable[..., str]) -> None:
        text = (
            "FROM BASE AS tools\nRUN echo tool > /tool\nFROM registry.invalid/private AS never\nRUN false\n"
            "FROM tools AS test\nRUN false\nFROM BASE\nCOPY --from=tools /tool /x\n"
        )
        assert said(text, "cat /x") == "tool\n"

    def test_files_of_another_image(self, said: Callable[..., str], unique: str) -> None:
        assert said(
            "FROM BASE\nCOPY --from=BASE /etc/debian_version /x\n", "cmp /x /etc/debian_version && echo same"
        ) == ("same\n")

    def test_what_a_base_wants_done_on_it_is_done(
        self, client: docker.DockerClient, build: Build, said: Callable[..., str], unique: str
    ) -> None:
        parent = build("FROM BASE\nONBUILD RUN echo done > /x\n")
        client.images.get(parent.digest).tag("touchstone/test-parent", unique)
        try:
            assert said(f"FROM touchstone/test-parent:{unique}\n", "cat /x") == "done\n"
        finally:
            client.images.remove(f"touchstone/test-parent:{unique}")

    @pytest.mark.parametrize(
        "reference",
        ["registry.invalid/windows/servercore:ltsc2022", "registry.invalid/windows/nanoserver:1809"],
    )
    def test_windows(self, build: Build, reference: str) -> None:
        failed = build(f"FROM {reference}\nRUN true\n")
        assert (failed.failure_class, failed.builder) == ("base_unsupported", ""), failed

    def test_another_platform(self, build: Build) -> None:
        assert build("FROM --platform=linux/s390x BASE\nRUN true\n").failure_class == "base_unsupported"

    def test_a_private_base(self, build: Build) -> None:
        failed = build("FROM registry.invalid/team/private:1\nRUN true\n")
        assert failed.failure_class == "base_missing"
        assert "registry.invalid/team/private:1" in failed.reason


class TestConfiguration:
    @pytest.mark.parametrize(
        "lines",
        [
            'ENTRYPOINT ["false"]\nCMD ["x"]',
            "USER 65534:65534",
            "HEALTHCHECK --interval=1s --timeout=1s CMD false",
            "STOPSIGNAL SIGQUIT\nVOLUME /data\nEXPOSE 80/tcp\nMAINTAINER me",
            'SHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN true | [[ -d / ]]',
        ],
        ids=["entrypoint that exits", "user", "healthcheck", "old words", "shell"],
    )
    def test_an_image_holds_a_shell_whatever_it_would_run(
        self, build: Build, client: docker.DockerClient, bases: BaseImages, lines: str
    ) -> None:
        made = build(f"FROM BASE\n{lines}\n")
        assert made.digest is not None, made
        sandbox = DockerBackend(client, VerifierRuntime(client, bases)).start(
            made.digest, Limits(memory_mb=128, lifetime_s=60)
        )
        try:
            assert sandbox.execute("echo alive", timeout_s=20).output == "alive\n"
        finally:
            sandbox.close()

    def test_a_working_directory_that_is_missing_is_made(
        self, builder: ImageBuilder, client: docker.DockerClient, base: str, unique: str
    ) -> None:
        text = f"FROM {base}\nLABEL test={unique}\n"
        made = builder.build(ImageSpec(name="variant", dockerfile=text, workdir="/new/place"), BuildLimits())
        assert made.digest is not None
        assert output_of(client, made.digest, "pwd") == "/new/place\n"


class TestLimits:
    @pytest.mark.parametrize("flags", ["", "--mount=type=tmpfs,target=/t "], ids=["classic", "buildkit"])
    @pytest.mark.parametrize(
        "command",
        # The first shell needs no process after the first: one that may not fork any more would give up.
        ["sleep 600", "f() { f | f & wait; }; f & while :; do :; done"],
        ids=["a step without end", "a step that forks without end"],
    )
    def test_is_ended_and_leaves_nothing(
        self, build: Build, client: docker.DockerClient, unique: str, flags: str, command: str
    ) -> None:
        failed = build(f"FROM BASE\nRUN {flags}: {unique}; {command}\n", timeout_s=2, pids=100)
        assert (failed.status, failed.failure_class) == ("failed", "build_timeout"), failed
        assert not [one for one in client.api.containers(all=True) if unique in one["Command"]]
        assert _commands_with(unique) == []

    @pytest.mark.parametrize("flags", ["", "--mount=type=tmpfs,target=/t "], ids=["classic", "buildkit"])
    def test_processes_and_memory_of_a_step_are_limited(
        self, build: Build, client: docker.DockerClient, flags: str
    ) -> None:
        if groups_of(client) is None:
            pytest.skip("limits of processes need an engine of our own")
        forks = 'i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done; echo "$i started"'
        failed = build(f"FROM BASE\nRUN {flags}{forks}\n", pids=50)
        assert failed.status == "failed", failed
        assert "fork" in failed.log_tail.lower()
        failed = build(f"FROM BASE\nRUN {flags}perl -e '$x = \"x\" x (1 << 30); print length $x'\n", memory_mb=200)
        assert failed.failure_class == "memory", failed

    def test_no_control_group_is_left(self, build: Build, client: docker.DockerClient) -> None:
        groups = groups_of(client)
        if groups is None:
            pytest.skip("limits of processes need an engine of our own")
        build("FROM BASE\nRUN true\n")
        mine = f"build-{os.getpid()}_*"
        assert [path for root in groups.roots for path in (root / groups.parent).glob(mine)] == []

    @pytest.mark.parametrize(
        ("name", "megabytes"), [("large.tar.gz", 300), ("large.bin", 100)], ids=["archive", "file"]
    )
    def test_a_huge_add_is_built_or_ended(
        self, builder: ImageBuilder, base: str, unique: str, tmp_path: Path, name: str, megabytes: int
    ) -> None:
        context = tmp_path / "context.tar"
        _archive(context, name, megabytes)
        text = f"FROM {base}\nLABEL test={unique}\nADD {name} /big/\n"
        spec = ImageSpec(name="variant", dockerfile=text, context=context)
        failed = builder.build(spec, BuildLimits(disk_mb=20))
        assert failed.failure_class == "disk", failed
        made = builder.build(spec, BuildLimits())
        assert made.status == "built", made
        assert made.size_bytes > megabytes << 20


def test_there_is_a_client_for_buildkit() -> None:
    assert client_command() is not None


def _commands_with(word: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if word in command and "pytest" not in command:
            found.append(command)
    return found


def _archive(path: Path, name: str, megabytes: int) -> None:
    """A context with one large file; as an archive it holds nothing but zeros and is small."""
    if name.endswith(".gz"):
        inner = path.with_name(name)
        with tarfile.open(inner, "w:gz", compresslevel=1) as archive, open("/dev/zero", "rb") as zeros:
            _member(archive, "zeros", zeros, megabytes << 20)
        with tarfile.open(path, "w") as archive, inner.open("rb") as content:
            _member(archive, name, content, inner.stat().st_size)
        return
    with tarfile.open(path, "w") as archive, open("/dev/zero", "rb") as zeros:
        _member(archive, name, zeros, megabytes << 20)


def _member(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    archive.addfile(entry, content)
