"""Directories and git repositories as repositories, with real git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Tree
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.sources.local import UNRECOGNISED, LocalConfig, LocalPath, LocalSource
from pipeline.types import Checkout, Language, Repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the configuration lies; one project in it."""
    path = tmp_path / "configured"
    (path / "project").mkdir(parents=True)
    (path / "project" / "main.py").write_text("print('hello')\n")
    return path


def source(folder: Path, *entries: LocalPath, **limits: int) -> LocalSource:
    paths = entries or (LocalPath(path=Path("project")),)
    return LocalSource(LocalConfig(paths=paths), CheckoutConfig(**limits), folder)


def listed(folder: Path, *entries: LocalPath, **limits: int) -> Repository:
    (repository,) = source(folder, *entries, **limits).repositories(None)
    return repository


def fetched(folder: Path, *entries: LocalPath) -> tuple[Checkout, Tree]:
    (repository,) = source(folder, *entries).repositories(None)
    checkout = source(folder, *entries).fetch(repository, folder / "sources")
    return checkout, Tree(folder / "sources" / f"{checkout.tree_sha256}.tar")


def refused(folder: Path, *entries: LocalPath, **limits: int) -> ItemRejected:
    """It is listed all the same, and fetching it gives the reason, which names no folder of this machine."""
    repository = listed(folder, *entries, **limits)
    with pytest.raises(ItemRejected) as caught:
        source(folder, *entries, **limits).fetch(repository, folder / "sources")
    assert str(folder) not in repository.model_dump_json() + str(caught.value)
    return caught.value


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def clone(folder: Path) -> Path:
    """The project as a git repository with one commit."""
    directory = folder / "project"
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "one")
    return directory


def test_a_plain_directory_is_known_by_its_content(folder: Path) -> None:
    first = listed(folder)
    assert first.full_name == "local/project" and first.locator == "project" and first.language == "python"
    assert listed(folder) == first
    checkout, _ = fetched(folder)
    assert checkout.tree_sha256 == first.commit
    (folder / "project" / "main.py").write_text("print('other')\n")
    assert listed(folder).repository_id != first.repository_id


def test_a_configured_name_and_language_count(folder: Path) -> None:
    repository = listed(folder, LocalPath(path=Path("./project"), name="mine", language="html"))
    assert (repository.full_name, repository.language) == ("local/mine", "html")


def test_an_absolute_path_is_made_relative_on_the_row(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "project", tmp_path / "elsewhere")
    entry = LocalPath(path=tmp_path / "elsewhere")
    assert listed(folder, entry).locator == "../elsewhere"
    assert fetched(folder, entry)[0].n_files == 1


def test_a_path_that_does_not_exist_stops_with_its_remedy(folder: Path) -> None:
    entries = (LocalPath(path=Path("project")), LocalPath(path=Path("missing")))
    with pytest.raises(ConfigurationError, match="missing is no directory; paths are relative"):
        next(source(folder, *entries).repositories(None))


@pytest.mark.parametrize("second", [LocalPath(path=Path("project/../project")), LocalPath(path=Path("a/project"))])
def test_duplicates_are_a_mistake_of_the_configuration(folder: Path, second: LocalPath) -> None:
    (folder / "a" / "project").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"twice; remove one|give one of them a `name`"):
        source(folder, LocalPath(path=Path("project")), second)


@pytest.mark.parametrize(
    ("files", "language"),
    [
        ({"a.cpp": 10, "a.h": 200, "b.c": 5}, "cpp"),
        ({"a.c": 10, "a.h": 10, "doc.html": 30}, "c"),
        ({"index.html": 900, "site.css": 100, "app.js": 50}, "html"),
        ({"App.java": 10}, "java"),
        ({"index.php": 10, "x.PHP": 10, "main.js": 15}, "php"),
        ({"main.go": 10, "notes.txt": 1000}, "go"),
    ],
)
def test_the_language_is_recognised_by_the_files(folder: Path, files: dict[str, int], language: Language) -> None:
    (folder / "project" / "main.py").unlink()
    for name, size in files.items():
        (folder / "project" / name).write_text("x" * size)
    assert listed(folder).language == language


def test_a_directory_without_any_known_language_is_listed_and_refused(folder: Path) -> None:
    (folder / "project" / "main.py").rename(folder / "project" / "main.unknown")
    assert listed(folder).language == UNRECOGNISED
    rejection = refused(folder)
    assert rejection.failure_class == "language_unknown" and "give `language`" in rejection.reason


def test_bad_directories_are_listed_and_refused(folder: Path) -> None:
    (folder / "project" / "main.py").write_text("x" * 100)
    assert refused(folder, max_file_bytes=50).failure_class == "file_too_large"
    (folder / "project" / "main.py").unlink()
    assert refused(folder).failure_class == "empty_repository"


