"""Archives from outside: sound ones are read, hostile ones are refused, none is unpacked to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable

import pytest

from pipeline import archive_tree
from pipeline.checkout import CheckoutConfig, collect
from pipeline.errors import ItemRejected


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def read(archive: bytes, *, strip_root: bool = False, **limits: int) -> dict[str, bytes]:
    config = CheckoutConfig(**limits)
    with archive_tree.members(archive, config, strip_root=strip_root) as members:
        tree = collect(members, config)
        return {name: member.read() for name, member in tree.members.items() if member.kind == "file"}


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_kind_of_compression_is_read_and_the_top_directory_dropped(packed: Callable[[bytes], bytes]) -> None:
    archive = packed(tar(entry("package/b", b"second"), entry("package/d/a", b"first"), entry("package", type=b"5")))
    assert read(archive, strip_root=True) == {"b": b"second", "d/a": b"first"}


def test_two_top_directories_are_refused_where_one_is_expected() -> None:
    with pytest.raises(ItemRejected, match="unreadable: the archive has 2 top directories"):
        read(tar(entry("a/x"), entry("b/x")), strip_root=True)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "./../x"])
def test_names_that_lead_out_of_the_tree_are_refused(name: str) -> None:
    with pytest.raises(ItemRejected, match="path_outside_tree"):
        read(tar(entry(name, b"x")))


def test_a_member_behind_a_symlink_is_refused() -> None:
    with pytest.raises(ItemRejected, match="path_outside_tree"):
        read(tar(entry("a", type=tarfile.SYMTYPE, linkname="b"), entry("b/c", b"x"), entry("a/x", b"x")))


def test_a_hard_link_is_a_copy_and_one_to_elsewhere_is_refused() -> None:
    link = entry("r/two", type=tarfile.LNKTYPE, linkname="r/one")
    assert read(tar(entry("r/one", b"same"), link)) == {"r/one": b"same", "r/two": b"same"}
    with pytest.raises(ItemRejected, match="path_outside_tree"):
        read(tar(link))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(kind: bytes) -> None:
    with pytest.raises(ItemRejected, match="special_file"):
        read(tar(entry("dev", type=kind)))


def test_a_name_given_twice_counts_as_the_later_one() -> None:
    assert read(tar(entry("a", b"old"), entry("a", b"new"))) == {"a": b"new"}


def test_a_header_that_announces_a_huge_file_is_refused_before_the_content_comes() -> None:
    info = tarfile.TarInfo("huge")
    info.size = 2**40
    with pytest.raises(ItemRejected, match="file_too_large"):
        read(gzip.compress(info.tobuf()))


def test_an_archive_that_expands_without_end_stops_at_the_limit() -> None:
    bomb = gzip.compress(tar(*(entry(f"zeros{i}", bytes(2**20)) for i in range(40))), compresslevel=1)
    assert len(bomb) < 2**18
    with pytest.raises(ItemRejected, match="too_large: the archive expands"):
        read(bomb, max_bytes=2**20, max_file_bytes=2**20, max_files=100)


def test_a_header_that_never_ends_stops_at_the_limit() -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 50 * 2**20
    with pytest.raises(ItemRejected, match="too_large"):
        read(gzip.compress(header.tobuf() + bytes(20 * 2**20), compresslevel=1), max_bytes=2**20, max_files=10)


@pytest.mark.parametrize(
    "archive",
    [b"", b"no archive at all", gzip.compress(b"no tar" * 200), gzip.compress(tar(entry("a", b"x" * 999)))[:-40]],
    ids=["empty", "text", "compressed text", "cut off"],
)
def test_what_is_no_sound_archive_is_refused(archive: bytes) -> None:
    with pytest.raises(ItemRejected, match="unreadable"):
        read(archive)


def test_too_many_entries_stop_the_reading() -> None:
    with pytest.raises(ItemRejected, match="too_many_files"):
        read(tar(*(entry("same") for _ in range(30))), max_files=10)


def packed(*entries: tuple[str, bytes], mode: int = stat.S_IFREG | 0o644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def unpacked(archive: bytes, **limits: int) -> dict[str, bytes]:
    config = CheckoutConfig(**limits)
    with archive_tree.zip_members(archive, config) as members:
        tree = collect(members, config)
        return {name: member.read() for name, member in tree.members.items() if member.kind == "file"}


def test_a_zip_archive_is_read() -> None:
    assert unpacked(packed(("b", b"second"), ("d/", b""), ("d/a", b"first"))) == {"b": b"second", "d/a": b"first"}


def test_an_executable_of_a_zip_archive_stays_one() -> None:
    with archive_tree.zip_members(packed(("x", b""), mode=stat.S_IFREG | 0o755), CheckoutConfig()) as (member,):
        assert member.executable


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x"])
def test_names_of_a_zip_archive_that_lead_out_of_the_tree_are_refused(name: str) -> None:
    with pytest.raises(ItemRejected, match="path_outside_tree"):
        unpacked(packed((name, b"x")))


def test_a_symlink_of_a_zip_archive_is_a_symlink_and_one_that_leads_out_is_refused() -> None:
    with pytest.raises(ItemRejected, match="path_outside_tree"):
        unpacked(packed(("x", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777))


def test_a_device_in_a_zip_archive_is_refused() -> None:
    with pytest.raises(ItemRejected, match="special_file"):
        unpacked(packed(("x", b""), mode=stat.S_IFCHR | 0o600))


def test_a_zip_archive_that_expands_beyond_the_limits_is_refused() -> None:
    with pytest.raises(ItemRejected, match="file_too_large"):
        unpacked(packed(("x", bytes(10_000))), max_file_bytes=9_999)
    with pytest.raises(ItemRejected, match="too_many_files"):
        unpacked(packed(*((str(number), b"") for number in range(5))), max_files=2)


def test_content_that_is_longer_than_a_zip_archive_says_is_not_read_on() -> None:
    archive = packed(("x", bytes(10_000)))
    lying = archive.replace((10_000).to_bytes(4, "little"), (5).to_bytes(4, "little"))
    with pytest.raises(ItemRejected, match="unreadable"):
        unpacked(lying)


@pytest.mark.parametrize("archive", [b"", b"PK\x03\x04 not really", packed(("x", b"text" * 99))[:-9]])
def test_what_is_no_sound_zip_archive_is_unreadable(archive: bytes) -> None:
    with pytest.raises(ItemRejected, match="unreadable"):
        unpacked(archive)


def ar(*entries: tuple[str, bytes]) -> bytes:
    """An archive as `ar` makes it: the outer shell of a Debian package."""
    parts = [b"!<arch>\n"]
    for name, data in entries:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}".encode() + b"`\n"
        parts += [header, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


@pytest.mark.parametrize(("suffix", "compressed"), [(".xz", lzma.compress), (".gz", gzip.compress), ("", bytes)])
def test_the_files_of_a_debian_package_are_read(suffix: str, compressed: Callable[[bytes], bytes]) -> None:
    files = compressed(tar(entry("./usr/share/doc/x", b"text")))
    package = ar(("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (f"data.tar{suffix}", files))
    assert read(archive_tree.debian_data(package)) == {"usr/share/doc/x": b"text"}


@pytest.mark.parametrize("package", [b"", b"PK", ar(("debian-binary", b"2.0\n")), b"!<arch>\n" + b"x" * 60])
def test_what_is_no_debian_package_is_unreadable(package: bytes) -> None:
    with pytest.raises(ItemRejected, match="unreadable: not a Debian package"):
        archive_tree.debian_data(package)
