"""What curation keeps of verified attempts becomes a version: scrubbed, split, with reasons for what is out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.own_host import HostFacts
from pipeline.curation.splits import SplitConfig, split_of
from pipeline.journal import Journal
from pipeline.rows import instance_row, trajectory_row
from pipeline.schemas import TERMINAL, Row, to_rows
from pipeline.snapshots import SnapshotVersion, check, load, manifest_of
from pipeline.stages.publishing import publish_kept
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter
from pipeline.types import Step, TaskInstance, Trajectory
from tests.unit.published import publication, published
from tests.unit.small_tokenizer import small_tokenizer

HOST = HostFacts(paths=("/srv/factory/data",))


class Tables:
    """A data folder that is filled row by row; nothing of it was ever run."""

    def __init__(self, root: Path, task: TaskInstance) -> None:
        self.store = Store(root)
        self._task, self._sequence = task, 0
        with Journal(root):  # no stage works on tables without one
            pass

    def put(self, table: str, key: str, row: Row) -> None:
        self._sequence += 1
        batch: Row = {"item_key": key, "attempt": 1, "reason": ""}
        self.store.append(table, [batch | row], app_id="test", sequence=self._sequence)

    def attempt(self, repository: str, *commands: str, license: str | None = "MIT", observation: str = "ok") -> str:
        """A verified attempt at a task of that repository; returns its id."""
        names: Row = {"repository_id": repository, "source": "registry", "full_name": f"debian/{repository}"}
        self.put("repositories", repository, {**names, "license": license, "license_path": "COPYING", "warnings": []})
        instruction = f"Tell what {repository} says of {' and '.join(commands)}."
        task = self._task.model_copy(update={"repository_id": repository, "instruction": instruction})
        self.put("instances", task.instance_id, instance_row(task) | {"admitted": True, "flake_rate": 0.0})
        steps = tuple(Step(index=n, observation=observation, action=one) for n, one in enumerate(commands))
        made = Trajectory(
            instance_id=task.instance_id, agent="oracle", steps=steps, stop_reason="submitted", state_reference="s"
        )
        self.put("trajectories", made.trajectory_id, trajectory_row(made))
        self.put("verifications", made.trajectory_id, {"trajectory_id": made.trajectory_id, "outcome": "passed"})
        return made.trajectory_id


@pytest.fixture
def tables(tmp_path: Path, task: TaskInstance) -> Tables:
    return Tables(tmp_path, task)


@dataclass(frozen=True)
class Mixed:
    """A version of two attempts that are kept, with two that are out; names are trajectory ids."""

    version: SnapshotVersion
    rows: dict[str, Row]
    tokens: TokenCounter
    clean: str
    scrubbed: str
    unlicensed: str
    denied: str


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, task: TaskInstance) -> Mixed:
    """Published once; tests only read it."""
    place = tmp_path_factory.mktemp("mixed")
    tables, tokens = Tables(place / "data", task), TokenCounter(small_tokenizer(place / "small"))
    clean = tables.attempt("figlet", "figlet hello > out.txt")
    tables.put("replays", "1", {"trajectory_id": clean, "number": 1, "recorded": "passed", "replayed": "passed"})
    scrubbed = tables.attempt("tree", "ls", observation="listing of /srv/factory/data/images")
    unlicensed = tables.attempt("secret", "cat plan.txt", license=None)
    denied = tables.attempt("banner", "banner hello")
    deny = [{"repository": "debian/banner", "why": "owner", "date": "2026-01-02"}]
    chosen = publication(tables.store, DatasetConfig.model_validate({"deny": deny}), host=HOST)
    version = publish_kept(tables.store, replace(chosen, tokens=tokens), code_commit="c1", run_id="r1")
    assert version is not None
    rows = {str(row["trajectory_id"]): row for row in to_rows(load(version.path))}
    return Mixed(version, rows, tokens, clean, scrubbed, unlicensed, denied)


def test_a_row_has_everything_that_is_published(mixed: Mixed) -> None:
    assert check(mixed.version.path) == []
    row = mixed.rows[mixed.clean]
    assert set(row) == set(TERMINAL.arrow.names)
    told = {"license": "MIT", "license_path": "COPYING", "interface": "shell", "split": "train"}
    judged = {"verified": True, "n_repeats": 2, "flake_rate": 0.0, "failure_class": None, "scrubbed": 0}
    assert {key: row[key] for key in (*told, *judged)} == told | judged


def test_the_card_of_a_version_tells_of_its_replays(mixed: Mixed) -> None:
    card = (mixed.version.path / "README.md").read_text()
    assert "carried out again" in card and "1 of them (100.0%) got the same verdict" in card


def test_what_is_out_is_listed_with_its_reason(mixed: Mixed) -> None:
    assert set(mixed.rows) == {mixed.clean, mixed.scrubbed}
    out = {row["trajectory_id"]: row for row in pq.read_table(mixed.version.path / "excluded.parquet").to_pylist()}
    assert {name: row["step"] for name, row in out.items()} == {mixed.unlicensed: "licence", mixed.denied: "denied"}
    assert "debian/banner is denied (owner, 2026-01-02)" in out[mixed.denied]["reason"]
    manifest = manifest_of(mixed.version.path)
    assert (manifest.code_commit, manifest.run_id) == ("c1", "r1")
    steps = {step["step"]: step["excluded"] for step in manifest.summary["curation"]}  # type: ignore[attr-defined]
    assert (steps["denied"], steps["licence"]) == (1, 1)
    assert manifest.filters["licences"] == list(DatasetConfig().licences)


def test_texts_are_scrubbed_on_their_way_and_counted(mixed: Mixed) -> None:
    files = [path.read_bytes() for path in mixed.version.path.rglob("*") if path.is_file()]
    assert b"/srv/factory" not in b"".join(files)
    row = mixed.rows[mixed.scrubbed]
    assert "factory" not in str(row)
    assert "SCRUBBED_PATH_1" in str(row["steps"]) and int(str(row["scrubbed"])) >= 1


def test_tokens_are_counted_where_a_tokenizer_is_given(mixed: Mixed) -> None:
    row, tokens = mixed.rows[mixed.clean], mixed.tokens
    assert row["tokenizer_id"] == manifest_of(mixed.version.path).filters["tokenizer"] == tokens.tokenizer_id
    assert row["n_message_tokens"] == tokens.count_messages(row["messages"]) > 10  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sequel:
    """What one store gave: two attempts, the same again, then one of them denied and the other held out."""

    first: SnapshotVersion
    again: SnapshotVersion
    denying: SnapshotVersion


@pytest.fixture(scope="module")
def sequel(tmp_path_factory: pytest.TempPathFactory, task: TaskInstance) -> Sequel:
    """Published once; tests only read it."""
    tables = Tables(tmp_path_factory.mktemp("sequel"), task)
    tables.attempt("figlet", "figlet hello > out.txt")
    tables.attempt("banner", "banner hello")
    first, again = published(tables.store), published(tables.store)
    deny = [{"repository": "debian/banner", "why": "dmca", "date": "2026-01-02"}]
    splits = SplitConfig(repositories=0.999999, families=0.999999)
    chosen = publication(tables.store, DatasetConfig.model_validate({"deny": deny}), splits)
    denying = publish_kept(tables.store, chosen, code_commit=None, run_id=None)
    assert first is not None and again is not None and denying is not None
    return Sequel(first, again, denying)


def test_a_deny_list_changes_only_versions_to_come(sequel: Sequel) -> None:
    assert (sequel.first.rows, sequel.denying.rows) == (2, 1)
    assert check(sequel.first.path) == [] and manifest_of(sequel.denying.path).parents == ()


def test_nothing_new_makes_no_version(sequel: Sequel) -> None:
    first, again = sequel.first, sequel.again
    assert (first.created, again.created, again.version) == (True, False, "v0001")


def test_nothing_kept_makes_no_version(tables: Tables) -> None:
    assert published(tables.store) is None
    tables.attempt("secret", "cat plan.txt", license=None)
    assert published(tables.store) is None


def test_rows_go_to_the_split_of_their_repository_and_family(sequel: Sequel) -> None:
    assert manifest_of(sequel.first.path).splits == {"train": 2}
    assert manifest_of(sequel.denying.path).splits == {"test": 1}


def test_no_repository_and_no_family_is_in_training_and_test_rows() -> None:
    config = SplitConfig(repositories=0.3, families=0.3)
    names = [(f"debian/p{n}", f"domain{n % 3}", f"family{n % 29}") for n in range(2_000)]
    split = {name: split_of(*name, config) for name in names}
    assert set(split.values()) == {"train", "validation", "test"}
    for key in (lambda name: name[0], lambda name: name[1:]):
        train, test = ({key(name) for name in names if split[name] == wanted} for wanted in ("train", "test"))
        assert not train & test


def test_a_split_knows_nothing_of_case_and_other_rows() -> None:
    config = SplitConfig()
    assert split_of("Debian/Figlet", "general", "x", config) == split_of("debian/figlet", "general", "x", config)
    held_out = sum(split_of(f"r{n}", "general", "x", SplitConfig(families=0)) != "train" for n in range(5_000))
    assert 400 < held_out < 600