def test_a_directory_that_changes_after_it_was_listed_is_refused(folder: Path) -> None:
    repository = listed(folder)
    (folder / "project" / "main.py").write_text("changed\n")
    with pytest.raises(ItemRejected, match="changed since it was listed"):
        source(folder).fetch(repository, folder / "sources")
    shutil.rmtree(folder / "project")
    with pytest.raises(ItemRejected, match="gone"):
        source(folder).fetch(repository, folder / "sources")


def test_a_clean_clone_is_known_by_its_commit_and_holds_tracked_files_only(folder: Path, clone: Path) -> None:
    (clone / "untracked.py").write_text("x")
    assert listed(folder).commit == git(clone, "rev-parse", "HEAD")
    checkout, tree = fetched(folder)
    assert list(tree.files) == ["main.py"] and checkout.warnings == ("no licence file was found",)


def test_a_changed_work_tree_is_another_version(folder: Path, clone: Path) -> None:
    (clone / "main.py").write_text("print('changed')\n")
    commit = listed(folder).commit
    assert commit.startswith(git(clone, "rev-parse", "HEAD") + "-dirty-")
    checkout, tree = fetched(folder)
    assert tree.read("main.py", max_bytes=99) == b"print('changed')\n"
    assert "the work tree differs from HEAD; its tracked files were taken" in checkout.warnings
    (clone / "main.py").write_text("print('changed again')\n")
    assert listed(folder).commit != commit


def test_staged_and_deleted_files_count_as_changes(folder: Path, clone: Path) -> None:
    (clone / "new.py").write_text("x")
    git(clone, "add", "new.py")
    (clone / "main.py").unlink()
    checkout, tree = fetched(folder)
    assert list(tree.files) == ["new.py"]
    assert "tracked files missing in the work tree (1): main.py" in checkout.warnings


def test_line_ends_that_git_wrote_are_no_change(folder: Path, clone: Path) -> None:
    (clone / "main.py").write_bytes(b"print('hello')\r\n")
    assert listed(folder).commit == git(clone, "rev-parse", "HEAD")


def test_what_export_ignore_names_is_kept(folder: Path, clone: Path) -> None:
    (clone / ".gitattributes").write_text("tests export-ignore\nDockerfile export-ignore\n")
    (clone / "tests").mkdir()
    (clone / "tests" / "test_a.py").write_text("x")
    (clone / "Dockerfile").write_text("FROM scratch\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "two")
    assert list(fetched(folder)[1].files) == [".gitattributes", "Dockerfile", "main.py", "tests/test_a.py"]


def test_a_bare_repository_gives_the_same_tree_as_its_clone(folder: Path, clone: Path) -> None:
    (clone / "run.sh").write_text("#!/bin/sh\n")
    (clone / "run.sh").chmod(0o755)
    (clone / "link").symlink_to("main.py")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "two")
    git(folder, "clone", "-q", "--bare", "project", "bare.git")
    bare, tree = fetched(folder, LocalPath(path=Path("bare.git")))
    assert bare.tree_sha256 == fetched(folder)[0].tree_sha256
    assert tree.is_executable("run.sh")


def test_a_git_repository_without_a_commit_is_refused(folder: Path) -> None:
    git(folder / "project", "init", "-q")
    assert refused(folder).failure_class == "empty_repository"


def test_a_broken_git_repository_is_refused(folder: Path, clone: Path) -> None:
    shutil.rmtree(clone / ".git" / "objects")
    (clone / ".git" / "objects").mkdir()
    assert refused(folder).failure_class == "unreadable"


def test_a_submodule_is_left_out_with_a_warning(folder: Path, clone: Path) -> None:
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{git(clone, 'rev-parse', 'HEAD')},vendored")
    git(clone, "commit", "-qm", "two")
    checkout, tree = fetched(folder)
    assert list(tree.files) == ["main.py"]
    assert "submodules, which are not part of the tree (1): vendored" in checkout.warnings


def test_nothing_that_a_repository_configures_is_run(folder: Path, clone: Path) -> None:
    ran = folder / "ran"
    (clone / ".gitattributes").write_text("*.py filter=own\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "two")
    for setting in ("filter.own.clean", "filter.own.smudge", "filter.own.process", "core.fsmonitor"):
        git(clone, "config", setting, f"touch {ran}; cat")
    (clone / "main.py").write_text("changed\n")
    fetched(folder)
    assert not ran.exists()


def test_a_tracked_file_behind_a_symlink_to_elsewhere_is_not_read(folder: Path, clone: Path) -> None:
    (clone / "d").mkdir()
    (clone / "d" / "secret.py").write_text("x")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "two")
    shutil.rmtree(clone / "d")
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.py").write_text("a secret")
    (clone / "d").symlink_to("../outside")
    assert list(fetched(folder)[1].files) == ["main.py"]
