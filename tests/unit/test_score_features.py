"""The features of a repository: finite, always the same ones, and blind to names."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pipeline.checkout import Tree
from pipeline.scoring.dockerfile_facts import dockerfile_facts
from pipeline.scoring.features import features_of, metadata_features
from pipeline.scoring.manifest_facts import manifest_facts
from pipeline.types import LANGUAGES, Language
from tests.unit.stored_trees import stored

PROJECT = {
    "setup.py": "from setuptools import setup\n\nsetup(name='pears', install_requires=['flask==2.0', 'rich>=13'])\n",
    "pears/__init__.py": "from pears.core import main\n\n__all__ = ['main']\n",
    "pears/core.py": "import sys\n\n\ndef main():\n    print('pears', sys.argv)\n",
    "tests/test_core.py": "from pears import main\n\n\ndef test_main():\n    main()\n",
    "README.md": "# pears\n\nSince 2019.\n\n```sh\n$ docker run pears\n```\n",
    "Dockerfile": "FROM python:3.6\nCOPY setup.py pears /src/\nRUN pip install flask==1 rich\n",
    "run.sh": "#!/bin/sh\npython -m pears\n",
}


def facts(folder: Path, dockerfile: str, **others: str) -> dict[str, float]:
    return dockerfile_facts(Tree(stored(folder, {"Dockerfile": dockerfile, "a.txt": "a\n", **others})[2]))


def manifests(folder: Path, files: dict[str, str]) -> dict[str, float]:
    return manifest_facts(Tree(stored(folder, files)[2]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_repository_has_the_same_features_and_all_are_finite(tmp_path: Path, language: Language) -> None:
    names = list(features_of(*stored(tmp_path, PROJECT)))
    hostile = {
        "Makefile": "\x00\x01",
        "sub/package.json": "[[[[" * 5000,
        "pyproject.toml": "[project\n",
        "pom.xml": "<a>" * 2000,
        "composer.json": '{"require": 3}',
        "go.mod": "go 1.99999\n",
        "Dockerfile": "FROM $X\nCOPY [1\nARG\n",
        "debian/control": "Build-Depends:\n",
        "x.py": "(" * 3000,
        "b.c": "/*" * 5000,
    }
    for files in (hostile, {"notes.txt": ""}, PROJECT):
        found = features_of(*stored(tmp_path, files, language))
        assert list(found) == names
        assert all(math.isfinite(value) for value in found.values())


def test_neither_owner_nor_name_nor_folder_is_in_a_feature(tmp_path: Path) -> None:
    _, checkout, tree = stored(tmp_path / "one", PROJECT, full_name="anna/pears")
    renamed, other_checkout, other_tree = stored(tmp_path / "else" / "where", PROJECT, full_name="debian/linux-docker")
    repository = stored(tmp_path / "one", PROJECT, full_name="anna/pears")[0]
    assert features_of(repository, checkout, tree) == features_of(renamed, other_checkout, other_tree)


def test_the_name_of_a_project_in_its_own_texts_and_paths_is_no_feature(tmp_path: Path) -> None:
    other = {path.replace("pears", "plums"): text.replace("pears", "plums") for path, text in PROJECT.items()}
    before = features_of(*stored(tmp_path, PROJECT, full_name="anna/pears"))
    assert features_of(*stored(tmp_path, other, full_name="anna/plums")) == before


def test_the_features_of_the_metadata_need_no_tree(tmp_path: Path) -> None:
    repository, checkout, tree = stored(tmp_path, PROJECT)
    known = metadata_features(repository, checkout)
    assert known.items() <= features_of(repository, checkout, tree).items() | known.items()
    tree.unlink()
    assert metadata_features(repository, checkout) == known
    assert known["log_files"] == pytest.approx(math.log1p(len(PROJECT)))


def test_harmed_sources_lower_the_quality_of_the_repository(tmp_path: Path) -> None:
    sound = features_of(*stored(tmp_path, PROJECT))
    harmed = features_of(*stored(tmp_path, PROJECT | {"pears/core.py": "def main(:\n    print(sys.argv"}))
    assert harmed["quality_sources"] < sound["quality_sources"]
    assert harmed["unparsed_sources"] > sound["unparsed_sources"] == 0.0


@pytest.mark.parametrize(
    ("dockerfile", "fact", "value"),
    [
        ("FROM debian:12\n", "base_debian", 1.0),
        ("FROM node:22 AS build\nFROM nginx:1.27\nCOPY --from=build /a /a\n", "base_server", 1.0),
        ("FROM debian:12\n", "tag_pinned", 1.0),
        ("FROM debian\n", "tag_pinned", 0.0),
        ("FROM debian:latest\n", "tag_pinned", 0.0),
        ("FROM debian@sha256:" + "a" * 64 + "\n", "digest_pinned", 1.0),
        ("FROM python:2.7-slim\n", "end_of_life", 1.0),
        ("FROM python:3.12\n", "end_of_life", 0.0),
        ("FROM debian:stretch-slim\n", "end_of_life", 1.0),
        ("FROM node:8\nRUN a\n", "end_of_life", 1.0),
        ("FROM alpine:3\n", "end_of_life", 0.0),
        ("FROM registry.example.com:5000/x:1\n", "private_registry", 1.0),
        ("FROM ghcr.io/a/b:1\n", "private_registry", 0.0),
        ("FROM debian:12\nCOPY a.txt b.txt /\n", "sources_missing", 0.5),
        ("FROM debian:12\nCOPY *.txt /\n", "sources_missing", 0.0),
        ("FROM debian:12\nRUN apt-get install -y a=1 b\n", "pinned_apt", 0.5),
        ("FROM debian:12\nRUN pip install --no-cache-dir a==1 b==2\n", "pinned_pip", 1.0),
        ("FROM debian:12\nRUN npm install -g a@1 b\n", "pinned_npm", 0.5),
        ("FROM debian:12\nRUN curl -fsSL https://example.org/x | bash\n", "pipes_to_shell", 1.0),
        ("FROM debian:12\nRUN git clone https://example.org/x\n", "git_clone", 1.0),
        ("FROM debian:12\nARG TOKEN\nARG JOBS=2\n", "argument_without_value", 1.0),
        ("FROM debian:12\nRUN --mount=type=secret,id=a cat /run/secrets/a\n", "secret_mount", 1.0),
        ("FROM debian:12\nRUN --mount=type=cache,target=/c make\n", "buildkit", 1.0),
        ("FROM debian:12\nRUN a\nRUN b\n", "runs", 2.0),
    ],
)
def test_each_fact_of_a_dockerfile(tmp_path: Path, dockerfile: str, fact: str, value: float) -> None:
    assert facts(tmp_path, dockerfile)[f"docker_{fact}"] == pytest.approx(value)


def test_a_tree_without_a_dockerfile_has_all_facts_at_zero(tmp_path: Path) -> None:
    without = dockerfile_facts(Tree(stored(tmp_path, {"a.txt": "a\n"})[2]))
    assert without.keys() == facts(tmp_path, "FROM debian:12\n").keys()
    assert set(without.values()) == {0.0}


@pytest.mark.parametrize(
    ("name", "text", "fact", "value"),
    [
        ("package.json", '{"dependencies": {"a": "1.2.3", "b": "^1"}}', "npm_pinned", 0.5),
        ("package.json", '{"dependencies": {"a": "github:x/y"}}', "npm_from_git", 1.0),
        ("package.json", '{"main": "lib/absent.js"}', "npm_main_absent", 1.0),
        ("package.json", '{"scripts": {"prepare": "x"}}', "npm_install_script", 1.0),
        ("setup.py", "setup(use_scm_version=True, setup_requires=['setuptools_scm'])", "py_version_from_git", 1.0),
        ("setup.py", "setup(install_requires=['a==1', 'b'], classifiers=['c'])", "py_dependencies", 2.0),
        ("setup.py", "setup(ext_modules=[])", "py_native", 1.0),
        ("pyproject.toml", '[project]\ndependencies = ["a @ git+https://example.org"]\n', "py_from_git", 1.0),
        ("go.mod", "module x\n\ngo 1.21\n\nrequire (\n\texample.org/a v1.0.0\n)\n", "go_minor", 21.0),
        ("composer.json", '{"require": {"php": ">=7.1", "ext-gd": "*", "a/b": "1"}}', "php_extensions", 1.0),
        ("pom.xml", "<parent></parent><source>1.5</source>", "jvm_old_source", 1.0),
        ("CMakeLists.txt", "find_package(ZLIB REQUIRED)\nFetchContent_Declare(x)\n", "c_required", 1.0),
        ("debian/control", "Source: x\nBuild-Depends: a,\n b (>= 1)\n", "deb_build_depends", 2.0),
    ],
)
def test_each_fact_of_a_build_file(tmp_path: Path, name: str, text: str, fact: str, value: float) -> None:
    assert manifests(tmp_path, {name: text})[fact] == pytest.approx(value)
