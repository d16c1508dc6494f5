"""What starts a run besides the clock: a listing file that is new or changed, a version that was written."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.definitions import defs
from assets.partitions import LANGUAGES, range_tags, today
from assets.resources import WorkshopResource, open_workshop
from assets.run_tags import SNAPSHOT
from assets.sensors import LISTINGS, new_listings, snapshot_published

ONE = "https://hub.example/owner/one.git\n"
TWO = "https://hub.example/owner/two.git go\n"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as one:
        yield one


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Callable[[str], WorkshopResource]]:
    """A workshop of its own with these settings."""

    def made(settings: str) -> WorkshopResource:
        open_workshop.cache_clear()
        (tmp_path / "touchstone.toml").write_text(settings)
        return WorkshopResource(config=str(tmp_path / "touchstone.toml"), data=str(tmp_path / "data"))

    yield made
    open_workshop.cache_clear()


class Daemon:
    """Ticks a sensor with its cursor, which is all that outlives a daemon."""

    def __init__(
        self, sensor: dg.SensorDefinition, instance: dg.DagsterInstance | None, workshop: WorkshopResource
    ) -> None:
        self._sensor = sensor
        self._instance = instance
        self._workshop = workshop
        self.cursor: str | None = None
        self.skipped: str | None = None

    def tick(self) -> list[dg.RunRequest]:
        context = dg.build_sensor_context(
            self._instance,
            cursor=self.cursor,
            definitions=DEFS if self._sensor.name == "published" else None,
            resources={"workshop": self._workshop},
        )
        data = self._sensor.evaluate_tick(context)
        self.cursor, self.skipped = data.cursor or self.cursor, data.skip_message
        return list(data.run_requests or ())


# Listings ----------------------------------------------------------------------------------------------------------

WATCHED = "[sources]\nuse = ['listing']\n[sources.listing]\nfile = 'lists'\n"


def put(path: Path, text: str | bytes) -> Path:
    """A file that was written a while ago."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (time.time() - 60,) * 2)
    return path


@pytest.fixture
def daemon(tmp_path: Path, workshop: Callable[[str], WorkshopResource]) -> Daemon:
    (tmp_path / "lists").mkdir()
    return Daemon(new_listings, None, workshop(WATCHED))


def test_a_new_file_starts_one_run_for_today_and_a_changed_one_another(daemon: Daemon, tmp_path: Path) -> None:
    assert daemon.tick() == []
    put(tmp_path / "lists" / "a.txt", ONE)
    (first,) = daemon.tick()
    assert first.tags.items() >= (range_tags(today(), LANGUAGES) | {LISTINGS: "a.txt"}).items()
    assert daemon.tick() == []
    put(tmp_path / "lists" / "a.txt", ONE + TWO)
    (second,) = daemon.tick()
    assert first.run_key != second.run_key
    assert daemon.tick() == []


def test_the_run_key_is_the_hash_of_the_file(daemon: Daemon, tmp_path: Path) -> None:
    put(tmp_path / "lists" / "a.txt", ONE)
    (request,) = daemon.tick()
    assert request.run_key == hashlib.sha256(ONE.encode()).hexdigest()
    daemon.cursor = None  # a daemon that died before it could note what it had asked for
    assert [one.run_key for one in daemon.tick()] == [request.run_key]


def test_several_files_at_once_are_one_run(daemon: Daemon, tmp_path: Path) -> None:
    put(tmp_path / "lists" / "a.txt", ONE)
    put(tmp_path / "lists" / "b.txt", TWO)
    put(tmp_path / "lists" / "notes.md", "no listing")
    (request,) = daemon.tick()
    assert request.tags[LISTINGS] == "a.txt, b.txt"
    assert daemon.tick() == []


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("git@host:owner/name.git\n", "give https://host/owner/name.git"),
        (b"\xff\xfe\x00", "cannot be read as text"),
        ("https://me:secret@host.example/a.git\n", "credentials"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_skip_with_the_remedy_and_the_others_start_their_run(
    daemon: Daemon, tmp_path: Path, content: str | bytes, remedy: str
) -> None:
    bad = put(tmp_path / "lists" / "bad.txt", content)
    assert daemon.tick() == [] and remedy in str(daemon.skipped) and "bad.txt" in str(daemon.skipped)
    assert "secret" not in str(daemon.skipped)
    put(tmp_path / "lists" / "good.txt", TWO)
    assert [one.tags[LISTINGS] for one in daemon.tick()] == ["good.txt"]
    assert daemon.tick() == [] and remedy in str(daemon.skipped)
    put(bad, ONE)
    assert [one.tags[LISTINGS] for one in daemon.tick()] == ["bad.txt"]


def test_a_file_that_is_broken_for_a_while_is_not_new_afterwards(daemon: Daemon, tmp_path: Path) -> None:
    file = put(tmp_path / "lists" / "a.txt", ONE)
    daemon.tick()
    put(file, b"\xff\xfe")
    assert daemon.tick() == []
    put(file, ONE)
    assert daemon.tick() == []


def test_a_file_that_may_still_be_written_and_one_without_an_address_wait(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "lists" / "now.txt").write_text(ONE)
    put(tmp_path / "lists" / "empty.txt", "# nothing yet\n")
    assert daemon.tick() == [] and daemon.skipped == "no file is new or changed"
    put(tmp_path / "lists" / "now.txt", ONE)
    assert [one.tags[LISTINGS] for one in daemon.tick()] == ["now.txt"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", 'put "listing" into `use`'),
        ("[sources]\nuse = ['listing']", "no listing is watched"),
        (WATCHED.replace("lists", "none.txt"), "none.txt is not there; put it there"),
    ],
)
def test_what_is_not_configured_or_not_there_is_a_skip_with_the_remedy(
    workshop: Callable[[str], WorkshopResource], settings: str, said: str
) -> None:
    daemon = Daemon(new_listings, None, workshop(settings))
    assert daemon.tick() == [] and said in str(daemon.skipped)


