"""Real context from the registries, in real containers, and a second time from what was kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assets.resources import PROJECT, Workshop
from assets.settings import Settings
from pipeline.archive_cache import ArchiveCache
from pipeline.checkout import CheckoutConfig, Tree
from pipeline.contexts import described
from pipeline.sources.context import ContextSource
from tests.unit.recorded_clients import RecordedBackend

pytestmark = [pytest.mark.docker, pytest.mark.network]

CONTEXTS = [
    {
        "name": "penguins",
        "ecosystem": "pypi",
        "package": "palmerpenguins",
        "version": "0.1.6",
        "file": "palmerpenguins-0.1.6-py3-none-any.whl",
        "sha256": "5c3be9af84dd703a25f1aaeadeac6ac770cfd38c1620d00089f581c023129ee0",
        "members": {"palmerpenguins/data/*": "data/"},
        "license": "MIT",
        "license_member": "palmerpenguins-0.1.6.dist-info/licenses/LICENSE",
        "origin": "Gorman, Williams and Fraser (2014), packaged by the palmerpenguins project",
    },
    {
        "name": "atlas",
        "ecosystem": "npm",
        "package": "world-atlas",
        "version": "2.0.2",
        "file": "world-atlas-2.0.2.tgz",
        "sha256": "032e7765f2ce00edaeafec23ff22bc3b77e42987c257da944cc585b452c05b97",
        "members": {"land-110m.json": "land.json"},
        "license": "ISC",
        "license_member": "LICENSE",
        "origin": "Mike Bostock, made from Natural Earth, which is in the public domain",
    },
    {
        "name": "manual",
        "ecosystem": "debian",
        "package": "manpages",
        "version": "6.03-2",
        "file": "manpages_6.03-2_all.deb",
        "sha256": "efa1ba4cd19ad7baeae959c9209a7eb74be2ebb858bcabb412597bfc9f588c91",
        "members": {"usr/share/man/man7/futex.7.gz": "futex.7.gz"},
        "license": "MIT",
        "license_member": "usr/share/doc/manpages/copyright",
        "origin": "Bert Hubert, page of the Linux man-pages project",
    },
]


def test_a_context_of_each_registry_is_collected_once_and_then_needs_no_network(
    tmp_path: Path, data_folder: Path
) -> None:
    recipe = tmp_path / "recipes" / "sql"
    recipe.mkdir(parents=True)
    (recipe / "Dockerfile").write_text("FROM debian:bookworm-slim\n")
    (recipe / "contexts.json").write_text(json.dumps(CONTEXTS))
    shop = Workshop(Settings(), tmp_path, data_folder)
    archives, trees = ArchiveCache(tmp_path / "archives"), tmp_path / "trees"
    common = recipe.parent, PROJECT / "LICENSE", CheckoutConfig(), archives
    online = ContextSource(*common, shop.backend(), lambda: shop.bases().toolchain("fetch").digest)
    offline = ContextSource(*common, RecordedBackend(None), str)

    (repository,) = online.repositories(None)
    checkout = online.fetch(repository, trees)
    tree = Tree(trees / f"{checkout.tree_sha256}.tar")
    assert {
        "context/penguins/data/penguins.csv",
        "context/atlas/land.json",
        "context/manual/futex.7.gz",
        "context/manual/LICENSE",
    } <= set(tree.files)
    assert tree.read("context/penguins/data/penguins.csv", max_bytes=7) == b"species"
    assert [one.license for one in described(tree)] == ["MIT", "ISC", "MIT"]
    assert checkout.license == "Apache-2.0"
    assert all(archives.retrieved_at(one.sha256) for one in described(tree))
    assert offline.fetch(repository, trees) == checkout
