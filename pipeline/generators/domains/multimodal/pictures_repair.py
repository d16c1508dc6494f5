"""PNG files with one fault each, to be put right without being encoded anew."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Mapping
from random import Random

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python, sent
from pipeline.generators.drafts import Context, Draft, Make, chance, filled
from pipeline.types import Variant

SIGNATURE = b"\x89PNG\r\n\x1a\n"
NAMES = ("badge", "banner", "chart", "cover", "logo", "map", "plan", "stamp", "tile", "thumb")
Chunk = tuple[bytes, bytes]
"""Type and content."""


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _chunks(rng: Random, name: str) -> list[Chunk]:
    """A picture of soft noise, its data in four parts, with a remark."""
    width, height, colour = rng.randint(30, 60), rng.randint(12, 24), rng.choice((0, 2, 6))
    planes = {0: 1, 2: 3, 6: 4}[colour]
    step = rng.randint(2, 9)
    lines = [
        bytes([0, *((step * x + 3 * y * p + rng.randrange(6)) % 256 for x in range(width) for p in range(planes))])
        for y in range(height)
    ]
    packed = zlib.compress(b"".join(lines), 9)
    part = len(packed) // 4 + 1
    return [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
        (b"tEXt", b"Title\0" + f"{name} no. {rng.randint(100, 999)}".encode()),
        *((b"IDAT", packed[at : at + part]) for at in range(0, len(packed), part)),
        (b"IEND", b""),
    ]


def _places(data: bytes) -> list[tuple[int, bytes]]:
    """Where each chunk begins, and its type."""
    places, place = [], 8
    while place < len(data):
        places.append((place, data[place + 4 : place + 8]))
        place += struct.unpack_from(">I", data, place)[0] + 12
    return places


def _over(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


def _image_data(rng: Random, data: bytes) -> int:
    """Where one of the inner chunks of image data begins."""
    return rng.choice([place for place, kind in _places(data) if kind == b"IDAT"][1:-1])


def _side(at: int) -> Callable[[Random, bytes], bytes]:
    def broken(rng: Random, data: bytes) -> bytes:
        old = struct.unpack_from(">I", data, at)[0]
        return _over(data, at, struct.pack(">I", rng.choice([side for side in range(1, 600) if side != old])))

    return broken


def _colour(rng: Random, data: bytes) -> bytes:
    return _over(data, 25, bytes([{0: 2, 2: 6, 6: 2}[data[25]]]))


def _checksum(rng: Random, data: bytes) -> bytes:
    place = _image_data(rng, data)
    return _over(data, place + 8 + struct.unpack_from(">I", data, place)[0], rng.randbytes(4))


def _bit(rng: Random, data: bytes) -> bytes:
    place = _image_data(rng, data)
    at = place + 8 + rng.randrange(struct.unpack_from(">I", data, place)[0])
    return _over(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))


def _length(rng: Random, data: bytes) -> bytes:
    place = _image_data(rng, data)
    old = struct.unpack_from(">I", data, place)[0]
    return _over(data, place, struct.pack(">I", rng.choice([0, old - 4, old + 12, 70000])))


def _swapped(rng: Random, data: bytes) -> bytes:
    (first, _), (second, _), (third, _) = [one for one in _places(data) if one[1] == b"IDAT"][1:4]
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: -rng.choice((12, 12, 9, 5, 3))]


def _unsigned(rng: Random, data: bytes) -> bytes:
    return _over(data, 0, rng.choice((bytes(8), b"\x09PNG\n\n\x1a\n", b"\xef\xbf\xbdPNG\r\n")))


Break = Callable[[Random, bytes], bytes]
FAULTS: Mapping[str, tuple[str, str, Break]] = {
    "width": ("IHDR", "a wrong width in the header", _side(16)),
    "height": ("IHDR", "a wrong height in the header", _side(20)),
    "colour": ("IHDR", "a wrong colour type in the header", _colour),
    "checksum": ("IDAT", "a checksum of a chunk overwritten", _checksum),
    "bit": ("IDAT", "a single bit turned over in the content of a chunk", _bit),
    "length": ("IDAT", "the length field of a chunk overwritten", _length),
    "swapped": ("IDAT", "two chunks that have changed places", _swapped),
    "end": ("IEND", "the last bytes lost", _cut),
    "signature": ("signature", "the 8 bytes of the signature overwritten", _unsigned),
}
CHOICES = (
    ("height", "bit", "end", "checksum", "swapped"),
    ("width", "length", "signature", "bit", "end"),
    ("colour", "swapped", "checksum", "length", "height"),
    ("signature", "bit", "width", "swapped", "length"),
)
MEND = """
import itertools, os, struct, zlib
SIGNED = b"\\x89PNG\\r\\n\\x1a\\n"
END = struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))


