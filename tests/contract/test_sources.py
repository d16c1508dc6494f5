"""What every source promises, held against each of them."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assets.resources import PROJECT, Workshop
from assets.settings import Settings, SourcesConfig
from pipeline.archive_cache import ArchiveCache
from pipeline.checkout import CheckoutConfig
from pipeline.errors import ItemRejected
from pipeline.sources import Source
from pipeline.sources.context import ContextSource
from pipeline.sources.listing import ListingConfig, ListingSource
from pipeline.sources.local import LocalConfig, LocalPath, LocalSource
from tests.github_server.world import World
from tests.unit.crawled_hub import Hub, hub
from tests.unit.recorded_clients import RecordedBackend

Make = Callable[[], Source]


@pytest.fixture
def local(tmp_path: Path) -> Make:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(f"print('{name}')\n")
    config = LocalConfig(paths=(LocalPath(path=Path("one")), LocalPath(path=Path("two"))))
    return lambda: LocalSource(config, CheckoutConfig(), tmp_path)


@pytest.fixture
def registry(tmp_path: Path, data_folder: Path) -> Make:
    settings = Settings(sources=SourcesConfig(use=("registry",)))
    return lambda: Workshop(settings, tmp_path, data_folder).sources()[0]


@pytest.fixture
def context(tmp_path: Path) -> Make:
    for domain in ("sql", "security"):
        (tmp_path / "recipes" / domain).mkdir(parents=True)
        (tmp_path / "recipes" / domain / "Dockerfile").write_text("FROM debian:bookworm-slim\n")
    archives = ArchiveCache(tmp_path / "archives")
    nowhere = RecordedBackend(None)
    return lambda: ContextSource(tmp_path / "recipes", PROJECT / "LICENSE", CheckoutConfig(), archives, nowhere, str)


@pytest.fixture
def hub_of_twenty(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path / "crawl", World(20, kinds=dict.fromkeys(range(1, 21), "usual"))) as one:
        yield one


@pytest.fixture
def github(hub_of_twenty: Hub) -> Make:
    return hub_of_twenty.source


@pytest.fixture
def listing(hub_of_twenty: Hub, tmp_path: Path) -> Make:
    names = [hub_of_twenty.world.first_name(number) for number in (1, 2)]
    (tmp_path / "clones.txt").write_text("".join(f"{hub_of_twenty.server.address}/{name}.git go\n" for name in names))
    config = ListingConfig(file=Path("clones.txt"))
    return lambda: ListingSource(config, CheckoutConfig(), tmp_path, tmp_path / "clones")


@pytest.fixture(
    params=[
        "local",
        "context",
        "github",
        "listing",
        pytest.param("registry", marks=[pytest.mark.docker, pytest.mark.network]),
    ]
)
def source(request: pytest.FixtureRequest) -> Source:
    make: Make = request.getfixturevalue(request.param)
    return make()


def test_the_name_stands_on_every_row(source: Source) -> None:
    assert {repository.source for repository in source.repositories(None)} == {source.name}


def test_listing_twice_gives_the_same_repositories_each_once(source: Source) -> None:
    first = list(source.repositories(None))
    assert first and first == list(source.repositories(None))
    assert len({repository.repository_id for repository in first}) == len(first)


def test_a_date_never_breaks_the_listing(source: Source) -> None:
    known = set(source.repositories(None))
    assert set(source.repositories(datetime(2030, 1, 1, tzinfo=UTC))) <= known


def test_a_fetched_tree_is_a_normalised_tar_named_by_its_hash_and_the_same_each_time(
    source: Source, tmp_path: Path
) -> None:
    repository = next(source.repositories(None))
    destination = tmp_path / "sources"
    checkout = source.fetch(repository, destination)
    path = destination / f"{checkout.tree_sha256}.tar"
    assert [path] == list(destination.iterdir())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == checkout.tree_sha256
    assert checkout.repository_id == repository.repository_id
    with tarfile.open(path, "r:") as tar:
        infos = tar.getmembers()
    assert [info.name for info in infos] == sorted(info.name for info in infos)
    assert {(info.uid, info.gid) for info in infos} == {(0, 0)} and len({info.mtime for info in infos}) == 1
    assert sum(not info.isdir() for info in infos) == checkout.n_files
    assert source.fetch(repository, destination) == checkout


def test_a_repository_that_is_not_offered_any_more_is_refused_as_gone(source: Source, tmp_path: Path) -> None:
    other = next(source.repositories(None)).model_copy(update={"commit": "0", "locator": "none"})
    with pytest.raises(ItemRejected) as caught:
        source.fetch(other, tmp_path / "sources")
    assert caught.value.failure_class == "gone"