# Versions ----------------------------------------------------------------------------------------------------------


@dg.asset(
    name="terminal_snapshot",
    config_schema={"version": str, "written": bool, "sound": bool},
    check_specs=[dg.AssetCheckSpec("files_match_manifest", asset="terminal_snapshot", blocking=True)],
)
def snapshot(context) -> dg.MaterializeResult:  # type: ignore[no-untyped-def]  # as in test_alerts.py
    config = context.op_execution_context.op_config
    path = dg.MetadataValue.path(f"/data/snapshots/terminal/{config['version']}")
    return dg.MaterializeResult(
        metadata={"path": path, "written": dg.MetadataValue.bool(config["written"])},
        check_results=[dg.AssetCheckResult(passed=config["sound"])],
    )


@dg.op
def train(context) -> None:  # type: ignore[no-untyped-def]
    """Learns nothing."""


@dg.job
def tiny_training() -> None:
    train()


MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION
publishing = dg.define_asset_job("publishing", selection="terminal_snapshot")
published = snapshot_published([tiny_training])
DEFS = dg.Definitions(assets=[snapshot], jobs=[publishing, tiny_training], sensors=[published])


def publish(instance: dg.DagsterInstance, version: str, *, written: bool = True, sound: bool = True) -> None:
    config = {"version": version, "written": written, "sound": sound}
    DEFS.resolve_job_def("publishing").execute_in_process(
        instance=instance, run_config={"ops": {"terminal_snapshot": {"config": config}}}, raise_on_error=False
    )


@pytest.fixture
def trainer(instance: dg.DagsterInstance, workshop: Callable[[str], WorkshopResource]) -> Daemon:
    return Daemon(published, instance, workshop("[training]\njob = 'tiny_training'\n"))


def test_a_version_that_was_written_starts_the_job_once_with_its_name(
    trainer: Daemon, instance: dg.DagsterInstance
) -> None:
    assert trainer.tick() == []
    publish(instance, "v0003")
    (request,) = trainer.tick()
    assert (request.job_name, request.tags[SNAPSHOT]) == ("tiny_training", "terminal@v0003")
    assert trainer.tick() == []
    result = DEFS.resolve_job_def("tiny_training").execute_in_process(instance=instance, tags=request.tags)
    assert result.success and result.dagster_run.tags[SNAPSHOT] == "terminal@v0003"


def test_nights_that_wrote_nothing_start_nothing_and_hide_no_version(
    trainer: Daemon, instance: dg.DagsterInstance
) -> None:
    publish(instance, "v0003", written=False)
    assert trainer.tick() == []
    publish(instance, "v0004")
    publish(instance, "v0004", written=False)
    assert [one.tags[SNAPSHOT] for one in trainer.tick()] == ["terminal@v0004"]


def test_of_several_versions_the_newest_is_trained_on(trainer: Daemon, instance: dg.DagsterInstance) -> None:
    publish(instance, "v0001")
    publish(instance, "v0002")
    assert [one.tags[SNAPSHOT] for one in trainer.tick()] == ["terminal@v0002"]


def test_a_version_that_does_not_read_back_starts_nothing(trainer: Daemon, instance: dg.DagsterInstance) -> None:
    publish(instance, "v0003", sound=False)
    assert trainer.tick() == [] and trainer.skipped == "no version was written"


def test_a_version_whose_step_is_still_at_work_is_waited_for(trainer: Daemon, instance: dg.DagsterInstance) -> None:
    seen: list[object] = []

    @dg.asset(name="terminal_snapshot")
    def slow(context) -> Iterator[object]:  # type: ignore[no-untyped-def]
        path = dg.MetadataValue.path("/data/snapshots/terminal/v0003")
        yield dg.MaterializeResult(metadata={"path": path, "written": dg.MetadataValue.bool(True)})
        seen.append(
            (len(instance.get_records_for_run(context.run.run_id, of_type=MATERIALIZED).records), trainer.tick())
        )

    dg.materialize([slow], instance=instance)
    assert seen == [(1, [])]
    assert [one.tags[SNAPSHOT] for one in trainer.tick()] == ["terminal@v0003"]


@pytest.mark.parametrize(
    ("settings", "said"), [("", "no job follows a version"), ("[training]\njob = 'trian'", "no such job as 'trian'")]
)
def test_without_a_job_of_that_name_versions_wait_for_one(
    instance: dg.DagsterInstance, workshop: Callable[[str], WorkshopResource], settings: str, said: str
) -> None:
    daemon = Daemon(published, instance, workshop(settings))
    publish(instance, "v0003")
    assert daemon.tick() == [] and said in str(daemon.skipped) and "tiny_training" in str(daemon.skipped)
    daemon._workshop = workshop("[training]\njob = 'tiny_training'\n")
    assert [one.tags[SNAPSHOT] for one in daemon.tick()] == ["terminal@v0003"]


def test_the_sensors_are_on_and_start_jobs_that_there_are() -> None:
    repository = defs.get_repository_def()
    for sensor in repository.sensor_defs:
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        assert all(repository.has_job(target.job_name) for target in sensor.targets)
    names = {sensor.name for sensor in repository.sensor_defs}
    assert names == {"failure_alerts", "new_listings", "snapshot_published"}