def others(kind, body):
    for at in range(8 * len(body)):
        new = bytearray(body)
        new[at // 8] ^= 1 << at % 8
        yield bytes(new)
    if kind == b"IHDR":
        for side in range(1 << 16):
            yield struct.pack(">I", side) + body[4:]
            yield body[:4] + struct.pack(">I", side) + body[8:]
        for number in range(256):
            yield body[:9] + bytes([number]) + body[10:]


def chunk(data, at):
    kind = data[at + 4 : at + 8]
    (size,) = struct.unpack_from(">I", data, at)
    body, stored = data[at + 8 : at + 8 + size], data[at + 8 + size : at + 12 + size]
    if len(stored) == 4 and zlib.crc32(kind + body) == struct.unpack(">I", stored)[0]:
        return kind, body, False
    crc = zlib.crc32(kind)
    for end in range(at + 8, len(data) - 3):
        if data[end : end + 4] == struct.pack(">I", crc):
            return kind, data[at + 8 : end], True
        crc = zlib.crc32(data[end : end + 1], crc)
    (wanted,) = struct.unpack(">I", stored)
    return kind, next((new for new in others(kind, body) if zlib.crc32(kind + new) == wanted), body), True


def inflates(bodies):
    try:
        return bool(zlib.decompress(b"".join(bodies)))
    except zlib.error:
        return False


os.makedirs("/work/mended", exist_ok=True)
report = []
for name in sorted(os.listdir("/work/damaged")):
    data = open("/work/damaged/" + name, "rb").read()
    fault, found, at = "none", [], 8
    if data[:8] != SIGNED:
        fault = "signature"
    while at < len(data) and not END.startswith(data[at:]):
        kind, body, wrong = chunk(data, at)
        at += len(body) + 12
        found.append((kind, body))
        if wrong:
            fault = kind.decode()
    if data[at:] != END:
        fault = "IEND"
    bodies = [body for kind, body in found if kind == b"IDAT"]
    if not inflates(bodies):
        fault = "IDAT"
        bodies = next(list(one) for one in itertools.permutations(bodies) if inflates(one))
    with open("/work/mended/" + name, "wb") as out:
        out.write(SIGNED)
        for kind, body in found:
            body = bodies.pop(0) if kind == b"IDAT" else body
            out.write(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
        out.write(END)
    report.append(name + "," + fault)
open("/work/faults.csv", "w").write("\\n".join(report) + "\\n")
"""
ENCODED_ANEW = """
import os
from PIL import Image, ImageFile
ImageFile.LOAD_TRUNCATED_IMAGES = True
for name in os.listdir("/work/damaged"):
    try:
        Image.open("/work/damaged/" + name).save("/work/mended/" + name)
    except Exception:
        pass
"""
VERIFY_MENDED = """
import hashlib
import os
import struct
import zlib

FAULTS = __FAULTS__
CONTENTS = __CONTENTS__


def parts(box, name):
    raw, place, found = box.read("/work/mended/" + name), 8, [b""]
    assert raw.startswith(b"\\x89PNG\\r\\n\\x1a\\n"), "no signature of a PNG"
    while place < len(raw):
        assert len(raw) >= place + 12, "a chunk is cut off"
        size = int.from_bytes(raw[place : place + 4], "big")
        found.append(raw[place + 4 : place + size + 12])
        place += size + 12
    return found[1:]


def test_all_pictures_are_there(box):
    assert set(os.listdir("/work/mended")) == set(CONTENTS)


def test_chunks_are_sound(box):
    faulty = [
        (name, part[:4])
        for name in CONTENTS
        for part in parts(box, name)
        if len(part) < 8 or struct.pack(">I", zlib.crc32(part[:-4])) != part[-4:]
    ]
    assert not faulty


def test_pictures_are_what_they_were(box):
    lengths_and_digests = {}
    for name in CONTENTS:
        whole = b"".join(parts(box, name))
        lengths_and_digests[name] = [len(whole), hashlib.sha256(whole).hexdigest()[:40]]
    assert lengths_and_digests == CONTENTS


def test_report_names_the_place_of_each_fault(box):
    assert box.text("/work/faults.csv").splitlines() == FAULTS
"""


def damaged_pictures(seed: int, context: Context) -> Draft:
    """PNG files out of which a failing card has lost or changed something."""
    rng, kinds = chance(DOMAIN, "damaged_pictures", seed), [*CHOICES[seed % len(CHOICES)], "none"]
    rng.shuffle(kinds)
    names = sorted(f"{name}.png" for name in rng.sample(NAMES, len(kinds)))
    damaged, faults, contents, one_by_one = {}, [], {}, []
    for name, kind in zip(names, kinds, strict=True):
        chunks = _chunks(rng, name[:-4])
        whole = SIGNATURE + b"".join(_chunk(*one) for one in chunks)
        bare = b"".join(_chunk(*one)[4:] for one in chunks)
        contents[name] = [len(bare), hashlib.sha256(bare).hexdigest()[:40]]
        place, _, broken = FAULTS.get(kind, ("none", "", lambda rng, data: data))
        damaged[f"/work/damaged/{name}"] = broken(rng, whole)
        faults.append(f"{name},{place}")
        one_by_one.append((name, kind, place))
    files, setup = sent(damaged)
    return Draft(
        family="damaged_pictures",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=_asked(sorted(FAULTS[kind][1] for kind in kinds if kind in FAULTS)),
        files=files,
        setup=setup,
        solution=(python(MEND),),
        right=(Variant(name="one_by_one", commands=(python(BY_KIND + f"\nmend({one_by_one!r})"),)),),
        weak=(
            Variant(name="encoded_anew", commands=(python(MEND), python(ENCODED_ANEW))),
            Variant(name="new_checksums_only", commands=(python(altered(MEND, _NO_SEARCH)),)),
            Variant(name="remarks_left_out", commands=(python(altered(MEND, _NO_REMARKS)),)),
        ),
        verifier=filled(VERIFY_MENDED, faults=faults, contents=contents),
    )


_NO_SEARCH = ("next((new for new in others(kind, body) if zlib.crc32(kind + new) == wanted), body)", "body")
_NO_REMARKS = (
    "        found.append((kind, body))",
    '        if kind != b"tEXt":\n            found.append((kind, body))',
)
BY_KIND = """
import pathlib, struct, zlib


def fields(data):
    at, found = 8, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at : at + 12 + size])
        at += 12 + size
    return found


