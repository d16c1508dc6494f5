"""What judges the tasks of images.py, and the ledgers that one family keeps."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

_RAW = """
import hashlib

PATH = __PATH__
SIZE = __SIZE__
SHA256 = __DIGEST__


def test_image_is_as_long_as_the_disk(box):
    assert len(box.read(PATH)) == SIZE


def test_image_has_the_bytes_of_the_disk(box):
    data = box.read(PATH)
    assert data[:4] != b"QFI\\xfb"
    assert hashlib.sha256(data).hexdigest() == SHA256
"""

_QCOW2 = """
import hashlib
import struct
import zlib

PATH = __PATH__
SIZE = __SIZE__
SHA256 = __DIGEST__


def test_header_says_what_was_asked_for(box):
    data = box.read(PATH)
    magic, version, backing = struct.unpack(">4sIQ", data[:16])
    assert (magic, version, backing) == (b"QFI\\xfb", 3, 0)
    assert struct.unpack(">I", data[20:24])[0] == 15
    assert struct.unpack(">Q", data[24:32])[0] == SIZE


def test_every_data_cluster_is_compressed_and_gives_the_old_bytes(box):
    data = box.read(PATH)
    length, first = struct.unpack(">IQ", data[36:48])
    disk = bytearray()
    for level in struct.unpack(f">{length}Q", data[first : first + 8 * length]):
        at = level & 0x00FFFFFFFFFFFE00
        entries = struct.unpack(">4096Q", data[at : at + 32768]) if at else [0] * 4096
        for entry in entries:
            if entry >> 62 & 1:
                split = 62 - (15 - 8)
                begin = entry & ((1 << split) - 1)
                disk += zlib.decompressobj(-12).decompress(data[begin : begin + 65536], 32768)
            else:
                assert entry & 0x00FFFFFFFFFFFE00 == 0 or entry & 1, "a cluster that is not compressed"
                disk += bytes(32768)
    assert hashlib.sha256(disk[:SIZE]).hexdigest() == SHA256
"""

_VDI = """
import hashlib
import struct

PATH = __PATH__
SIZE = __SIZE__
SHA256 = __DIGEST__


def test_it_is_a_growing_vdi_of_the_same_size(box):
    head = box.read(PATH)[:512]
    assert head[64:68] == b"\\x7f\\x10\\xda\\xbe"
    assert struct.unpack("<I", head[76:80])[0] == 1
    assert struct.unpack("<Q", head[368:376])[0] == SIZE


def test_blocks_hold_the_disk(box):
    image = box.read(PATH)
    table, blocks = struct.unpack("<II", image[340:348])
    block, extra, count = struct.unpack("<III", image[376:388])
    disk = bytearray()
    for number in struct.unpack(f"<{count}I", image[table : table + 4 * count]):
        start = blocks + number * (block + extra)
        disk += image[start : start + block] if number < 0xFFFFFFFE else bytes(block)
    assert hashlib.sha256(disk[:SIZE]).hexdigest() == SHA256
"""

_VHD = """
import hashlib
import struct

PATH = __PATH__
SIZE = __SIZE__
SHA256 = __DIGEST__


def test_footer_describes_a_fixed_disk(box):
    footer = box.read(PATH)[-512:]
    assert footer[:8] == b"conectix"
    current, kind = struct.unpack(">Q", footer[48:56])[0], struct.unpack(">I", footer[60:64])[0]
    assert (current, kind) == (SIZE, 2)
    bare = footer[:64] + bytes(4) + footer[68:]
    assert struct.unpack(">I", footer[64:68])[0] == ~sum(bare) & 0xFFFFFFFF


def test_disk_stands_before_the_footer(box):
    data = box.read(PATH)
    assert len(data) == SIZE + 512
    assert hashlib.sha256(data[:SIZE]).hexdigest() == SHA256
"""

CONVERTED: Mapping[str, str] = {"raw": _RAW, "qcow2": _QCOW2, "vdi": _VDI, "vhd": _VHD}

CHAIN = """
import hashlib
import os
import struct

# By path: the backing file, what the guest sees, and how many clusters may be stored in the file itself.
IMAGES = __IMAGES__
GONE = __GONE__
CLUSTER = __CLUSTER__


