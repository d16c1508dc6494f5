"""What judges the tasks of guest.py, and the records and seals that its keys are kept in."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence

BATCH = """
import hashlib
import subprocess

OUTPUT = __EXPECTED__
SUMS = __SUMS__


def from_image(name, target):
    subprocess.run(["/usr/sbin/debugfs", "-R", f"dump /{name} {target}", "/work/job.img"], timeout=20, check=True)
    with open(target, "rb") as copy:
        return copy.read()


def test_output_came_to_the_host(box):
    assert box.text("/work/result.txt") == OUTPUT


def test_output_lies_on_the_disk(tmp_path):
    assert from_image("result.txt", tmp_path / "result") == OUTPUT.encode()


def test_disk_is_clean_and_its_files_are_as_before(box, tmp_path):
    image = box.read("/work/job.img")
    assert image[1024 + 56 : 1024 + 58] == b"\\x53\\xef"
    assert image[1024 + 58] & 1, "not cleanly unmounted"
    found = {name: hashlib.sha256(from_image(name, tmp_path / name)).hexdigest() for name in SUMS}
    assert found == SUMS
"""

_TAR = """
import io
import tarfile

FILES = __TEXTS__


def test_disk_begins_with_an_archive_of_the_files(box):
    disk = box.read("/work/rescue.img")
    assert len(disk) == 1048576
    with tarfile.open(fileobj=io.BytesIO(disk), mode="r:") as archive:
        members = {member.name.removeprefix("./"): member for member in archive}
        assert sorted(members) == sorted(FILES)
        assert all(member.isreg() for member in members.values())


def test_members_have_their_texts(box):
    with tarfile.open(fileobj=io.BytesIO(box.read("/work/rescue.img")), mode="r:") as archive:
        texts = {m.name.removeprefix("./"): archive.extractfile(m).read().decode() for m in archive if m.isreg()}
    assert texts == FILES
"""

_FAT = """
import struct
import subprocess

FILES = __TEXTS__


def test_disk_is_one_small_fat_volume(box):
    disk = box.read("/work/rescue.img")
    assert len(disk) == 1048576 and disk[510:512] == b"\\x55\\xaa"
    per_sector, per_cluster, reserved, tables, entries = struct.unpack("<HBHBH", disk[11:19])
    sectors = struct.unpack("<H", disk[19:21])[0] or struct.unpack("<I", disk[32:36])[0]
    assert entries > 0 and sectors * per_sector <= len(disk)
    root = (reserved + tables * struct.unpack("<H", disk[22:24])[0]) * per_sector
    slots = [disk[at : at + 32] for at in range(root, root + 32 * entries, 32)]
    used = [slot for slot in slots if slot[0] not in (0, 0xE5) and not slot[11] & 0x08]
    assert sorted((s[:8].rstrip() + b"." + s[8:11].rstrip()).decode() for s in used) == sorted(FILES)


def test_volume_gives_the_texts_back():
    seen = {}
    for name in FILES:
        command = ["mtype", "-i", "/work/rescue.img", f"::{name}"]
        seen[name] = subprocess.run(command, timeout=20, capture_output=True, check=True).stdout.decode()
    assert seen == FILES
"""

_SLOTS = """
FILES = __TEXTS__


def test_each_text_has_its_place(box):
    disk = box.read("/work/rescue.img")
    assert len(disk) == 1048576
    places = {name: disk[65536 * n : 65536 * n + len(FILES[name])].decode() for n, name in enumerate(sorted(FILES))}
    assert places == FILES


def test_everything_else_is_zero(box):
    disk = bytearray(box.read("/work/rescue.img"))
    for n, name in enumerate(sorted(FILES)):
        disk[65536 * n : 65536 * n + len(FILES[name])] = bytes(len(FILES[name]))
    assert not any(disk)
"""

_CPIO = """
FILES = __TEXTS__