def right(piece):
    return zlib.crc32(piece[4:-4]) == int.from_bytes(piece[-4:], "big")


def sides(data, at):
    tries = (data[:at] + side.to_bytes(4, "big") + data[at + 4 :] for side in range(1, 4096))
    return next(one for one in tries if right(one[8:33]))


def turned(data):
    wrong = next(piece for piece in fields(data) if not right(piece))
    number = int.from_bytes(wrong, "big")
    tries = ((number ^ 1 << bit).to_bytes(len(wrong), "big") for bit in range(32, 8 * len(wrong) - 64))
    return data.replace(wrong, next(one for one in tries if right(one)))


def summed(data):
    wrong = next(piece for piece in fields(data) if not right(piece))
    return data.replace(wrong, wrong[:-4] + zlib.crc32(wrong[4:-4]).to_bytes(4, "big"))


def measured(data):
    pieces = data.split(b"IDAT")
    for number, piece in enumerate(pieces[1:], 1):
        before = pieces[number - 1]
        tail = piece.index(b"IEND") - 4 if b"IEND" in piece else len(piece) - 4
        pieces[number - 1] = before[:-4] + (tail - 4).to_bytes(4, "big")
    return b"IDAT".join(pieces)


def sorted_out(data):
    head, remark, a, b, c, d, end = fields(data)
    return data[:8] + b"".join((head, remark, a, c, b, d, end))


def ended(data):
    whole = data[: data.rindex(b"IDAT") - 4]
    last = data[len(whole) :]
    return whole + last[: int.from_bytes(last[:4], "big") + 12] + bytes.fromhex("0000000049454e44ae426082")


WAYS = {
    "width": lambda data: sides(data, 16),
    "height": lambda data: sides(data, 20),
    "colour": lambda data: next(
        one for one in (data[:25] + bytes([kind]) + data[26:] for kind in range(7)) if right(one[8:33])
    ),
    "bit": turned,
    "checksum": summed,
    "length": measured,
    "swapped": sorted_out,
    "end": ended,
    "signature": lambda data: bytes.fromhex("89504e470d0a1a0a") + data[8:],
    "none": bytes,
}


def mend(pictures):
    folder = pathlib.Path("/work/mended")
    folder.mkdir()
    with open("/work/faults.csv", "w") as report:
        for name, kind, place in pictures:
            (folder / name).write_bytes(WAYS[kind](pathlib.Path("/work/damaged", name).read_bytes()))
            print(name, place, sep=",", file=report)
"""


def _asked(kinds: list[str]) -> str:
    return (
        "A memory card is dying, and the PNG files that I could still copy from it into /work/damaged do not all open. "
        f"I know what this card does to files, it is one of these: {'; '.join(kinds)}. Each file has one such fault, "
        "except one file, which is sound; all the other bytes are still those of the original. Beyond that nothing "
        "is known: find out what is wrong where. Put all of them, the sound one too, with "
        "the same names into /work/mended, byte for byte as they were before the card failed: the same chunks with the "
        "same contents in the same order, not encoded anew. (Every original is a valid PNG of 8 bits per sample.) "
        "Also write /work/faults.csv without a header, one line `file,place` for each file, sorted by the name of the "
        "file, where place is the four-letter type of the chunk that the fault was in, `signature` for a fault before "
        "the first chunk, IEND for a lost end, or `none`."
    )


FAMILIES: Mapping[str, Make] = {"damaged_pictures": damaged_pictures}
