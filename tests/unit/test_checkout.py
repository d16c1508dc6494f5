"""Trees from a directory: what is kept, what is refused, and how the tar is made."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.checkout import MTIME, CheckoutConfig, Member, Tree, collect, store
from pipeline.directory_tree import walk
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.types import Checkout, Repository

REPOSITORY = Repository(source="local", full_name="local/x", commit="1", language="c", locator="x")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    return path


def stored(root: Path, tmp_path: Path, config: CheckoutConfig | None = None) -> Checkout:
    return store(REPOSITORY, collect(walk(root), config or CheckoutConfig()), tmp_path / "sources")


def refused(root: Path, **limits: int) -> ItemRejected:
    with pytest.raises(ItemRejected) as caught:
        collect(walk(root), CheckoutConfig(**limits))
    assert str(root) not in caught.value.reason
    return caught.value


def infos(checkout: Checkout, tmp_path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(tmp_path / "sources" / f"{checkout.tree_sha256}.tar", "r:") as archive:
        return {info.name: info for info in archive}


def test_equal_trees_have_equal_hashes_whatever_their_times_order_and_group_bits(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder, names in ((root, "ab"), (other, "ba")):
        for name in names:
            (folder / name).write_text(name)
    os.utime(other / "a", (1, 1))
    (other / "a").chmod(0o600)
    first, second = (collect(walk(folder), CheckoutConfig()).sha256 for folder in (root, other))
    assert first == second == stored(root, tmp_path).tree_sha256


def test_a_changed_byte_or_executable_bit_changes_the_hash(root: Path) -> None:
    (root / "a").write_text("one")
    hashes = {collect(walk(root), CheckoutConfig()).sha256}
    (root / "a").write_text("two")
    hashes.add(collect(walk(root), CheckoutConfig()).sha256)
    (root / "a").chmod(0o755)
    hashes.add(collect(walk(root), CheckoutConfig()).sha256)
    assert len(hashes) == 3


def test_the_tar_is_normalised_and_keeps_symlinks_and_empty_directories(root: Path, tmp_path: Path) -> None:
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o4775)
    (root / "text").write_text("x")
    (root / "link").symlink_to("text")
    (root / "empty").mkdir()
    found = infos(stored(root, tmp_path), tmp_path)
    assert list(found) == ["empty", "link", "run", "text"]
    assert {(i.uid, i.gid, i.mtime, i.uname) for i in found.values()} == {(0, 0, MTIME, "")}
    assert (found["run"].mode, found["text"].mode) == (0o755, 0o644)
    assert found["link"].linkname == "text" and found["empty"].isdir()


def test_history_folders_are_left_out_at_any_depth(root: Path, tmp_path: Path) -> None:
    for path in (".git/config", "vendored/.git/HEAD", "vendored/code.c"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    assert list(infos(stored(root, tmp_path), tmp_path)) == ["vendored", "vendored/code.c"]


def test_an_equal_tree_is_stored_once_and_nothing_else_is_left(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x")
    path = tmp_path / "sources" / f"{stored(root, tmp_path).tree_sha256}.tar"
    before = path.stat().st_ino
    left_by_a_killed_run = path.parent / f".{REPOSITORY.repository_id}.tar.part"
    left_by_a_killed_run.write_bytes(b"half")
    stored(root, tmp_path)
    assert path.stat().st_ino == before
    assert list(path.parent.iterdir()) == [path]


def test_counts_and_licence_stand_on_the_checkout(root: Path, tmp_path: Path) -> None:
    (root / "package.json").write_text('{"license": "MIT"}')
    (root / "a.js").write_text("12345")
    found = stored(root, tmp_path)
    assert (found.n_files, found.n_bytes, found.license, found.license_path) == (2, 23, "MIT", "package.json")
    assert found.repository_id == REPOSITORY.repository_id


def test_a_directory_without_files_is_refused(root: Path) -> None:
    (root / "only" / "folders").mkdir(parents=True)
    assert refused(root).failure_class == "empty_repository"


def test_fifty_thousand_files_are_refused(root: Path) -> None:
    (root / "f0").touch()
    folder = os.open(root, os.O_RDONLY)
    for index in range(1, 50_000):  # hard links are made faster than files, and are as many
        os.link("f0", f"f{index}", src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    rejection = refused(root)
    assert rejection.failure_class == "too_many_files" and "20,000" in rejection.reason


def test_reading_stops_at_the_limit() -> None:
    given = []

    def members() -> Iterator[Member]:
        for index in range(1000):
            given.append(index)
            yield Member(str(index), "file")

    with pytest.raises(ItemRejected, match="too_many_files"):
        collect(members(), CheckoutConfig(max_files=3))
    assert len(given) == 4


def test_endless_directories_are_refused(root: Path) -> None:
    (root / "file").write_text("x")
    for index in range(5):
        (root / f"d{index}").mkdir()
    assert refused(root, max_files=4).failure_class == "too_many_files"


def test_a_sparse_gigabyte_is_refused_without_being_read(root: Path) -> None:
    with (root / "big.bin").open("wb") as file:
        file.truncate(2**30)
    rejection = refused(root)
    assert rejection.failure_class == "file_too_large" and "big.bin" in rejection.reason


def test_files_that_are_too_large_together_are_refused(root: Path) -> None:
    for name in "abc":
        (root / name).write_bytes(b"x" * 40)
    assert refused(root, max_bytes=100, max_file_bytes=50).failure_class == "too_large"


@pytest.mark.parametrize(
    ("links", "failure_class"),
    [
        ({"a": "b", "b": "a"}, "symlink_loop"),
        ({"self": "self"}, "symlink_loop"),
        ({"d/up": ".."}, "symlink_loop"),
        ({"d/here": "."}, "symlink_loop"),
        ({"out": "../x"}, "path_outside_tree"),
        ({"d/out": "../../x"}, "path_outside_tree"),
        ({"out": "/etc/passwd"}, "path_outside_tree"),
        ({"s": "d", "t": "s/../../x"}, "path_outside_tree"),
    ],
)
def test_symlinks_that_loop_or_leave_the_tree_are_refused(
    root: Path, links: dict[str, str], failure_class: str
) -> None:
    (root / "file").write_text("x")
    (root / "d").mkdir()
    for name, target in links.items():
        (root / name).symlink_to(target)
    rejection = refused(root)
    assert rejection.failure_class == failure_class
    assert any(name in rejection.reason for name in links)


def test_a_symlink_to_a_sibling_directory_is_fine_and_one_to_nothing_is_a_warning(root: Path, tmp_path: Path) -> None:
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "f").write_text("x")
    (root / "d" / "e" / "sibling").symlink_to("../f")
    (root / "other").symlink_to("d/e")
    (root / "nothing").symlink_to("d/none")
    assert stored(root, tmp_path).warnings[0] == "symlinks that lead to nothing (1): nothing"


def test_a_pipe_is_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert refused(root).failure_class == "special_file"


def test_a_file_that_goes_away_or_grows_while_it_is_read_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x")
    tree = collect(walk(root), CheckoutConfig())
    (root / "a").write_text("longer")
    with pytest.raises(ItemRejected, match="unreadable: a changed while it was read"):
        store(REPOSITORY, tree, tmp_path / "sources")
    (root / "a").unlink()
    with pytest.raises(ItemRejected, match="unreadable: a: No such file"):
        store(REPOSITORY, tree, tmp_path / "sources")
    assert list((tmp_path / "sources").iterdir()) == []


def test_a_symlink_put_in_the_place_of_a_file_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x")
    tree = collect(walk(root), CheckoutConfig())
    (tmp_path / "secret").write_text("s")
    (root / "a").unlink()
    (root / "a").symlink_to(tmp_path / "secret")
    with pytest.raises(ItemRejected, match="unreadable"):
        store(REPOSITORY, tree, tmp_path / "sources")


def test_names_and_contents_that_are_not_utf8_are_kept_with_a_warning(root: Path, tmp_path: Path) -> None:
    with open(os.fsencode(root) + b"/caf\xe9.c", "wb") as file:
        file.write(b"int x;")
    (root / "latin.txt").write_bytes(b"na\xefve")
    (root / "binary").write_bytes(b"\0\xff\xfe")
    (root / "utf8.txt").write_text("naïve " * 20_000, encoding="utf-8")
    found = stored(root, tmp_path)
    assert found.warnings[0] == "files or names that are not UTF-8 (2): caf\\xe9.c, latin.txt"
    assert found.warnings[0].encode()
    assert b"caf\xe9.c" in (tmp_path / "sources" / f"{found.tree_sha256}.tar").read_bytes()


def test_scripts_with_crlf_are_kept_with_a_warning(root: Path, tmp_path: Path) -> None:
    (root / "run").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (root / "notes.txt").write_bytes(b"one\r\ntwo\r\n")
    warning = stored(root, tmp_path).warnings[0]
    assert warning == "scripts with CRLF line ends, which may not start (1): run"


def test_a_data_folder_that_cannot_be_written_is_our_failure(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x")
    (tmp_path / "sources").write_text("a file where the folder should be")
    with pytest.raises(InfrastructureFailure, match="data folder"):
        stored(root, tmp_path)


def test_a_stored_tree_can_be_read(root: Path, tmp_path: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "run").write_text("content")
    (root / "d" / "run").chmod(0o755)
    (root / "link").symlink_to("d/run")
    tree = Tree(tmp_path / "sources" / f"{stored(root, tmp_path).tree_sha256}.tar")
    assert dict(tree.files) == {"d/run": 7}
    assert tree.read("d/run", max_bytes=4) == b"cont" and tree.is_executable("d/run")
    with pytest.raises(KeyError):
        tree.read("link", max_bytes=4)


def test_a_long_path_is_cut_in_a_reason(root: Path) -> None:
    folder = root / "d" / ("e" * 120) / ("f" * 120)
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    assert len(refused(root).reason) < 300
