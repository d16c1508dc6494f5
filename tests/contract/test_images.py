"""What building an image promises, against a real engine: each content once, failures as results, nothing left."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import docker
import pytest

from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.builds import remove_dead_steps, step_mark
from sandbox.building.images import ImageBuilder
from sandbox.building.step_limits import groups_of
from sandbox.egress.egress import Egress
from sandbox.engine import OWNER, owner, owner_labels
from sandbox.types import BuildLimits, ImageBuild, ImageSpec

pytestmark = pytest.mark.docker

LIMITS = BuildLimits(timeout_s=60)
BASE = BaseImageConfig().base_image
PROJECT = Path(__file__).resolve().parent.parent.parent


def build(builder: ImageBuilder, dockerfile: str, **fields: object) -> ImageBuild:
    limits = fields.pop("limits", LIMITS)
    assert isinstance(limits, BuildLimits)
    return builder.build(ImageSpec.model_validate({"name": "test", "dockerfile": dockerfile, **fields}), limits)


def output_of(client: docker.DockerClient, build: ImageBuild, command: str) -> str:
    assert build.digest is not None, build
    said: bytes = client.containers.run(build.digest, ["sh", "-c", command], remove=True, network_mode="none")
    return said.decode()


class TestBuilt:
    def test_the_same_content_is_built_once_and_other_content_anew(self, builder: ImageBuilder, unique: str) -> None:
        dockerfile = f"FROM {BASE}\nLABEL test={unique}\n"
        first, second = build(builder, dockerfile), build(builder, dockerfile)
        other = build(builder, dockerfile, context_files={"a.txt": "1"})
        assert (first.status, first.cached, second.cached) == ("built", False, True)
        assert first.digest == second.digest
        assert not other.cached
        assert first.size_bytes == second.size_bytes > 0

    def test_context_files_lie_over_the_archive(
        self, builder: ImageBuilder, client: docker.DockerClient, unique: str, tmp_path: Path
    ) -> None:
        archive = tmp_path / "context.tar"
        with tarfile.open(archive, "w") as tar:
            for name, content in {"a.txt": b"from archive", "b/c.txt": b"deep"}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        made = build(
            builder,
            f"FROM {BASE}\nLABEL test={unique}\nCOPY . /src/\n",
            context=archive,
            context_files={"a.txt": "from spec"},
            workdir="/src/b",
        )
        assert output_of(client, made, "cat ../a.txt c.txt; pwd") == "from specdeep/src/b\n"

    def test_build_settings_reach_every_step_and_stay_out_of_the_image(
        self, client: docker.DockerClient, data_folder: Path, unique: str
    ) -> None:
        config = BaseImageConfig(build_env={"PROBE": "value of the probe"})
        dockerfile = (
            f"FROM {BASE} AS first\nRUN echo $PROBE > /probe\n"
            f"FROM {BASE}\nLABEL test={unique}\nCOPY --from=first /probe /\nRUN echo $PROBE >> /probe\n"
        )
        made = build(ImageBuilder(client, BaseImages(client, config, data_folder)), dockerfile)
        assert output_of(client, made, "cat /probe").splitlines() == ["value of the probe"] * 2
        environment = client.api.inspect_image(made.digest)["Config"]["Env"]
        assert [line.partition("=")[0] for line in environment] == ["PATH"]

    def test_a_substituted_base_is_reported(self, builder: ImageBuilder, bases: BaseImages, unique: str) -> None:
        made = build(builder, f"FROM {BASE}\nLABEL test={unique}\n")
        assert made.base_substituted == bases.base().substituted
        assert bool(made.reason) == made.base_substituted

    def test_images_carry_our_label(self, builder: ImageBuilder, client: docker.DockerClient, unique: str) -> None:
        made = build(builder, f"FROM {BASE}\nLABEL test={unique}\n")
        assert client.api.inspect_image(made.digest)["Config"]["Labels"]["touchstone"] == "1"


class TestFailed:
    @pytest.mark.parametrize(
        ("lines", "failure_class", "reason"),
        [
            ("RUN echo told; exit 7", "build_failed", "returned a non-zero code: 7"),
            ("COPY absent /", "missing_file", "absent"),
            ("\nFOO bar", "dockerfile_invalid", "line 3: unknown instruction: FOO"),
            ("COPY --chmod=600 absent /", "missing_file", "/absent"),
            ("RUN --mount=type=cache,target=/x echo told; exit 7", "build_failed", "returned a non-zero code: 7"),
            ("COPY --parents a.txt /", "needs_buildkit", "nknown flag: parents"),
        ],
    )
    def test_each_failure_has_its_class_and_reason(
        self, builder: ImageBuilder, lines: str, failure_class: str, reason: str
    ) -> None:
        failed = build(builder, f"FROM {BASE}\n{lines}\n", context_files={"a.txt": ""})
        assert (failed.status, failed.digest, failed.failure_class) == ("failed", None, failure_class), failed
        assert reason in failed.reason
        assert len(failed.log_tail) <= 4000

    def test_a_host_that_nobody_reached_is_not_held_against_the_repository(
        self, builder: ImageBuilder, client: docker.DockerClient, data_folder: Path
    ) -> None:
        failed = build(builder, f"FROM {BASE}\nRUN git clone -q http://nowhere.invalid/x\n")
        confined = Egress.of(data_folder, client).restricted
        assert failed.failure_class == ("host_not_allowed" if confined else "infrastructure"), failed
        assert failed.hosts == (("nowhere.invalid",) if confined else ())

    @pytest.mark.parametrize("flags", ["", "--mount=type=tmpfs,target=/t "], ids=["classic", "buildkit"])
    def test_the_log_tells_what_the_step_wrote(self, builder: ImageBuilder, flags: str) -> None:
        words = ["told", "writing image x", "#1 ERROR: y", "------", "ERROR: failed to solve: z"]
        steps = "; ".join(f"echo {word!r} >&2" for word in words)
        failed = build(builder, f"FROM {BASE}\nRUN true\nRUN {flags}{steps}; exit 7\n")
        assert "\n" + "\n".join(words) + "\n" in failed.log_tail
        assert failed.log_tail.rstrip().endswith("exit 7' returned a non-zero code: 7")
        assert failed.reason.endswith("exit 7' returned a non-zero code: 7")

    def test_a_base_that_nobody_has_is_named(self, builder: ImageBuilder) -> None:
        failed = build(builder, "FROM touchstone/no-such-base:1\nRUN true\n")
        assert "touchstone/no-such-base:1" in failed.reason
        silent = "no registry answers" in failed.reason
        assert failed.failure_class == ("infrastructure" if silent else "base_missing")

    @pytest.mark.parametrize("flags", ["", "--chmod=644 "], ids=["classic", "buildkit"])
    def test_the_engine_fetches_nothing_from_where_builds_may_not_go(
        self, client: docker.DockerClient, bases: BaseImages, tmp_path: Path, flags: str
    ) -> None:
        egress = Egress(tmp_path, restricted=True)
        egress.allow(["good.invalid"])
        builder = ImageBuilder(client, bases, egress)
        text = f"FROM {BASE}\nADD {flags}https://good.invalid/a /\nADD {flags}https://bad.invalid/a /\n"
        failed = build(builder, text)
        assert (failed.failure_class, failed.hosts) == ("host_not_allowed", ("bad.invalid",)), failed

    def test_an_unreadable_context_is_named(self, builder: ImageBuilder, tmp_path: Path) -> None:
        (tmp_path / "broken.tar").write_bytes(b"no archive" * 100)
        for name in ("broken.tar", "absent.tar"):
            failed = build(builder, f"FROM {BASE}\nRUN echo {name}\n", context=tmp_path / name)
            assert failed.failure_class == "context_invalid"
            assert failed.reason


class TestNothingIsLeft:
    @pytest.mark.parametrize("step", ["sleep 600", "yes"])
    def test_a_step_without_end_is_ended_at_the_time_limit(
        self, builder: ImageBuilder, client: docker.DockerClient, unique: str, step: str
    ) -> None:
        started = time.monotonic()
        failed = build(builder, f"FROM {BASE}\nRUN : {unique}; {step}\n", limits=BuildLimits(timeout_s=2))
        assert (failed.status, failed.failure_class) == ("failed", "build_timeout")
        assert time.monotonic() - started < 15
        assert _steps(client, unique) == []

    def test_a_killed_driver_leaves_no_step(
        self, client: docker.DockerClient, data_folder: Path, unique: str, bases: BaseImages
    ) -> None:
        bases.base()
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path\n"
            "from sandbox.building.base_images import BaseImageConfig, BaseImages\n"
            "from sandbox.engine import connect\n"
            "from sandbox.building.images import ImageBuilder\n"
            "from sandbox.types import BuildLimits, ImageSpec\n"
            "data = Path(sys.argv[2]); client = connect(data)\n"
            "builder = ImageBuilder(client, BaseImages(client, BaseImageConfig(), data))\n"
            "builder.build(ImageSpec(name='killed', dockerfile=sys.argv[3]), BuildLimits())\n"
        )
        dockerfile = f"FROM {BASE}\nRUN : {unique}; sleep 600\n"
        with subprocess.Popen([sys.executable, "-c", code, str(PROJECT), str(data_folder), dockerfile]) as driver:
            _wait(lambda: _steps(client, unique) != [])
            driver.kill()
        _wait(lambda: _steps(client, unique) == [])

    def test_steps_that_an_engine_forgot_are_reaped_when_their_driver_is_dead(
        self, client: docker.DockerClient, image: str
    ) -> None:
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from sandbox.building.builds import step_mark\nprint(step_mark())"
        )
        dead = subprocess.run([sys.executable, "-c", code, str(PROJECT)], capture_output=True, text=True, check=True)
        assert owner_labels(1)[OWNER].encode().hex() in step_mark().replace(".", "")
        marks = {"dead": dead.stdout.strip(), "alive": step_mark(), "foreign": "some-host"}
        made = {
            name: client.containers.create(image, ["true"], extra_hosts={mark: "127.0.0.1"})
            for name, mark in marks.items()
        }
        # Another test's driver may have looked before: only what is left counts.
        remove_dead_steps(client)
        left = {one["Id"] for one in client.api.containers(all=True)}
        assert [name for name, container in made.items() if container.id in left] == ["alive", "foreign"]
        for name in ("alive", "foreign"):
            made[name].remove()

    def test_control_groups_of_dead_drivers_are_removed(self, client: docker.DockerClient) -> None:
        groups = groups_of(client)
        if groups is None:
            pytest.skip("control groups are those of an engine of our own")
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from sandbox.engine import owner\nprint(owner().replace(':', '_'))"
        )
        dead = subprocess.run([sys.executable, "-c", code, str(PROJECT)], capture_output=True, text=True, check=True)
        names = {"dead": dead.stdout.strip(), "alive": owner().replace(":", "_")}
        made = {
            name: [root / groups.parent / f"build-{word}-999" for root in groups.controllers.values()]
            for name, word in names.items()
        }
        for path in {path for paths in made.values() for path in paths}:
            path.mkdir(parents=True)
        groups.remove_dead()
        assert [name for name, paths in made.items() if any(path.exists() for path in paths)] == ["alive"]
        for path in set(made["alive"]):
            path.rmdir()


class TestBases:
    def test_the_base_is_made_once(self, bases: BaseImages, client: docker.DockerClient, data_folder: Path) -> None:
        again = BaseImages(client, BaseImageConfig(), data_folder)
        started = time.monotonic()
        assert again.base() == bases.base()
        assert time.monotonic() - started < 5

    def test_an_unknown_toolchain_is_refused_with_those_there_are(self, bases: BaseImages) -> None:
        with pytest.raises(ValueError, match=r"'cobol'.*python"):
            bases.toolchain("cobol")

    @pytest.mark.slow
    def test_a_certificate_bundle_is_trusted_and_never_in_the_environment(
        self, client: docker.DockerClient, data_folder: Path
    ) -> None:
        ours = next(Path("/etc/ssl/certs").glob("*.pem"), None)
        if ours is None:
            pytest.skip("this machine has no certificates")
        bases = BaseImages(client, BaseImageConfig(ca_bundle=ours), data_folder)
        base = bases.base()
        said = client.containers.run(base.digest, ["cat", bases.config.build_args()["PIP_CERT"]], remove=True)
        assert ours.read_bytes().strip() in said
        assert [line.partition("=")[0] for line in client.api.inspect_image(base.digest)["Config"]["Env"]] == ["PATH"]


def _steps(client: docker.DockerClient, word: str) -> list[str]:
    return [one["Id"] for one in client.api.containers(all=True) if word in one["Command"]]


def _wait(condition: object, timeout_s: float = 20) -> None:
    assert callable(condition)
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
