"""Which change follows from which log. That repaired builds succeed is tests/integration/test_dockerfiles.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Member, Tree, collect, store
from pipeline.dockerfiles import Candidate, candidates
from pipeline.repairs import repaired
from pipeline.types import Language, Repository
from sandbox.types import FailureClass, ImageBuild

Repair = Callable[..., Candidate | None]


def toolchain(language: Language, version: str | None = None) -> str:
    if version == "11":
        raise ValueError("there is no such version")
    return f"toolchain/{language}:{version or 1}"


class Attempt:
    """A template that failed, once or again and again."""

    def __init__(self, folder: Path, language: Language, files: dict[str, str], own: bool = False) -> None:
        repository = Repository(source="local", full_name="owner/thing", commit="1", language=language, locator="thing")
        contents = {name: text.encode() for name, text in files.items()}
        members = [Member(name, "file", len(data), read=lambda data=data: data) for name, data in contents.items()]  # type: ignore[misc]
        archive = folder / f"{store(repository, collect(members, CheckoutConfig()), folder).tree_sha256}.tar"
        self.tree = Tree(archive)
        self.candidate = candidates(repository, archive, toolchain)[0 if own else -1]

    def after(self, log: str, failure_class: FailureClass = "build_failed") -> Candidate | None:
        build = ImageBuild(status="failed", failure_class=failure_class, log_tail=log)
        found = repaired(self.candidate, build, self.tree, toolchain)
        self.candidate = found or self.candidate
        return found


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., Attempt]:
    def of(language: Language, files: dict[str, str] | None = None, own: bool = False) -> Attempt:
        return Attempt(tmp_path, language, files or {"README.md": ""}, own)

    return of


@pytest.mark.parametrize(
    ("language", "log", "package"),
    [
        ("c", "a.c:3:10: fatal error: curl/curl.h: No such file or directory", "libcurl4-openssl-dev"),
        ("c", "Package libuv was not found in the pkg-config search path.\nNo package 'libuv' found", "libuv1-dev"),
        ("c", "configure: error: No package 'foobar-2.0' found", "libfoobar-2.0-dev"),
        ("cpp", "-- Could NOT find ZLIB (missing: ZLIB_LIBRARY)", "zlib1g-dev"),
        ("cpp", 'Could not find a package configuration file provided by "fmt" with any of', "libfmt-dev"),
        ("c", "/usr/bin/ld: cannot find -lncurses: No such file or directory", "libncurses-dev"),
        ("c", "/bin/sh: 1: bison: not found", "bison"),
        ("c", "./build.sh: line 3: nasm: command not found", "nasm"),
        ("c", "make[1]: msgfmt: No such file or directory", "gettext"),
        ("python", "Error: pg_config executable not found.", "libpq-dev"),
        ("python", "ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "libgl1"),
        ("python", "error: command 'g++' failed: No such file or directory", "g++"),
        ("javascript", "gyp ERR! stack Error: not found: make", "make"),
    ],
)
def test_what_a_log_says_is_missing_is_installed(
    attempt: Callable[..., Attempt], language: Language, log: str, package: str
) -> None:
    found = attempt(language).after(log)
    assert found is not None and found.recipe is not None
    assert package in found.recipe.packages
    assert f" {package} " in found.spec.dockerfile.replace("\n", " ")


def test_repaired_candidate_says_what_was_changed(attempt: Callable[..., Attempt]) -> None:
    one = attempt("c")
    one.after("fatal error: zlib.h: No such file or directory")
    one.after("fatal error: lzma.h: No such file or directory")
    one.after("multiple definition of `x'")
    assert one.candidate.strategy == "repaired"
    assert one.candidate.repairs == ("missing_packages", "missing_packages", "old_common_symbols")
    assert one.candidate.recipe is not None
    assert one.candidate.recipe.packages >= {"zlib1g-dev", "liblzma-dev"}
    assert "build_c.py thing --common" in one.candidate.spec.dockerfile


def test_everything_that_a_log_names_is_repaired_at_once(attempt: Callable[..., Attempt]) -> None:
    found = attempt("c").after("fatal error: zlib.h: No such file or directory\nfatal error: lzma.h: No such file\n")
    assert found is not None and found.recipe is not None
    assert {"zlib1g-dev", "liblzma-dev"} <= found.recipe.packages


@pytest.mark.parametrize("language", ["c", "go", "html", "java", "javascript", "python"])
def test_repairs_come_to_an_end(attempt: Callable[..., Attempt], language: Language) -> None:
    one = attempt(language, {"go.mod": "module a.org/b\nrequire github.com/a/b v1.0.0\n"})
    log = (
        "fatal error: zlib.h: No such file\nnpm error\nnode-sass\nnote: module requires Go 1.22\nmultiple definition of"
    )
    made = [one.after(log) for _ in range(12)]
    assert made[0] is not None
    assert made[-1] is None


def test_each_repair_gives_another_build(attempt: Callable[..., Attempt]) -> None:
    one = attempt("python")
    texts = [one.candidate.spec.dockerfile]
    while (found := one.after("No matching distribution found for numpy==1.19.1")) is not None:
        texts.append(found.spec.dockerfile)
    assert len(texts) > 2
    assert len(set(texts)) == len(texts)


def test_old_pins_get_an_older_python(attempt: Callable[..., Attempt]) -> None:
    found = attempt("python").after("ERROR: No matching distribution found for numpy==1.19.1")
    assert found is not None
    assert found.spec.dockerfile.startswith("FROM toolchain/python:3.9\n")


def test_package_that_asks_node_for_what_it_lacks_gets_a_newer_one(attempt: Callable[..., Attempt]) -> None:
    found = attempt("javascript").after("module 'node:buffer' does not provide an export named 'File'")
    assert found is not None
    assert found.spec.dockerfile.startswith("FROM toolchain/javascript:24\n")


def test_repair_that_needs_a_toolchain_which_cannot_be_had_is_passed_over(attempt: Callable[..., Attempt]) -> None:
    found = attempt("java").after("error: package javax.xml.bind does not exist")
    assert found is not None
    assert "FROM toolchain/java:1\n" in found.spec.dockerfile
    assert found.repairs == ("tolerant",)


def test_sources_that_need_a_newer_standard_than_their_project_names_get_it(attempt: Callable[..., Attempt]) -> None:
    found = attempt("cpp").after("error: ‘is_standard_layout_v’ is not a member of ‘std’")
    assert found is not None
    assert "build_c.py thing --standard=17 " in found.spec.dockerfile


def test_build_that_took_too_long_is_tried_again_only_where_it_can_be_shorter(attempt: Callable[..., Attempt]) -> None:
    assert attempt("c").after("fatal error: zlib.h: No such file or directory", "build_timeout") is None
    found = attempt("javascript").after("npm error", "build_timeout")
    assert found is not None
    assert found.repairs == ("for_use_only",)


def test_module_that_a_program_lacks_when_it_is_started_is_installed(attempt: Callable[..., Attempt]) -> None:
    found = attempt("python").after("ModuleNotFoundError: No module named 'yaml'")
    assert found is not None
    assert "--with yaml " in found.spec.dockerfile


def test_newer_go_comes_before_newer_libraries(attempt: Callable[..., Attempt]) -> None:
    one = attempt("go", {"go.mod": "module a.org/b\nrequire github.com/a/b v1.0.0\n"})
    first = one.after("note: module requires Go 1.26")
    assert first is not None and first.spec.dockerfile.startswith("FROM toolchain/go:1.27\n")
    second = one.after('cannot find package "github.com/a/b" in any of:')
    assert second is not None and "--newer=forky golang-github-a-b-dev" in second.spec.dockerfile


def test_own_dockerfile_is_mended_and_not_made_a_template(attempt: Callable[..., Attempt]) -> None:
    one = attempt("c", {"Dockerfile": "FROM debian:buster\nRUN apt-get install -y make\n"}, own=True)
    found = one.after("E: Unable to locate package make")
    assert found is not None
    assert (found.strategy, found.recipe) == ("repaired", None)
    assert found.spec.dockerfile.startswith("FROM debian:")


def test_own_dockerfile_that_no_rule_fits_is_left(attempt: Callable[..., Attempt]) -> None:
    assert attempt("c", {"Dockerfile": "FROM debian\n"}, own=True).after("it is broken") is None
