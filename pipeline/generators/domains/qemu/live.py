"""Tasks on the disk of a running guest: overlays, copies and moves between two of its writes, by its monitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant


class _Job(TypedDict):
    """One operation between the first and the second pair of writes."""

    said: str
    disk: str
    """What the guest is started with."""
    operation: Sequence[str]
    after: Mapping[str, tuple[str, str | None, str]]
    """By path: format, backing file, and which writes it shows."""


_WAIT_READY = "until guest-qmp query-block-jobs | grep -q '\"ready\": true'; do sleep 0.2; done"
_WAIT_GONE = "until [ \"$(guest-qmp query-block-jobs | tr -d '[:space:]')\" = '' ]; do sleep 0.2; done"
_FINISH = f'{_WAIT_READY}; guest-qmp block-job-complete \'{{"device": "job"}}\'; {_WAIT_GONE}'

_JOBS: Sequence[_Job] = (
    {
        "said": "switch its disk to a new overlay /work/after.qcow2 (qcow2, over data.img), so that data.img "
        "is frozen as it "
        "is at this moment and everything later goes to the overlay",
        "disk": "data.img",
        "operation": (
            'guest-qmp blockdev-snapshot-sync \'{"node-name": "disk0", "snapshot-file": "/work/after.qcow2", '
            '"snapshot-node-name": "over", "format": "qcow2"}\'',
        ),
        "after": {"/work/data.img": ("raw", None, "early"), "/work/after.qcow2": ("qcow2", "/work/data.img", "late")},
    },
    {
        "said": "take a complete copy of its disk as /work/backup.qcow2 (qcow2, without a backing file), as "
        "the disk is at this "
        "moment, while the guest goes on with data.img",
        "disk": "data.img",
        "operation": (
            'guest-qmp drive-backup \'{"job-id": "job", "device": "disk0", "target": "/work/backup.qcow2", '
            '"sync": "full", "format": "qcow2"}\'',
            _WAIT_GONE,
        ),
        "after": {"/work/data.img": ("raw", None, "late"), "/work/backup.qcow2": ("qcow2", None, "early")},
    },
    {
        "said": "move its disk to the new image /work/moved.qcow2 (qcow2, without a backing file): the guest "
        "must use only that one from "
        "then on, and data.img stays behind as it is at this moment",
        "disk": "data.img",
        "operation": (
            'guest-qmp drive-mirror \'{"job-id": "job", "device": "disk0", "target": "/work/moved.qcow2", '
            '"sync": "full", "format": "qcow2"}\'',
            _FINISH,
        ),
        "after": {"/work/data.img": ("raw", None, "early"), "/work/moved.qcow2": ("qcow2", None, "late")},
    },
    {
        "said": "fold its overlay /work/work.qcow2 (over data.img; the guest is to be started with it) into "
        "data.img, and let "
        "the guest go on with data.img alone, so that work.qcow2 gets none of the later writes",
        "disk": "work.qcow2",
        "operation": ('guest-qmp block-commit \'{"job-id": "job", "device": "disk0"}\'', _FINISH),
        "after": {"/work/data.img": ("raw", None, "late")},
    },
)

_VERIFIER = """
import subprocess

# By path: format, backing file, and what stands where.
DISKS = __DISKS__
SIZE = 1048576


def converted(path, target):
    command = ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, str(target)]
    subprocess.run(command, timeout=20, check=True)
    return target.read_bytes()


def test_formats_and_backing_files(box):
    heads = {path: box.read(path) for path in DISKS}
    for path, (image_format, backing, _) in DISKS.items():
        assert (heads[path][:4] == b"QFI\\xfb") == (image_format == "qcow2")
        start = int.from_bytes(heads[path][8:16], "big") if image_format == "qcow2" else 0
        length = int.from_bytes(heads[path][16:20], "big") if start else 0
        name = heads[path][start : start + length].decode().removeprefix("file:") if start else None
        assert name in ({None} if backing is None else {backing, backing.rpartition("/")[2]})
    assert all(heads.values())