class Overlay:
    def __init__(self, box, path):
        self.data = box.read(path)
        assert self.number(0, 4) == 0x514649FB, f"{path} is no qcow2 image"
        assert self.number(20, 4) == CLUSTER.bit_length() - 1
        self.size = self.number(24, 8)
        start, length = self.number(8, 8), self.number(16, 4)
        self.backing = None
        if start:
            name = self.data[start : start + length].decode().removeprefix("file:")
            self.backing = os.path.normpath(os.path.join(os.path.dirname(path), name))
        self.below = Overlay(box, self.backing) if self.backing else None
        self.stored = 0

    def number(self, at, width):
        return int.from_bytes(self.data[at : at + width], "big")

    def cluster(self, index):
        table = self.number(self.number(40, 8) + index // (CLUSTER // 8) * 8, 8) & 0x00FFFFFFFFFFFE00
        entry = self.number(table + index % (CLUSTER // 8) * 8, 8) if table else 0
        assert not entry >> 62 & 1, "compressed"
        if entry & 1:
            return bytes(CLUSTER)
        if place := entry & 0x00FFFFFFFFFFFE00:
            self.stored += 1
            return self.data[place : place + CLUSTER].ljust(CLUSTER, b"\\0")
        return self.below.cluster(index) if self.below else bytes(CLUSTER)

    def data_clusters(self):
        self.disk()
        return self.stored

    def disk(self):
        return b"".join(self.cluster(index) for index in range(-(-self.size // CLUSTER)))[: self.size]


def test_each_image_stands_on_the_right_one(box):
    found = {path: Overlay(box, path).backing for path in IMAGES}
    assert found == {path: backing for path, (backing, _, _) in IMAGES.items()}


def test_guests_see_what_they_should(box):
    overlays = {path: Overlay(box, path) for path in IMAGES}
    seen = {path: hashlib.sha256(overlay.disk()).hexdigest() for path, overlay in overlays.items()}
    assert seen == {path: digest for path, (_, digest, _) in IMAGES.items()}
    own = {path: Overlay(box, path).data_clusters() for path in IMAGES}
    assert [path for path, (_, _, most) in IMAGES.items() if own[path] > most] == []


def test_what_is_no_longer_needed_is_gone():
    left = [path for path in GONE if os.path.lexists(path)]
    assert left == []
"""


SNAPSHOTS = """
import struct
import subprocess

NAMES = __NAMES__
LEDGER = __LEDGER__
SIZE = __SIZE__


def test_snapshot_table_lists_what_should_be_left(box):
    image = box.read("/work/books.qcow2")
    assert image[:4] == b"QFI\\xfb"
    count, at = struct.unpack(">IQ", image[60:72])
    names = []
    for _ in range(count):
        id_size, name_size = struct.unpack(">HH", image[at + 12 : at + 16])
        extra = struct.unpack(">I", image[at + 36 : at + 40])[0]
        begin = at + 40 + extra + id_size
        names.append(image[begin : begin + name_size].decode())
        at = -(-(begin + name_size) // 8) * 8
    assert sorted(names) == sorted(NAMES)


def test_disk_and_new_snapshot_are_the_last_sound_evening(tmp_path):
    for source in ([], ["-l", "restored"]):
        target = tmp_path / f"disk{len(source)}.raw"
        command = ["qemu-img", "convert", "-f", "qcow2", *source, "-O", "raw", "/work/books.qcow2", str(target)]
        subprocess.run(command, timeout=30, check=True)
        with open(tmp_path / f"disk{len(source)}.raw", "rb") as file:
            disk = file.read()
        assert len(disk) == SIZE
        assert disk[65536:69632].rstrip(b"\\0").decode() == LEDGER
    assert subprocess.run(["qemu-img", "check", "-q", "/work/books.qcow2"], timeout=30).returncode in (0, 3)
"""

DIFFERENCE = """
import csv, json, sys
SIZE = 512
a, b = open("/tmp/a", "rb").read(), open("/tmp/b", "rb").read()
runs = []
for at in range(0, len(a), SIZE):
    old, new = a[at:at + SIZE], b[at:at + SIZE]
    if old == new:
        continue
    kind = "written" if any(new) else "cleared"
    last = runs[-1] if runs else None
    if last is None or last[0] + last[1] != at // SIZE or kind != last[2]:
        runs.append([at // SIZE, 1, kind])
    else:
        last[1] += 1
if AS_JSON:
    json.dump([dict(first=f, count=n, kind=k) for f, n, k in runs], sys.stdout)
else:
    csv.writer(sys.stdout, lineterminator="\\n").writerows([["first", "count", "kind"], *runs])
"""

CHANGES = """
import csv
import io
import json

RUNS = __EXPECTED__
AS_JSON = __AS_JSON__
SECTORS = __TOTAL__


def listed(box):
    if AS_JSON:
        found = json.loads(box.text("/work/changes.json"))
        assert all(set(run) == {"first", "count", "kind"} for run in found)
    else:
        reader = csv.DictReader(io.StringIO(box.text("/work/changes.csv")))
        found = list(reader)
        assert reader.fieldnames == ["first", "count", "kind"]
    return [[int(run["first"]), int(run["count"]), run["kind"]] for run in found]


def test_all_differing_sectors_are_counted(box):
    assert sum(count for _, count, _ in listed(box)) == SECTORS


def test_runs_are_exact_and_in_order(box):
    assert listed(box) == RUNS
"""


def ledger(kind: str, rows: Sequence[tuple[str, int]], hurt: int) -> str:
    """A ledger of one of the four kinds; the row numbered `hurt` is damaged, none for -1."""
    lines, balance, shift = [], 0, 0
    for number, (payee, cents) in enumerate(rows):
        balance += cents
        wrong = cents + 10 if number == hurt else cents
        if kind == "total":
            lines.append(f"{payee};{wrong}")
        elif kind == "crc":
            lines.append(f"{payee};{wrong};{zlib.crc32(f'{payee};{cents}'.encode()):08x}")
        elif kind == "gaps":
            shift += number == hurt
            lines.append(f"{number + 1 + shift};{payee};{cents};{balance}")
        else:
            amount = abs(cents) + 1
            lines.append(f"{number + 1};debit;{payee};{amount}")
            lines.append(f"{number + 1};credit;bank;{amount + (number == hurt)}")
    if kind == "total":
        lines.append(f"TOTAL;{balance}")
    return "\n".join(lines) + "\n"
