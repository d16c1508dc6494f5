"""Labels on a disk, byte by byte as string functions write them; what those do, a manual page of the image says."""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.generators.domains.qemu.guest import suspended
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

Call = tuple[str, str, int]
"""Function, source (a variable, or a text in quotes), and its length where the call has one."""
Values = Mapping[str, bytes]

_RACK = 12
_SIZE = 131072


@dataclass(frozen=True)
class _Field:
    name: str
    width: int
    calls: tuple[Call, ...]


_LABELS = (
    (
        _Field("title", 20, (("stpecpy", "name", 0), ("stpecpy", '"@"', 0), ("stpecpy", "site", 0))),
        _Field("place", 16, (("stpncpy", "site", 0),)),
        _Field("shelf", 15, (("zustr2stp", "rack", _RACK),)),
        _Field("tag", 8, (("ustpcpy", "name", 4),)),
    ),
    (
        _Field("tag", 11, (("ustr2stp", "site", 3), ("ustr2stp", "name", 4))),
        _Field("shelf", 16, (("zustr2ustp", "rack", _RACK), ("ustpcpy", '"!"', 1))),
        _Field("title", 22, (("strlcpy", "name", 0), ("strlcat", '"/"', 0), ("strlcat", "note", 0))),
        _Field("place", 12, (("strncpy", "site", 0),)),
    ),
    (
        _Field("code", 9, (("stpncpy", "name", 0),)),
        _Field("place", 19, (("stpecpy", "site", 0), ("stpecpy", '": "', 0), ("stpecpy", "note", 0))),
        _Field("mark", 17, (("ustpcpy", "note", 3), ("zustr2ustp", "rack", _RACK))),
        _Field("title", 36, (("stpcpy", "name", 0), ("zustr2stp", "rack", _RACK))),
    ),
    (
        _Field("title", 40, (("strncat", "rack", _RACK), ("strncat", "name", 5), ("strncat", "site", 42))),
        _Field("mark", 16, (("zustr2ustp", "rack", _RACK), ("ustr2stp", "note", 2))),
        _Field("place", 17, (("strlcpy", "site", 0), ("strlcat", '"#"', 0), ("strlcat", "name", 0))),
        _Field("code", 10, (("strncpy", "note", 0),)),
    ),
)


@dataclass(frozen=True)
class _Medium:
    """How the disk is kept: what is said of it, how it is made of old.bin, what else has to stay."""

    disk: str
    format: str
    said: str
    setup: tuple[str, ...]
    also: str = ""
    wrong: tuple[Variant, ...] = ()


_INTO_QCOW = "qemu-img convert -q -f raw -O qcow2 old.bin disk.qcow2"
_MEDIA = (
    _Medium("disk.qcow2", "qcow2", "It is to stay a qcow2 image.", (_INTO_QCOW,)),
    _Medium("disk.img", "raw", "It is a raw image.", ("cp old.bin disk.img",)),
    _Medium(
        "work.qcow2",
        "qcow2",
        "It is a qcow2 overlay: its backing file /work/base.img must stay as it is, the change belongs into the "
        "overlay, which is to remain one.",
        ("cp old.bin base.img", "qemu-img create -q -f qcow2 -b base.img -F raw work.qcow2"),
        "overlay",
    ),
    _Medium(
        "disk.qcow2",
        "qcow2",
        "It is a qcow2 image whose internal snapshot `before` must be kept, with the old labels in it.",
        (_INTO_QCOW, "qemu-img snapshot -c before disk.qcow2"),
        "snapshot",
    ),
)