def test_every_disk_shows_its_moment(box, tmp_path):
    shown = {path: box.read(path) for path, (image_format, _, _) in DISKS.items() if image_format == "raw"}
    for path in DISKS.keys() - shown.keys():
        shown[path] = converted(path, tmp_path / "plain")
    expected = {}
    for path, (_, _, writes) in DISKS.items():
        disk = bytearray(SIZE)
        for at, text in writes:
            disk[at : at + len(text)] = text.encode()
        expected[path] = bytes(disk)
    assert [path for path in DISKS if shown[path] != expected[path]] == []
"""


def live_disk(seed: int, context: Context) -> Draft:
    """Something is done with the disk of a running guest at one moment between its writes."""
    rng = chance("qemu", "live_disk", seed)
    job = _JOBS[seed % len(_JOBS)]
    places = rng.sample(range(0, 2048, 8), 3)
    texts = [
        f"{word}-{rng.getrandbits(40):010x}" for word in rng.sample(["amber", "basil", "cedar", "ember", "olive"], 4)
    ]
    early = [(places[0], texts[0]), (places[1], texts[1])]
    late = [(places[1], texts[2]), (places[2], texts[3])]
    moments = {"early": early, "late": [*early, *late]}
    first, second = _writing(early), _writing(late)
    start, end = f"guest-start {job['disk']}", "guest-qmp quit"
    said = [f"`{text}` at sector {sector}" for sector, text in (*early, *late)]
    overlay = "qemu-img create -q -f qcow2 -b data.img -F raw work.qcow2"
    unsynced = first.replace(" conv=fsync", "")
    return Draft(
        family="live_disk",
        seed=seed,
        difficulty="hard" if seed >= 2 else "medium",
        instruction="A drill for our operators: one guest (/opt/guest/README), one disk, no downtime. Start "
        "the guest with the raw disk /work/data.img (1 MiB, all zero)"
        + (" below its overlay work.qcow2" if job["disk"] != "data.img" else "")
        + f" and let it write, on its first disk and without file system or line ends, the text "
        f"{said[0]}, then {said[1]} (sectors of 512 bytes; a text begins at the first byte of its sector). When that "
        "has reached the disk, and with the "
        f"guest still running, {job['said']}. "
        f"After this the same guest writes {said[2]} and {said[3]}, and is ended when everything is on disk. "
        f"Bytes that were never written stay zero. I shall "
        f"look at {' and '.join(job['after'])}; keep the absolute path or the bare file name as reference to a "
        f"backing file, where there is one.",
        setup=("truncate -s 1M data.img", *([overlay] if job["disk"] != "data.img" else [])),
        solution=(start, first, *job["operation"], second, end),
        right=(
            Variant(
                name="raw_writes_by_one_shell",
                commands=(
                    start.replace("guest-start", "COLD=1 guest-start -d /run/guest -s /opt/guest/booted.qcow2"),
                    first.replace(" conv=fsync", "")
                    .replace("guest-console '", "guest-console 'sync; ")
                    .removesuffix("'")
                    + "; sync'",
                    *job["operation"],
                    second,
                    end,
                ),
            ),
        ),
        weak=(
            Variant(name="nothing_in_between", commands=(start, first, second, end)),
            Variant(name="too_late", commands=(start, first, second, *job["operation"], end))
            if "work" not in job["disk"]
            else Variant(name="stopped_before", commands=(start, first, end, "qemu-img commit -q work.qcow2")),
            Variant(name="second_half_left_out", commands=(start, first, *job["operation"], end)),
            Variant(
                name="wrong_unit", commands=(start, unsynced.replace("bs=512", "bs=1"), *job["operation"], second, end)
            ),
        ),
        verifier=filled(
            _VERIFIER,
            disks={
                path: [image_format, backing, [[sector * 512, text] for sector, text in moments[moment]]]
                for path, (image_format, backing, moment) in job["after"].items()
            },
        ),
    )


def _writing(writes: Sequence[tuple[int, str]]) -> str:
    parts = [
        f"printf %s {text} | dd of=/dev/vda bs=512 seek={sector} conv=fsync 2>/dev/null" for sector, text in writes
    ]
    return f"guest-console '{'; '.join(parts)}'"