def entries(disk):
    at = 0
    while True:
        assert disk[at : at + 6] == b"070701"
        size, length = int(disk[at + 54 : at + 62], 16), int(disk[at + 94 : at + 102], 16)
        name = disk[at + 110 : at + 109 + length].decode()
        begin = (at + 110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return
        yield name.removeprefix("./"), disk[begin : begin + size].decode()
        at = (begin + size + 3) // 4 * 4


def test_archive_has_the_four_members(box):
    disk = box.read("/work/rescue.img")
    assert len(disk) == 1048576
    assert sorted(name for name, _ in entries(disk)) == sorted(FILES)


def test_members_are_what_was_in_memory(box):
    assert dict(entries(box.read("/work/rescue.img"))) == FILES
"""

RESCUED: Mapping[str, str] = {"tar": _TAR, "fat": _FAT, "slots": _SLOTS, "cpio": _CPIO}

OPENED = """
import hashlib
import zlib

TEXT = __TEXT__
KEY_CRC = __TAG__
KEY_SHA256 = __KEY_SUM__


def test_sealed_text_was_opened(box):
    assert box.text("/work/opened.txt") == TEXT


def test_key_is_the_right_one(box):
    digits = box.text("/work/key.txt")
    assert digits == digits.lower() and digits.endswith("\\n") and len(digits) == 33
    key = bytes.fromhex(digits)
    assert zlib.crc32(key) == KEY_CRC
    assert hashlib.sha256(key).hexdigest() == KEY_SHA256
"""

RECORDS: Sequence[str] = (
    "`KEYREC:`, the 16 bytes as 32 lower-case hex digits, `:`, and the CRC-32 (as in zlib) of the 16 bytes as "
    "eight lower-case hex digits.",
    "`[k64|`, the 16 bytes in base64 (24 characters), `|`, and the first eight hex digits (lower case) of "
    "their SHA-256, `]`.",
    "`<<pin `, the 16 bytes as decimal numbers with a hyphen between each two, ` sum `, and the sum of the 16 "
    "numbers modulo 9973 as a plain "
    "decimal number, `>>`.",
    "`K1=`, 32 upper-case hex digits, `;ADLER=`, and the Adler-32 (as in zlib) of the 16 bytes as a decimal "
    "number, `;`.",
)
SEALS: Sequence[str] = (
    "every byte of the text was XORed with the key, repeated as often as needed.",
    "byte number i of the text (from 0) was XORed with byte i mod 32 of the SHA-256 of the key.",
    "to byte number i of the text (from 0), byte i mod 16 of the key was added modulo 256.",
    "byte number i of the text (from 0) was XORed with byte i mod 16 of the reversed key.",
)


def record(form: int, key: bytes, *, sound: bool) -> str:
    """A key as it lies in memory; with a wrong check unless it is sound."""
    off = 0 if sound else 1
    if form == 0:
        return f"KEYREC:{key.hex()}:{zlib.crc32(key) ^ off:08x}"
    if form == 1:
        digest = hashlib.sha256(key).hexdigest()[:8]
        return f"[k64|{base64.b64encode(key).decode()}|{digest if sound else digest[::-1]}]"
    if form == 2:
        return f"<<pin {'-'.join(map(str, key))} sum {(sum(key) + off) % 9973}>>"
    return f"K1={key.hex().upper()};ADLER={zlib.adler32(key) + off};"


def seal(form: int, key: bytes, text: bytes) -> bytes:
    """The text, sealed in the way that SEALS describes."""
    stream = (key, hashlib.sha256(key).digest(), key, key[::-1])[form]
    if form == 2:
        return bytes((byte + stream[i % 16]) % 256 for i, byte in enumerate(text))
    return bytes(byte ^ stream[i % len(stream)] for i, byte in enumerate(text))


FIND = """
import base64, hashlib, re, sys, zlib
form = FORM
memory = open(sys.argv[1], "rb").read()
pattern = (
    rb"KEYREC:([0-9a-f]{32}):([0-9a-f]{8})",
    rb"\\[k64\\|([A-Za-z0-9+/]{22}==)\\|([0-9a-f]{8})\\]",
    rb"<<pin ((?:\\d{1,3}-){15}\\d{1,3}) sum (\\d+)>>",
    rb"K1=([0-9A-F]{32});ADLER=(\\d+);",
)[form]
def decoded(text):
    if form == 1:
        return base64.b64decode(text)
    return bytes(map(int, text.split("-"))) if form == 2 else bytes.fromhex(text)
def fits(key, check):
    return check == (
        f"{zlib.crc32(key):08x}", hashlib.sha256(key).hexdigest()[:8], str(sum(key) % 9973), str(zlib.adler32(key))
    )[form]
for found in re.finditer(pattern, memory):
    key, check = decoded(found[1].decode()), found[2].decode()
    if fits(key, check):
        break
else:
    sys.exit("no key")
stream = (key, hashlib.sha256(key).digest(), key, key[::-1])[form]
sealed = open("/work/sealed.bin", "rb").read()
if form == 2:
    plain = bytes((b - stream[i % 16]) % 256 for i, b in enumerate(sealed))
else:
    plain = bytes(b ^ stream[i % len(stream)] for i, b in enumerate(sealed))
open("/work/opened.txt", "wb").write(plain)
open("/work/key.txt", "w").write(key.hex() + "\\n")
"""
