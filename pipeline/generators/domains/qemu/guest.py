"""Tasks in the booted guest: run a job there, get files out of its memory, find a key in it."""

from __future__ import annotations

import csv
import hashlib
import io
import random
import zlib
from collections.abc import Callable, Sequence

from pipeline.generators.domains.qemu import guest_checks
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_QUIT = "guest-qmp quit"


def guest_batch(seed: int, context: Context) -> Draft:
    """A job that lies on a disk runs in the guest; its output comes back to the host."""
    rng = chance("qemu", "guest_batch", seed)
    table = context.text("penguins/penguins.csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    kept = sorted(rng.sample(range(len(rows)), 120))
    columns = list(rows[0])
    text = "\n".join([",".join(columns), *(",".join(rows[n].values()) for n in kept)]) + "\n"
    chosen = [rows[n] for n in kept]
    job, printed = _JOBS[seed % len(_JOBS)](rng, columns, chosen, text)
    kib = rng.randint(2100, 3900)
    script = (
        '#!/bin/sh\n[ "$(hostname)" = guest ] || exit 3\ncd "$(dirname "$0")"\n'
        'echo "host $(hostname)"\necho "sectors $(cat /sys/class/block/vda/size)"\n' + job
    )
    expected = f"host guest\nsectors {kib * 2}\n{printed}"
    carried_out = "mount /dev/vda /mnt && sh /mnt/job.sh > /mnt/result.txt && cat /mnt/result.txt"
    run = f"guest-console '{carried_out}' > result.txt"
    ended = "guest-console 'umount /mnt'"
    return Draft(
        family="guest_batch",
        seed=seed,
        difficulty="easy",
        instruction="The job on the ext2 disk image /work/job.img (no partition table) has to run inside the "
        "small guest that /opt/guest/README "
        "describes, with that image plugged in as its first disk and mounted at /mnt. There, execute job.sh with sh. "
        "What it prints to standard output must end up twice: as /work/result.txt on this machine, and as "
        "result.txt in the top folder "
        "of the image itself, byte for byte the same (LF line ends). Leave the other files of the image "
        "alone, and the image "
        "cleanly unmounted.",
        files=(TaskFile(path="/work/stage/job.sh", text=script), TaskFile(path="/work/stage/penguins.csv", text=text)),
        setup=(f"mke2fs -q -t ext2 -d stage job.img {kib}k", "rm -r stage"),
        solution=("guest-start job.img", run, ended, _QUIT),
        right=(
            Variant(
                name="cold_boot",
                commands=(
                    "COLD=1 guest-start -d /tmp/vm -s /opt/guest/booted.qcow2 /work/job.img",
                    "guest-console -d /tmp/vm 'mount -t ext2 /dev/vda /mnt; cd /mnt; sh job.sh | tee /tmp/r; "
                    "cp /tmp/r result.txt; cd /; sync; "
                    "umount /mnt' > /work/result.txt",
                    "guest-qmp -d /tmp/vm quit",
                ),
            ),
        ),
        weak=(
            Variant(
                name="on_the_host",
                commands=(
                    "debugfs -R 'rdump / /tmp' job.img && sed -i 2d /tmp/job.sh && cd /tmp && sh job.sh > "
                    "/work/result.txt",
                    "cd /work && debugfs -w -R 'write result.txt result.txt' job.img",
                ),
            ),
            Variant(
                name="not_on_the_disk",
                commands=(
                    "guest-start job.img",
                    "guest-console 'mount /dev/vda /mnt; sh /mnt/job.sh' > result.txt",
                    _QUIT,
                ),
            ),
            Variant(
                name="second_disk",
                commands=(
                    "truncate -s 1M x.img",
                    "guest-start x.img job.img",
                    run.replace("vda", "vdb"),
                    "guest-console 'umount /mnt'",
                    _QUIT,
                ),
            ),
        ),
        verifier=filled(
            guest_checks.BATCH, expected=expected, sums={"job.sh": _sum(script), "penguins.csv": _sum(text)}
        ),
        contexts=("penguins",),
    )


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_Rows = Sequence[dict[str, str]]
_Job = Callable[[random.Random, list[str], _Rows, str], tuple[str, str]]
"""Makes a job: its commands, and what they print."""


def _counted(rng: random.Random, columns: list[str], rows: _Rows, text: str) -> tuple[str, str]:
    name = rng.choice(["species", "island"])
    at = columns.index(name) + 1
    counts = {value: sum(row[name] == value for row in rows) for value in {row[name] for row in rows}}
    job = f"awk -F, 'NR > 1 {{ n[${at}]++ }} END {{ for (k in n) print k, n[k] }}' penguins.csv | sort\n"
    return job, "".join(f"{value} {counts[value]}\n" for value in sorted(counts))


def _weighed(rng: random.Random, columns: list[str], rows: _Rows, text: str) -> tuple[str, str]:
    year = rng.choice(["2007", "2008", "2009"])
    mass, when = columns.index("body_mass_g") + 1, columns.index("year") + 1
    grams = [int(r["body_mass_g"]) for r in rows if r["year"] == year and r["body_mass_g"] not in ("NA", "")]
    told = 'END { printf "%d birds, %d g\\n", n, g }'
    job = f"awk -F, '${when} == {year} && ${mass} + 0 > 0 {{ n++; g += ${mass} }} {told}' penguins.csv\n"
    return job, f"{len(grams)} birds, {sum(grams)} g\n"


def _chained(rng: random.Random, columns: list[str], rows: _Rows, text: str) -> tuple[str, str]:
    rounds = rng.randint(20, 60)
    last = _sum(text)
    for number in range(rounds):
        last = hashlib.sha256(f"{last} {number}\n".encode()).hexdigest()
    job = (
        f"h=$(sha256sum < penguins.csv | cut -c1-64)\ni=0\nwhile [ $i -lt {rounds} ]; do\n"
        '    h=$(echo "$h $i" | sha256sum | cut -c1-64)\n    i=$((i + 1))\ndone\necho "seal $h"\n'
    )
    return job, f"seal {last}\n"


def _picked(rng: random.Random, columns: list[str], rows: _Rows, text: str) -> tuple[str, str]:
    step = rng.randint(7, 13)
    lines = text.splitlines()
    picked = [lines[n - 1].upper()[::-1] for n in range(step, len(lines) + 1, step)]
    return f"awk 'NR % {step} == 0' penguins.csv | tr a-z A-Z | rev\n", "".join(f"{line}\n" for line in picked)


_JOBS: Sequence[_Job] = (_counted, _weighed, _chained, _picked)


def suspended(commands: str, *, deaf: str = "") -> tuple[str, ...]:
    """Setup: a guest in which the commands ran, saved as the snapshot `suspended` of /work/machine.qcow2."""
    last = (f"guest-console -d /tmp/m -t 2 {_quoted(deaf)} > /dev/null 2>&1 || true",) if deaf else ()
    return (
        "cp /opt/guest/booted.qcow2 machine.qcow2",
        "guest-start -d /tmp/m -s machine.qcow2",
        f"guest-console -d /tmp/m {_quoted(commands)}",
        *last,
        """guest-qmp -d /tmp/m human-monitor-command '{"command-line": "savevm suspended"}'""",
        "guest-qmp -d /tmp/m quit",
        "qemu-img snapshot -d booted machine.qcow2",
        "rm -r /tmp/m",
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def rescue_ramdisk(seed: int, context: Context) -> Draft:
    """Files that exist only in the memory of a suspended guest are brought out onto a disk."""
    rng = chance("qemu", "rescue_ramdisk", seed)
    names = sorted(
        rng.sample(
            ["ALPHA.LOG", "BRAVO.TXT", "DELTA.CSV", "ECHO.DAT", "HOTEL.LOG", "KILO.TXT", "LIMA.CSV", "TANGO.DAT"], 4
        )
    )
    texts = {
        name: "".join(
            f"{rng.choice(['in', 'out', 'hold'])} {rng.randint(1000, 99999)}\n" for _ in range(rng.randint(9, 30))
        )
        for name in names
    }
    spool = rng.choice(["/srv/spool", "/tmp/queue", "/run/outbox"])
    put = "\n".join(f"cat > {spool}/{name} <<X\n{text}X\ngzip {spool}/{name}" for name, text in texts.items())
    form = list(guest_checks.RESCUED)[seed % len(guest_checks.RESCUED)]
    said, on_host, in_guest, half = _FORMS[form]
    fill = {"spool": spool, "names": " ".join(names), "first": names[0]}
    start = "guest-start -s machine.qcow2 -n suspended rescue.img"
    unpack = f"guest-console 'cd {spool} && gunzip *.gz'"
    return Draft(
        family="rescue_ramdisk",
        seed=seed,
        difficulty="medium",
        instruction=f"Before the power cut, our guest was suspended: /work/machine.qcow2 holds the snapshot "
        f"`suspended` of it (the usual "
        f"machine of /opt/guest/README). Its folder {spool} is a RAM disk, so the four gzip files in it "
        f"(NAME.gz) exist nowhere else. Resume the "
        f"guest, and bring them out, uncompressed and named without .gz, on a new raw disk image "
        f"/work/rescue.img of exactly 1 MiB. {said} "
        "The guest must have written everything out before you end it; end it when you are done.",
        setup=suspended(f"mkdir -p {spool}\n{put}\nls {spool}"),
        solution=(
            f"truncate -s 1M rescue.img{on_host}",
            start,
            unpack,
            f"guest-console '{in_guest.format(**fill)}; sync'",
            _QUIT,
        ),
        right=(
            Variant(
                name="into_a_folder_first",
                commands=(
                    "cp machine.qcow2 /tmp/copy.qcow2",
                    f"truncate -s 1M rescue.img{on_host}",
                    "guest-start -d /tmp/r -s /tmp/copy.qcow2 -n suspended rescue.img",
                    f"guest-console -d /tmp/r 'mkdir /tmp/o; cd {spool}; for f in *.gz; do zcat $f > "
                    f"/tmp/o/${{f%.gz}}; done'",
                    f"guest-console -d /tmp/r '{in_guest.format(**{**fill, 'spool': '/tmp/o'})}; sync'",
                    "guest-qmp -d /tmp/r quit",
                ),
            ),
        ),
        weak=(
            Variant(
                name="still_packed",
                commands=(
                    f"truncate -s 1M rescue.img{on_host}",
                    start,
                    f"guest-console '{in_guest.format(**fill).replace(' ' + fill['names'], ' *')}; sync'",
                    _QUIT,
                ),
            ),
            Variant(
                name="first_only",
                commands=(
                    f"truncate -s 1M rescue.img{on_host}",
                    start,
                    unpack,
                    f"guest-console '{half.format(**fill)}; sync'",
                    _QUIT,
                ),
            ),
            Variant(
                name="another_guest",
                commands=(
                    f"truncate -s 1M rescue.img{on_host}",
                    "guest-start rescue.img",
                    f"guest-console 'mkdir -p {spool}; {in_guest.format(**fill)}; sync'",
                    _QUIT,
                ),
            ),
        ),
        verifier=filled(guest_checks.RESCUED[form], texts=texts),
    )


_FORMS = {
    "tar": (
        "Write a tar archive straight to the raw disk, from its first byte, with the four files as its only "
        "members (bare names, no folder).",
        "",
        "cd {spool} && tar cf /dev/vda {names}",
        "cd {spool} && tar cf /dev/vda {first}",
    ),
    "fat": (
        "Make it one FAT volume (FAT12 or FAT16, no partition table) with the four files in its top folder.",
        " && mkfs.fat -n RESCUE rescue.img > /dev/null",
        "mkdir -p /mnt && mount -t vfat /dev/vda /mnt && cd {spool} && cp {names} /mnt/ && cd / && umount /mnt",
        "mkdir -p /mnt && mount -t vfat /dev/vda /mnt && cd {spool} && cp {first} /mnt/ && cd / && umount /mnt",
    ),
    "slots": (
        "There is to be no file system: in alphabetical order of their names, the contents of the four files "
        "begin at the bytes 0, 65536, 131072 and "
        "196608 of the disk; all other bytes stay zero.",
        "",
        "cd {spool} && n=0 && for f in {names}; do dd if=$f of=/dev/vda bs=65536 seek=$n conv=notrunc "
        "2>/dev/null; n=$((n+1)); done",
        "cd {spool} && dd if={first} of=/dev/vda bs=65536 conv=notrunc 2>/dev/null",
    ),
    "cpio": (
        "Write a cpio archive in the `newc` format straight to the raw disk, from its first byte, with the "
        "four files as its only members (bare names).",
        "",
        "cd {spool} && ls {names} | cpio -o -H newc > /dev/vda",
        "cd {spool} && echo {first} | cpio -o -H newc > /dev/vda",
    ),
}


def memory_key(seed: int, context: Context) -> Draft:
    """A key that only the memory of a guest without a usable console holds opens a sealed file."""
    rng = chance("qemu", "memory_key", seed)
    form = seed % 4
    key = rng.randbytes(16)
    records = [guest_checks.record(form, key, sound=True)]
    records += [guest_checks.record(form, rng.randbytes(16), sound=False) for _ in range(12)]
    rng.shuffle(records)
    number = f"{rng.randint(10**9, 10**10 - 1)}"
    town = rng.choice(["Oslo", "Porto", "Graz"])
    text = (
        f"Locker {rng.randint(10, 99)}, shelf {rng.choice('ABCDE')}: the ledger of {town} is under number {number}.\n"
    )
    sealed = guest_checks.seal(form, key, text.encode())
    hold = "\n".join(f"echo '{record}'" for record in records)
    find = guest_checks.FIND.replace("FORM", str(form))
    dump = (
        "guest-start -d /tmp/k -s machine.qcow2 -n suspended -p",
        """guest-qmp -d /tmp/k pmemsave '{"val": 0, "size": 100663296, "filename": "/tmp/memory.bin"}'""",
        "guest-qmp -d /tmp/k quit",
        f"cat > /tmp/find.py <<'E'\n{find}E",
    )
    return Draft(
        family="memory_key",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"/work/machine.qcow2 has a snapshot `suspended` of our guest (machine options as in "
        f"/opt/guest/README). Its console is "
        f"dead, nobody can log in, but a key is still somewhere in its 96 MiB of physical memory, as ASCII "
        f"text in one piece: {guest_checks.RECORDS[form]} "
        f"Records whose check does not fit are traps or left-overs; exactly one key has a right one. "
        f"/work/sealed.bin was made with that key: "
        f"{guest_checks.SEALS[form]} Open it and write the plain text (one line, ending in LF) to "
        f"/work/opened.txt, and the key as 32 lower-case hex digits and "
        "an LF to /work/key.txt.",
        setup=(
            *suspended(
                f"({hold}) > /run/cache; wc -l /run/cache", deaf="trap '' INT QUIT TSTP; while :; do sleep 1000; done"
            ),
            f"printf {sealed.hex()} | xxd -r -p > sealed.bin",
        ),
        solution=(*dump, "python3 /tmp/find.py /tmp/memory.bin"),
        right=(
            Variant(
                name="core_dump",
                commands=(
                    "guest-start -d /tmp/k -s machine.qcow2 -n suspended -p",
                    """guest-qmp -d /tmp/k dump-guest-memory '{"paging": false, "protocol": "file:/tmp/core"}'""",
                    "guest-qmp -d /tmp/k quit",
                    f"cat > /tmp/find.py <<'E'\n{find}E",
                    "python3 /tmp/find.py /tmp/core",
                ),
            )
            if form % 2
            else Variant(name="state_file", commands=(dump[-1], "python3 /tmp/find.py machine.qcow2")),
        ),
        weak=(
            Variant(
                name="any_record",
                commands=(
                    *dump[:3],
                    dump[3].replace("if fits(", "if not fits("),
                    "python3 /tmp/find.py /tmp/memory.bin",
                ),
            ),
            Variant(
                name="key_only", commands=(*dump, "python3 /tmp/find.py /tmp/memory.bin && cp sealed.bin opened.txt")
            ),
            Variant(
                name="half_opened",
                commands=(
                    *dump[:3],
                    dump[3].replace("enumerate(sealed)", "enumerate(sealed[:16])"),
                    "python3 /tmp/find.py /tmp/memory.bin",
                ),
            ),
        ),
        verifier=filled(guest_checks.OPENED, text=text, tag=zlib.crc32(key), key_sum=hashlib.sha256(key).hexdigest()),
    )