def label_sectors(seed: int, context: Context) -> Draft:
    """Values that only a suspended guest has are put into the labels of a disk as a piece of C would do it."""
    rng = chance("qemu", "label_sectors", seed)
    page = gzip.decompress(context.read("strings/string_copying.7.gz")).decode()
    fields, medium = _LABELS[seed % 4], _MEDIA[seed % 4]
    if unknown := {function for field in fields for function, _, _ in field.calls if f"{function}(" not in page}:
        raise ValueError(f"the manual page does not have {unknown}")
    names = rng.sample(("alder", "birch", "cedar", "hazel", "maple"), 3)
    units = {name: _values(rng, number) for number, name in enumerate(names)}
    sectors = dict(zip(names, sorted(rng.sample(range(8, 240, 3), 3), reverse=rng.random() < 0.5), strict=True))
    factor, offset = rng.choice((37, 41, 53, 59)), rng.randint(1, 200)
    old = bytes(33 + (i * factor + i // 512 * 7 + offset) % 90 for i in range(_SIZE))
    new = bytearray(old)
    for name, values in units.items():
        _written(new, sectors[name] * 512, fields, values)
    hold = "\n".join(
        f"mkdir -p /srv/units/{name}\n"
        + "\n".join(f"printf '{_octal(value)}' > /srv/units/{name}/{key}" for key, value in values.items())
        for name, values in units.items()
    )
    make_old = (
        f"""python3 -c 'open("old.bin", "wb").write(bytes(33 + (i * {factor} + i // 512 * 7 + {offset}) % 90 """
        f"""for i in range({_SIZE})))'"""
    )
    start = f"guest-start -s machine.qcow2 -n suspended {medium.disk}"
    solver = _solver(fields, sectors)
    ask = (
        "guest-console 'cd /srv/units; for f in */*; do "
        'echo "$f $(hexdump -v -e "1/1 \\"%02x\\"" $f)"; done\' > /tmp/values'
    )
    inside = (start, ask, f"cat > /tmp/label.py <<'E'\n{solver}E", 'guest-console "$(python3 /tmp/label.py)"')
    end = ("guest-console sync", "guest-qmp quit")

    def mistaken(name: str, was: str, instead: str) -> Variant:
        assert was in solver
        script = f"cat > /tmp/label.py <<'E'\n{solver.replace(was, instead)}E"
        return Variant(name=name, commands=(*inside[:2], script, inside[3], *end))

    shown = ", ".join(f"{name} to sector {sectors[name]}" for name in names)
    return Draft(
        family="label_sectors",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"Our label printer's controller writes labels on /work/{medium.disk} with the C function in "
        "/work/label.c. It broke down and no compiler is left here, so do by hand, byte for byte, what that function "
        "would have done for three units. The functions it calls, some of which no library has, are those "
        "of /srv/manuals/string_copying.7.gz, reference implementations included; nothing else writes to the label.\n\n"
        "The values are in the memory of our suspended guest: resume the snapshot `suspended` of /work/machine.qcow2 "
        "(the machine of /opt/guest/README). There, /srv/units/UNIT has the files name, site and note, each the "
        "characters of one string without the null byte at its end, and rack, all bytes of the buffer of that "
        f"name. Write {shown} (512 bytes each, counted from 0); a struct label lies in place at the first byte of its "
        "sector, field after field without gaps. Bytes that the C code does not write keep what the disk has there "
        f"now; so does the rest of the disk. {medium.said} Its size stays, and no guest may have the disk open "
        "in the end.",
        files=(TaskFile(path="/work/label.c", text=_c_code(fields)),),
        setup=(*suspended(f"{hold}\nls /srv/units"), make_old, *medium.setup, "rm old.bin"),
        solution=(*inside, *end),
        right=(
            Variant(
                name="written_from_outside",
                commands=(
                    "guest-start -d /tmp/g -s machine.qcow2 -n suspended",
                    ask.replace("guest-console", "guest-console -d /tmp/g"),
                    "guest-qmp -d /tmp/g quit",
                    inside[2],
                    "python3 /tmp/label.py pieces | while read -r at bytes; do echo $bytes | xxd -r -p > /tmp/piece; "
                    f'qemu-io -f {medium.format} -c "write -s /tmp/piece $at $(stat -c %s /tmp/piece)" '
                    f"{medium.disk} > /dev/null; done",
                ),
            ),
        ),
        weak=(
            mistaken("all_fields_padded", "return bytes(filled)", "return bytes(filled).ljust(size, b'\\0')"),
            mistaken("every_field_terminated", "return bytes(filled)", "return (bytes(filled) + b'\\0')[:size]"),
            mistaken("cut_without_a_null", "filled[-1] = 0", "pass"),
            mistaken("first_unit_only", "in SECTORS.items()", "in [*SECTORS.items()][:1]"),
            mistaken("sectors_off_by_one", "SECTOR = 512", "SECTOR = 513"),
            *_astray(medium, inside),
        ),
        verifier=filled(
            _VERIFIER + _ALSO[medium.also],
            disk=f"/work/{medium.disk}",
            qcow2=medium.format == "qcow2",
            backing="base.img" if medium.also == "overlay" else "",
            factor=factor,
            offset=offset,
            size=_SIZE,
            pieces=_pieces(old, bytes(new)),
            old_sum=hashlib.sha256(old).hexdigest(),
        ),
        contexts=("strings",),
    )


def _values(rng: random.Random, number: int) -> dict[str, bytes]:
    """Values of one unit: of the first all are short, of the last so long that they are cut."""
    name = (("pump", "lift", "fan-x"), ("mixer-21", "crane-07"), ("conveyor-12N", "separator-4B"))[number]
    site = (("Hull", "Lodz"), ("Dock Four", "Mill Lane"), ("Harbour East Gate", "Upper Quarry Yard"))[number]
    note = (("ok", "no"), ("spare", "loaned"), ("spare since 3 May", "without lock bar"))[number]
    shelf = f"{rng.choice('ABCDE')}{rng.randint(10, 99)}"
    rack = (f"{shelf}-low", shelf, f"{shelf}-{rng.randint(10000000, 99999999)}")[number]
    letters = {"name": rng.choice(name), "site": rng.choice(site), "note": f"{rng.randint(1, 9)} {rng.choice(note)}"}
    return {key: text.encode() for key, text in letters.items()} | {"rack": rack.encode().ljust(_RACK, b"\0")}


def _octal(value: bytes) -> str:
    return "".join(f"\\{byte:03o}" for byte in value)


def _written(disk: bytearray, at: int, fields: tuple[_Field, ...], values: Values) -> None:
    """What the calls leave behind, at a place of the disk."""
    for field in fields:
        parts = [(function, *_source(source, length, values)) for function, source, length in field.calls]
        whole = b"".join(part for _, part in parts)
        last = parts[-1][0]
        if last in ("stpncpy", "strncpy"):
            whole = whole[: field.width].ljust(field.width, b"\0")
        elif last in ("stpecpy", "strlcpy", "strlcat"):
            whole = whole[: field.width - 1] + b"\0"
        elif last in ("zustr2stp", "ustr2stp", "stpcpy", "strncat"):
            whole += b"\0"
        if len(whole) > field.width:
            raise ValueError(f"{field.name} is too small for {whole!r}")
        disk[at : at + len(whole)] = whole
        at += field.width


def _source(source: str, length: int, values: Values) -> tuple[bytes]:
    """The characters that a call gets to see."""
    text = source.strip('"').encode() if source.startswith('"') else values[source]
    return (text[: length or None].split(b"\0")[0],)


def _pieces(old: bytes, new: bytes) -> list[list[object]]:
    """Place and content of every sector that differs, as hexadecimal digits."""
    places = range(0, _SIZE, 512)
    return [[at, new[at : at + 128].hex()] for at in places if old[at : at + 512] != new[at : at + 512]]


def _c_code(fields: tuple[_Field, ...]) -> str:
    members = "".join(f"    char {field.name}[{field.width}];\n" for field in fields)
    body = "\n".join("".join(f"    {line}\n" for line in _statements(field)) for field in fields)
    return (
        f"struct label {{\n{members}}};\n\n"
        "void\nwrite_label(struct label *label, const char *name, const char *site, const char *note,\n"
        f"            const char rack[{_RACK}])\n{{\n    char *p, *end;\n\n{body}}}\n"
    )


def _statements(field: _Field) -> list[str]:
    place, lines = f"label->{field.name}", []
    if field.calls[0][0] == "stpecpy":
        lines.append(f"end = {place} + sizeof({place});")
    if field.calls[0][0] == "strncat":
        lines.append(f"{place}[0] = '\\0';")
    for number, (function, source, length) in enumerate(field.calls):
        begin = "p" if number and function not in ("strlcat", "strncat") else place
        if function == "stpecpy":
            lines.append(f"p = stpecpy({begin}, end, {source});")
        elif function in ("strlcpy", "strlcat", "strncpy", "stpncpy"):
            lines.append(f"{function}({place}, {source}, sizeof({place}));")
        else:
            back = "" if function == "strncat" else "p = "
            lines.append(f"{back}{function}({begin}, {source}{f', {length}' if length else ''});")
    return lines


def _solver(fields: tuple[_Field, ...], sectors: Mapping[str, int]) -> str:
    """A program that works the calls off one by one and prints what to type in the guest (or the pieces)."""
    table = "".join(f"    ({f.name!r}, {f.width}, {f.calls!r}),\n" for f in fields)
    return f"FIELDS = (\n{table})\nSECTORS = {dict(sectors)!r}\n{_SOLVER}"


_SOLVER = """SECTOR = 512
import sys

seen = dict(line.split() for line in open("/tmp/values") if line.strip())


def field(size, calls, unit):
    filled = bytearray()
    for function, source, length in calls:
        if filled and filled[-1] == 0 and function not in ("stpncpy", "strncpy"):
            if len(filled) == size:
                continue
            filled.pop()
        text = source[1:-1].encode() if source[0] == '"' else bytes.fromhex(seen[unit + "/" + source])
        if length:
            text = text[:length]
        if function.startswith(("zustr", "strncat")):
            text = text.partition(b"\\0")[0]
        if function in ("stpncpy", "strncpy"):
            filled += text[:size] + bytes(max(0, size - len(text)))
            continue
        filled += text
        if function not in ("zustr2ustp", "ustpcpy"):
            filled.append(0)
        if len(filled) > size:
            del filled[size:]
            filled[-1] = 0
    return bytes(filled)


for unit, sector in SECTORS.items():
    at = sector * SECTOR
    for name, size, calls in FIELDS:
        content = field(size, calls, unit)
        if sys.argv[1:]:
            print(at, content.hex())
        else:
            octal = "".join("\\\\%03o" % byte for byte in content)
            print(f"printf '{octal}' | dd of=/dev/vda bs=1 seek={at} 2>/dev/null")
        at += size
"""


def _astray(medium: _Medium, inside: tuple[str, ...]) -> tuple[Variant, ...]:
    """Mistakes that only this kind of disk invites."""
    if medium.also == "overlay":
        start = inside[0].replace(medium.disk, "base.img")
        return (
            Variant(name="into_the_backing_file", commands=(start, *inside[1:], "guest-console sync; guest-qmp quit")),
        )
    if medium.also == "snapshot":
        renew = "qemu-img convert -O qcow2 disk.qcow2 x && mv x disk.qcow2"
        return (Variant(name="snapshot_lost", commands=(*inside, "guest-console sync", "guest-qmp quit", renew)),)
    return ()


_VERIFIER = """
import hashlib
import subprocess

DISK = __DISK__
QCOW2 = __QCOW2__
BACKING = __BACKING__
SIZE = __SIZE__
PIECES = __PIECES__
OLD_SUM = __OLD_SUM__


def contents(box, folder, *options):
    head = box.read(DISK)
    if not QCOW2:
        return head
    command = ["qemu-img", "convert", *options, "-f", "qcow2", "-O", "raw", DISK, str(folder / "flat")]
    subprocess.run(command, timeout=20, check=True)
    return (folder / "flat").read_bytes()


def blank():
    return bytearray(33 + (i * __FACTOR__ + i // 512 * 7 + __OFFSET__) % 90 for i in range(SIZE))


def test_labels_are_what_the_function_writes(box, tmp_path):
    seen = contents(box, tmp_path)
    assert [(at, seen[at : at + 128].hex()) for at, _ in PIECES] == [tuple(piece) for piece in PIECES]


def test_rest_of_the_disk_is_as_before(box, tmp_path):
    seen = bytearray(contents(box, tmp_path))
    before = blank()
    assert hashlib.sha256(before).hexdigest() == OLD_SUM and len(seen) == SIZE
    for at, digits in PIECES:
        assert bytes(seen[at : at + 128]) == bytes.fromhex(digits)
        seen[at : at + 128] = before[at : at + 128]
    assert seen == before


def test_disk_is_of_its_kind(box):
    head = box.read(DISK)[:4096]
    assert (head[:4] == b"QFI\\xfb") == QCOW2
    if QCOW2:
        start, length = int.from_bytes(head[8:16], "big"), int.from_bytes(head[16:20], "big")
        assert head[start : start + length].decode().rpartition("/")[2] == BACKING if start else BACKING == ""
"""
_ALSO = {
    "": "",
    "overlay": """

def test_backing_file_is_untouched(box):
    assert hashlib.sha256(box.read("/work/base.img")).hexdigest() == OLD_SUM
""",
    "snapshot": """

def test_snapshot_has_the_old_labels(box, tmp_path):
    kept = contents(box, tmp_path, "-l", "snapshot.name=before")
    assert hashlib.sha256(kept).hexdigest() == OLD_SUM
""",
}
