"""Tasks on disk images alone: formats, backing chains, internal snapshots, differences. No guest runs in them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence

from pipeline.generators.domains.qemu import chains, image_checks
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

_KIB = 1024
_MIB = 1024 * _KIB

Writes = Sequence[tuple[int, int, int]]
"""Byte, offset and length of the patterns written to a disk, in order."""


def _disk(size: int, writes: Writes, over: bytes = b"") -> bytes:
    disk = bytearray(over or bytes(size))
    for byte, offset, length in writes:
        disk[offset : offset + length] = bytes([byte]) * length
    return bytes(disk)


def _written(path: str, writes: Writes, image_format: str = "qcow2") -> str:
    commands = " ".join(f"-c 'write -q -P {byte} {offset} {length}'" for byte, offset, length in writes)
    return f"qemu-io -f {image_format} {commands} {path}"


def _patterns(rng: random.Random, count: int, size: int, unit: int = 512) -> Writes:
    made = []
    for _ in range(count):
        length = rng.randint(3, 160) * unit
        made.append((rng.randint(1, 255), rng.randrange(0, size - length, unit), length))
    return made


_TARGETS = {
    "raw": (
        "qcow2",
        "`/work/in/{name}.qcow2` came from the old cluster, but our flashing rig only understands plain images. Make "
        "/work/out/{name}.img: the bytes that a guest would see on the whole disk, in their places, and nothing else "
        "(so the file is exactly as long as the disk is big).",
        "qemu-img convert -O raw in/{name}.qcow2 out/{name}.img",
        "cp in/{name}.qcow2 out/{name}.img",
    ),
    "qcow2": (
        "raw",
        "Please pack the plain disk image `/work/in/{name}.raw` as /work/out/{name}.qcow2 for the archive: "
        "format qcow2, "
        "version 3, 32 KiB clusters, no backing file, and all data clusters compressed with zlib (the default "
        "compression). What a guest sees must stay the same to the byte.",
        "qemu-img convert -c -f raw -O qcow2 -o cluster_size=32k in/{name}.raw out/{name}.qcow2",
        "qemu-img convert -f raw -O qcow2 -o cluster_size=32k in/{name}.raw out/{name}.qcow2",
    ),
    "vdi": (
        "vmdk",
        "A colleague sent `/work/in/{name}.vmdk`; the other hypervisor here wants VDI. Produce /work/out/{name}.vdi, "
        "dynamically growing (image type 1, not preallocated), with the same disk in it.",
        "qemu-img convert -O vdi in/{name}.vmdk out/{name}.vdi",
        "qemu-img convert -O vdi -o static=on in/{name}.vmdk out/{name}.vdi",
    ),
    "vhd": (
        "vdi",
        "For an upload we need the disk in `/work/in/{name}.vdi` as a *fixed* VHD, /work/out/{name}.vhd: the disk's "
        "bytes followed by the 512-byte footer, whose current size must be exactly the size of the source disk "
        "(no rounding to cylinders).",
        "qemu-img convert -O vpc -o subformat=fixed,force_size=on in/{name}.vdi out/{name}.vhd",
        "qemu-img convert -O vpc -o subformat=dynamic,force_size=on in/{name}.vdi out/{name}.vhd",
    ),
}


def convert_image(seed: int, context: Context) -> Draft:
    """One image format into another one, with its options."""
    rng = chance("qemu", "convert_image", seed)
    target = list(_TARGETS)[seed % len(_TARGETS)]
    source, said, command, tempting = _TARGETS[target]
    name = rng.choice(["atlas", "birch", "cobalt", "delta"])
    size = rng.randint(5, 9) * _MIB + rng.randint(1, 100) * 512
    writes = _patterns(rng, 14, size)
    path = f"in/{name}.{source}"
    ends = {"raw": "img"}.get(target, target)
    out = f"out/{name}.{ends}"
    made = f"qemu-img create -q -f {source} {path} {size}"
    back = {"raw": "raw", "vhd": "vpc"}.get(target, target)
    option = {"qcow2": "-c -o cluster_size=32k", "vhd": "-o subformat=fixed,force_size=on"}.get(target, "")
    return Draft(
        family="convert_image",
        seed=seed,
        difficulty="easy",
        instruction=said.format(name=name) + " Leave the source as it is; the folder /work/out exists.",
        setup=("mkdir in out", made, _written(path, writes, source)),
        solution=(command.format(name=name),),
        right=(
            Variant(
                name="through_raw",
                commands=(
                    f"qemu-img convert -f {source} -O raw in/{name}.{source} /tmp/plain.bin",
                    f"qemu-img convert -f raw -O {back} {option} /tmp/plain.bin {out}",
                ),
            ),
        ),
        weak=(
            Variant(name="tempting", commands=(tempting.format(name=name),)),
            Variant(name="empty_disk", commands=(f"qemu-img create -f {back} {out} {size}",)),
            Variant(
                name="container_taken_for_data",
                commands=(
                    f"head -c {size} in/{name}.{source} > /tmp/x && truncate -s {size - 512} /tmp/x",
                    f"qemu-img convert -f raw -O {back} {option} /tmp/x {out}",
                ),
            ),
        ),
        verifier=filled(
            image_checks.CONVERTED[target],
            path=f"/work/{out}",
            size=size,
            digest=hashlib.sha256(_disk(size, writes)).hexdigest(),
        ),
    )


def backing_chain(seed: int, context: Context) -> Draft:
    """Overlays over overlays: drop one, fold one in, find a moved base again, make one stand alone."""
    rng = chance("qemu", "backing_chain", seed)
    size = 8 * _MIB
    layers = [_patterns(rng, 6, size, 4 * _KIB) for _ in range(3)]
    base = _disk(size, layers[0])
    middle = _disk(size, layers[1], base)
    top = _disk(size, layers[2], middle)
    first, second, third = rng.choice(
        [("golden", "patched", "alice"), ("debian", "tools", "ci-7"), ("os", "app", "run")]
    )
    names = {"base": first, "middle": second, "top": third}
    sums = {n: hashlib.sha256(d).hexdigest() for n, d in (("base", base), ("middle", middle), ("top", top))}
    made: tuple[str, ...] = (
        "mkdir chain",
        f"qemu-img create -q -f qcow2 chain/{first}.qcow2 {size}",
        _written(f"chain/{first}.qcow2", layers[0]),
        f"cd chain && qemu-img create -q -f qcow2 -b {first}.qcow2 -F qcow2 {second}.qcow2",
        _written(f"{second}.qcow2", layers[1]),
        f"qemu-img create -q -f qcow2 -b {second}.qcow2 -F qcow2 {third}.qcow2",
        _written(f"{third}.qcow2", layers[2]),
        "cd ..",
    )
    job = _CHAIN_JOBS[seed % len(_CHAIN_JOBS)]
    fill = {**names, "dir": "/work/chain"}
    if job["moved"]:
        made = (*made, f"mkdir pool && mv chain/{first}.qcow2 pool/")
    own = {name: _clusters(writes) for name, writes in zip(("base", "middle", "top"), layers, strict=True)}
    own["top"] |= own["middle"] if not job["moved"] else set()
    if job is _CHAIN_JOBS[1]:
        own["top"] = _clusters(layers[2])
    expected = {
        place.format(**fill): [backing and backing.format(**fill), sums[content], _most(place, backing, own)]
        for place, (backing, content) in job["after"].items()
    }
    return Draft(
        family="backing_chain",
        seed=seed,
        difficulty="hard" if job["moved"] else "medium",
        instruction=job["said"].format(**fill),
        setup=made,
        solution=tuple(c.format(**fill) for c in job["solution"]),
        right=(Variant(name="another_way", commands=tuple(c.format(**fill) for c in job["right"])),),
        weak=tuple(Variant(name=n, commands=tuple(c.format(**fill) for c in cs)) for n, cs in job["weak"].items()),
        verifier=filled(
            image_checks.CHAIN, images=expected, gone=[p.format(**fill) for p in job["gone"]], cluster=64 * _KIB
        ),
    )


_CHAIN_JOBS = chains.CHAIN_JOBS


def _clusters(writes: Writes) -> set[int]:
    return {at // (64 * _KIB) for _, offset, length in writes for at in range(offset, offset + length, 4 * _KIB)}


def _most(place: str, backing: str | None, own: dict[str, set[int]]) -> int:
    """How many clusters an image may store: its own changes, or all where it stands alone."""
    return 8 * _MIB // (64 * _KIB) if backing is None else len(own["top" if "{top}" in place else "middle"])


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat")


def restore_snapshot(seed: int, context: Context) -> Draft:
    """The last internal snapshot whose ledger is in order becomes the disk again."""
    rng = chance("qemu", "restore_snapshot", seed)
    kind = list(_LEDGERS)[seed % len(_LEDGERS)]
    good = rng.randint(1, 3)
    rows = [(rng.choice(_PAYEES), rng.randint(-900, 900)) for _ in range(30)]
    # One later evening looks right again: a search from the end finds that one.
    sound = {*range(good + 1), rng.randint(good + 2, len(_DAYS) - 1)}
    texts = [_ledger(kind, rows[: 10 + 3 * day], day not in sound, rng) for day in range(len(_DAYS) + 1)]
    disk = 2 * _MIB
    steps = [f"qemu-img create -q -f qcow2 books.qcow2 {disk}"]
    for number, text in enumerate(texts):
        steps.append(f"printf %s {json.dumps(text.encode().hex())} | xxd -r -p > /tmp/l && truncate -s 4096 /tmp/l")
        steps.append("qemu-io -f qcow2 -c 'write -q -s /tmp/l 65536 4096' books.qcow2")
        if number < len(_DAYS):
            steps.append(f"qemu-img snapshot -c {_DAYS[number]} books.qcow2")
    after = [*_DAYS[: good + 1], "restored"]
    later = " && ".join(f"qemu-img snapshot -d {d} books.qcow2" for d in _DAYS[good + 1 :])
    go = f"qemu-img snapshot -a {_DAYS[good]} books.qcow2"
    new = "qemu-img snapshot -c restored books.qcow2"
    wrong = _DAYS[good + 1]
    return Draft(
        family="restore_snapshot",
        seed=seed,
        difficulty="hard" if kind in ("crc", "gaps") else "medium",
        instruction=f"Our bookkeeping machine keeps its ledger on /work/books.qcow2 (2 MiB, no partition "
        f"table): UTF-8 text "
        f"in the 4096 bytes that start at byte 65536 of the disk, filled up with zero bytes. {_LEDGERS[kind]} "
        f"A snapshot was "
        "taken inside the image every evening, mon to sat, and somewhere during the week the ledger broke; do not "
        "trust a later one that looks right again, because it was built on a broken day. Find the last evening before "
        "the first broken ledger, make the disk's current contents those of that snapshot, delete every later snapshot "
        "and keep the earlier ones (and that one), then take one more snapshot called `restored` of the "
        "result. Keep the file "
        "name and the format, and leave the image readable for the tools of the hypervisor.",
        setup=(*steps, "rm /tmp/l"),
        solution=(
            "for d in mon tue wed thu fri sat; do echo $d; qemu-img convert -l $d -O raw books.qcow2 /tmp/$d.raw; "
            "tail -c +65537 /tmp/$d.raw | head -c 4096 | tr -d '\\0' | tail -n 3; done",
            go,
            later,
            new,
        ),
        right=(Variant(name="other_order", commands=(later, go, new, "qemu-img check books.qcow2")),),
        weak=(
            Variant(name="first_broken_kept", commands=(f"qemu-img snapshot -a {wrong} books.qcow2", new)),
            Variant(name="not_applied", commands=(later, new)),
            Variant(name="later_ones_left", commands=(go, new)),
            Variant(
                name="looks_right_again", commands=(f"qemu-img snapshot -a {_DAYS[max(sound)]} books.qcow2", later, new)
            ),
            Variant(name="oldest", commands=(f"qemu-img snapshot -a mon books.qcow2 && {later}", new)),
        ),
        verifier=filled(image_checks.SNAPSHOTS, names=after, ledger=texts[good], size=disk),
    )


_PAYEES = ("rent", "paper", "tea", "server", "post", "travel", "licence", "repair")
_LEDGERS = {
    "total": "Each line is `payee;cents`, the last line is `TOTAL;` and the sum of all cents above it.",
    "crc": "Each line is `payee;cents;check`, where check is the CRC-32 (as in zlib, eight lower-case hex "
    "digits) of the text before its "
    "second semicolon.",
    "gaps": "Each line is `number;payee;cents;balance`: numbers count up from 1 without a gap, and the "
    "balance is the running sum "
    "of the cents up to and including the line.",
    "double": "Each line is `number;debit or credit;payee;cents` with positive cents; every number stands on "
    "exactly two lines, "
    "one debit and one credit, of equal cents.",
}


def _ledger(kind: str, rows: Sequence[tuple[str, int]], damaged: bool, rng: random.Random) -> str:
    hurt = rng.randrange(2, len(rows) - 1) if damaged else -1
    return image_checks.ledger(kind, rows, hurt)


def changed_sectors(seed: int, context: Context) -> Draft:
    """Which sectors differ between two images of different formats."""
    rng = chance("qemu", "changed_sectors", seed)
    old_format, new_format = (("vmdk", "qcow2"), ("qcow2", "vdi"), ("raw", "vhdx"), ("vdi", "raw"))[seed % 4]
    sectors = rng.randint(6, 10) * 2048
    common = [(b, o * 512, n * 512) for b, o, n in _runs(rng, 10, sectors, 900)]
    fresh = [(b, o * 512, n * 512) for b, o, n in _runs(rng, 9, sectors, 40)]
    wiped = [(0, common[3][1], 1536), (0, common[7][1] + 512, 512)]
    # A written neighbour of what was cleared, and a write that changes nothing.
    touched = [(common[3][0] % 255 + 1, common[3][1] + 1536, 1024), (common[0][0], common[0][1], 512)]
    size = sectors * 512
    before = _disk(size, common)
    after = _disk(size, [*fresh, *wiped, *touched], before)
    differing = [n for n in range(sectors) if before[n * 512 : n * 512 + 512] != after[n * 512 : n * 512 + 512]]
    kinds = {n: "cleared" if not any(after[n * 512 : n * 512 + 512]) else "written" for n in differing}
    as_json = seed % 2 == 0
    expected = _ranges(differing, kinds)
    script = image_checks.DIFFERENCE.replace("AS_JSON", str(as_json))
    convert = " && ".join(
        f"qemu-img convert -f {image_format} -O raw {name}.{image_format} /tmp/{copy}"
        for name, image_format, copy in (("old", old_format, "a"), ("new", new_format, "b"))
    )
    form = (
        'a JSON array in /work/changes.json of objects {"first": n, "count": n, "kind": "written" or "cleared"}'
        if as_json
        else "a CSV file /work/changes.csv with the header first,count,kind and one line per run "
        "(kind is written or cleared)"
    )
    target = "changes.json" if as_json else "changes.csv"
    return Draft(
        family="changed_sectors",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"Incremental backups need a list of what changed on a disk between /work/old.{old_format} and "
        f"/work/new.{new_format}. Compare what the guest sees, not the files: sector numbers count 512-byte "
        f"sectors from 0 on the "
        f"virtual disk. Give me {form}. A run is a longest stretch of neighbouring differing sectors of the same kind: "
        "cleared when the new sector is all zero bytes, otherwise written (so a cleared and a written "
        "neighbour are two runs). Order "
        "the runs by their first sector, leave out sectors whose bytes are the same even if a tool stored them again, "
        "and do not modify the two images.",
        setup=(
            f"qemu-img create -q -f {old_format} old.{old_format} {size}",
            _written(f"old.{old_format}", common, old_format),
            f"qemu-img convert -f {old_format} -O {new_format} old.{old_format} new.{new_format}",
            _written(f"new.{new_format}", [*fresh, *wiped, *touched], new_format),
        ),
        solution=(convert, f"cat > /tmp/d.py <<'E'\n{script}E", f"python3 /tmp/d.py > {target}"),
        right=(
            Variant(
                name="through_another_format",
                commands=(
                    convert.replace("-O raw", "-O qcow2").replace("/tmp/a", "/tmp/a.q").replace("/tmp/b", "/tmp/b.q"),
                    "qemu-img convert -O raw /tmp/a.q /tmp/a && qemu-img convert -O raw /tmp/b.q /tmp/b",
                    f"cat > /tmp/d.py <<'E'\n{script}E",
                    f"python3 /tmp/d.py > /work/{target}",
                ),
            ),
        ),
        weak=(
            Variant(
                name="kinds_not_split",
                commands=(
                    convert,
                    f"cat > /tmp/d.py <<'E'\n{script.replace('kind != last[2]', 'False')}E",
                    f"python3 /tmp/d.py > {target}",
                ),
            ),
            Variant(
                name="in_clusters",
                commands=(
                    convert,
                    f"cat > /tmp/d.py <<'E'\n{script.replace('SIZE = 512', 'SIZE = 4096')}E",
                    f"python3 /tmp/d.py > {target}",
                ),
            ),
            Variant(
                name="files_compared",
                commands=(
                    f"cp old.{old_format} /tmp/a && cp new.{new_format} /tmp/b",
                    f"cat > /tmp/d.py <<'E'\n{script}E",
                    f"python3 /tmp/d.py > {target}",
                ),
            ),
        ),
        verifier=filled(image_checks.CHANGES, expected=expected, as_json=as_json, total=len(differing)),
    )


def _runs(rng: random.Random, count: int, sectors: int, longest: int) -> Writes:
    """Byte, first sector and number of sectors."""
    made = []
    for _ in range(count):
        length = rng.randint(4, longest)
        made.append((rng.randint(1, 255), rng.randrange(0, sectors - length), length))
    return made


def _ranges(differing: Sequence[int], kinds: dict[int, str]) -> list[list[object]]:
    runs: list[tuple[int, int, str]] = []
    for number in differing:
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] == kinds[number]:
            first, count, kind = runs[-1]
            runs[-1] = (first, count + 1, kind)
        else:
            runs.append((number, 1, kinds[number]))
    return [list(run) for run in runs]
