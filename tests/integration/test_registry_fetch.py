"""Real downloads from the registries, in real containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assets.resources import Workshop
from assets.settings import Settings, SourcesConfig
from pipeline.checkout import Tree
from pipeline.errors import ItemRejected
from pipeline.sources import Source
from pipeline.sources.registry import RegistryConfig

pytestmark = [pytest.mark.docker, pytest.mark.network]


def registry(folder: Path, data: Path, packages: Path | None = None) -> Source:
    config = RegistryConfig() if packages is None else RegistryConfig(packages=packages)
    settings = Settings(sources=SourcesConfig(use=("registry",), registry=config))
    return Workshop(settings, folder, data).sources()[0]


@pytest.mark.parametrize(
    ("full_name", "licence", "files"),
    [
        ("debian/gron", "MIT", {"main.go", "debian/control"}),
        ("debian/php-parsedown", "MIT", {"Parsedown.php", "test/ParsedownTest.php"}),
        ("pypi/jc", "MIT", {"setup.py", "tests/test_jc_lib.py"}),
        ("npm/json5", "MIT", {"package.json", "lib/index.js"}),
    ],
)
def test_a_package_of_each_registry_becomes_a_whole_tree_with_its_licence(
    tmp_path: Path, data_folder: Path, full_name: str, licence: str, files: set[str]
) -> None:
    source = registry(tmp_path, data_folder)
    repository = next(one for one in source.repositories(None) if one.full_name == full_name)
    checkout = source.fetch(repository, tmp_path / "sources")
    tree = Tree(tmp_path / "sources" / f"{checkout.tree_sha256}.tar")
    assert checkout.license == licence
    assert files <= set(tree.files)
    assert not any(name.startswith((".git/", ".pc/")) for name in tree.files)


@pytest.mark.parametrize(
    ("ecosystem", "name", "version", "failure_class"),
    [
        ("npm", "json5", "2.2.3", "hash_mismatch"),
        ("npm", "json5", "0.0.99", "gone"),
        ("pypi", "jc", "0.0.99", "gone"),
        ("debian", "gron", "0.0.99-1", "gone"),
    ],
)
def test_a_pin_that_is_wrong_or_superseded_is_refused_with_its_class(
    tmp_path: Path, data_folder: Path, ecosystem: str, name: str, version: str, failure_class: str
) -> None:
    file = {"npm": f"{name}-{version}.tgz", "pypi": f"{name}-{version}.tar.gz", "debian": f"{name}_{version}.dsc"}
    pin = {
        "ecosystem": ecosystem,
        "name": name,
        "version": version,
        "language": "go",
        "files": {file[ecosystem]: "0" * 64},
    }
    packages = tmp_path / "packages.json"
    packages.write_text(json.dumps({"packages": [pin]}))
    source = registry(tmp_path, data_folder, packages)
    with pytest.raises(ItemRejected) as caught:
        source.fetch(next(source.repositories(None)), tmp_path / "sources")
    assert caught.value.failure_class == failure_class
    assert name in caught.value.reason
