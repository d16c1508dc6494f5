"""Tasks on whole machines: what is plugged into one, a boot sector for one, one that does not start."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from pipeline.generators.domains.qemu import machine_checks
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

_CARDS: Mapping[str, tuple[str, str]] = {
    "e1000": ("8086", "100e"),
    "rtl8139": ("10ec", "8139"),
    "pcnet": ("1022", "2000"),
    "ne2k_pci": ("10ec", "8029"),
    "i82551": ("8086", "1209"),
    "virtio-net-pci": ("1af4", "1000"),
    "virtio-rng-pci": ("1af4", "1005"),
    "ich9-ahci": ("8086", "2922"),
    "lsi53c895a": ("1000", "0012"),
    "pvscsi": ("15ad", "07c0"),
    "AC97": ("8086", "2415"),
    "ES1370": ("1274", "5000"),
    "intel-hda": ("8086", "2668"),
    "nec-usb-xhci": ("1033", "0194"),
    "piix3-usb-uhci": ("8086", "7020"),
    "qemu-xhci": ("1b36", "000d"),
    "sdhci-pci": ("1b36", "0007"),
}
"""Devices of the emulator and what they say they are: vendor and device."""

_BOARD = (
    ("00:00.0", "8086", "1237"),
    ("00:01.0", "8086", "7000"),
    ("00:01.1", "8086", "7010"),
    ("00:01.3", "8086", "7113"),
)
"""What every machine of type pc has."""


def pci_inventory(seed: int, context: Context) -> Draft:
    """A table of the PCI devices of a machine, with the names that a public list gives them."""
    rng = chance("qemu", "pci_inventory", seed)
    listed = _names(context.text("pciids/pci.ids"))
    cards = rng.sample(list(_CARDS), 5)
    slots = sorted(rng.sample(range(3, 29), 5))
    found = [*_BOARD, *((f"00:{slot:02x}.0", *_CARDS[card]) for slot, card in zip(slots, cards, strict=True))]
    order = list(zip(slots, cards, strict=True))
    rng.shuffle(order)
    options = "".join(f"-device {card},addr=0x{slot:x}\n" for slot, card in order)
    header, tab = (("slot,id,vendor,device", ","), ("slot\tid\tvendor\tdevice", "\t"))[seed % 2]
    rows = [[slot, f"{v}:{d}", listed[v], listed[f"{v}:{d}"]] for slot, v, d in sorted(found, reverse=seed >= 2)]
    kind = (
        "CSV (comma, fields that need it in double quotes)"
        if tab == ","
        else "TSV (one tab between fields, nothing quoted)"
    )
    path = f"/work/inventory.{'csv' if tab == ',' else 'tsv'}"
    script = (
        machine_checks.INVENTORY.replace("PATH", repr(path)).replace("TAB", repr(tab)).replace("DOWN", str(seed >= 2))
    )
    machine = (
        "setsid nohup qemu-system-x86_64 -M pc -m 32 -nodefaults -display none -S -daemonize $(cat machine.args) "
        "-qmp unix:/tmp/q.sock,server=on,wait=off > /tmp/qemu.out 2>&1 < /dev/null"
    )
    ask = f"cat > /tmp/i.py <<'E'\n{script}E"
    return Draft(
        family="pci_inventory",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction="We document virtual machines by what is really plugged in. /work/machine.args has the "
        "options that, added to "
        "`qemu-system-x86_64 -M pc -m 32 -nodefaults -display none`, make up one of them (it needs no disk; "
        "it may stay "
        f"paused while you look). List all of its PCI devices, those of the board too, in {path}: {kind}, "
        f"UTF-8, LF line ends, header "
        f"`{header.replace(tab, ' ')}` with the same separator, one line per device, "
        + ("descending" if seed >= 2 else "ascending")
        + " by slot. Slot is bus:device.function in hex (00:0a.0), id is vendor:device as four "
        "lower-case hex digits each, "
        "and vendor and device are "
        "their names in /srv/pci.ids, exactly as they stand there (names of devices, not of subsystems). No "
        "machine should be running any more when you are finished.",
        files=(TaskFile(path="/work/machine.args", text=options),),
        solution=(machine, ask, "python3 /tmp/i.py"),
        right=(
            Variant(
                name="other_socket",
                commands=(
                    machine.replace("/tmp/q.sock", "/work/q").replace("-m 32", "-m 64"),
                    ask.replace("/tmp/q.sock", "/work/q"),
                    "python3 /tmp/i.py; rm -f /work/q",
                ),
            ),
        ),
        weak=(
            Variant(name="board_only", commands=(machine.replace("$(cat machine.args)", ""), ask, "python3 /tmp/i.py")),
            Variant(
                name="names_of_the_emulator",
                commands=(machine, ask.replace("names[ids]", "str(device.get('qdev_id'))"), "python3 /tmp/i.py"),
            ),
            Variant(
                name="other_order", commands=(machine, ask.replace("reverse=", "reverse=not "), "python3 /tmp/i.py")
            ),
            Variant(
                name="slots_not_honoured",
                commands=("sed -i 's/,addr=.*//' machine.args", machine, ask, "python3 /tmp/i.py"),
            ),
        ),
        verifier=filled(machine_checks.LISTED, path=path, separator=tab, rows=rows, header=header.split(tab)),
        contexts=("pciids",),
    )


def _names(text: str) -> dict[str, str]:
    """Names by `vendor` and `vendor:device`."""
    names: dict[str, str] = {}
    vendor = ""
    for line in text.splitlines():
        if line.startswith("C "):
            break
        if not line or line.startswith(("#", "\t\t")):
            continue
        number, name = line.strip().split("  ", 1)
        if not line.startswith("\t"):
            vendor = number
        names[vendor if number == vendor and not line.startswith("\t") else f"{vendor}:{number}"] = name
    return names


def boot_sector(seed: int, context: Context) -> Draft:
    """A boot sector that computes from what the next sector holds, and says it on the serial line."""
    rng = chance("qemu", "boot_sector", seed)
    job = machine_checks.BOOT_JOBS[seed % len(machine_checks.BOOT_JOBS)]
    inputs = [job.sample(rng) for _ in range(3)]
    build = "nasm -f bin -o boot.bin boot.asm"
    return Draft(
        family="boot_sector",
        seed=seed,
        difficulty="hard",
        language="shell",
        instruction=f"Write a boot sector for a PC with BIOS: /work/boot.bin, exactly 512 bytes, bootable "
        f"(nasm is installed). The machine's only disk has it as "
        f"its first sector and an input in the second one (LBA 1), which the boot sector itself has to read "
        f"(BIOS service 13h; the drive number is in DL). {job.said} "
        "It writes its answer to the first serial port (COM1, I/O port 3F8h; no set-up of the port is "
        "needed), as ASCII text that ends with "
        "CR LF, and nothing else, then writes one byte 0 to I/O port F4h, where the machine has an "
        "isa-debug-exit device "
        f"that ends it. /work/sample.bin is one such second sector; the answer to it is "
        f"`{job.answer(inputs[0])}`. Other inputs will be tried, each on "
        "`qemu-system-x86_64 -M pc -m 16` with a raw disk of 64 KiB as an IDE drive, within a few seconds.",
        setup=(f"printf {job.sector(inputs[0]).hex()} | xxd -r -p > sample.bin && truncate -s 512 sample.bin",),
        solution=(f"cat > boot.asm <<'E'\n{job.assembly}E", build),
        right=(
            Variant(
                name="padded_by_hand",
                commands=(
                    f"cat > /tmp/b.asm <<'E'\n{job.assembly.replace('cld', 'cld' + chr(10) + ' nop')}E",
                    "nasm -f bin -o /work/boot.bin /tmp/b.asm",
                ),
            ),
        ),
        weak=(
            Variant(
                name="sample_said",
                commands=(f"cat > boot.asm <<'E'\n{machine_checks.saying(job.answer(inputs[0]))}E", build),
            ),
            Variant(
                name="usual_mistake", commands=(f"cat > boot.asm <<'E'\n{job.assembly.replace(*job.mistake)}E", build)
            ),
            Variant(
                name="not_bootable",
                commands=(f"cat > boot.asm <<'E'\n{job.assembly.replace('0xaa55', '0x55aa')}E", build),
            ),
        ),
        verifier=filled(
            machine_checks.BOOTED,
            inputs=[job.sector(given).hex() for given in inputs[1:]],
            answers=[job.answer(given) for given in inputs[1:]],
        ),
    )


_FAULTS: Sequence[tuple[str, str, str]] = (
    ("cmdline", "console=ttyS0", "console=ttyS1"),
    ("rc", "#!/bin/sh\n", "#!/usr/local/bin/sh\n"),
    ("rc", "while [ $i -lt $rounds ]; do", "while [ $i -lt $rounds ]"),
    ("cmdline", "rdinit=/init", "rdinit=/sbin/launch"),
    ("rc", "/dev/vda", "/dev/sda"),
    ("mode", "", ""),
    ("cmdline", "panic=-1", "panic=-1 module_blacklist=virtio_blk"),
    ("rc", "\n", "\r\n"),
)


def repair_boot(seed: int, context: Context) -> Draft:
    """A machine that does not do its duty at boot: found, repaired, and run once."""
    rng = chance("qemu", "repair_boot", seed)
    chosen = [_FAULTS[2 * (seed % 4)], _FAULTS[2 * (seed % 4) + 1]]
    rounds = rng.randint(15, 40)
    ticket = f"{rng.getrandbits(96):024x}"
    proof = ticket
    for number in range(rounds):
        proof = hashlib.sha256(f"{proof}/{number}\n".encode()).hexdigest()
    rc, cmdline, mode = machine_checks.RC.replace("ROUNDS", str(rounds)), machine_checks.CMDLINE, 0o755
    mended = rc
    mends = []
    for place, sound, broken in chosen:
        if place == "mode":
            mode = 0o644
            mends.append("chmod 755 vm/overlay/etc/rc")
        elif place == "cmdline":
            cmdline = cmdline.replace(sound, broken)
        else:
            rc = rc.replace(sound, broken)
    edits = [
        *mends,
        f"printf '%s' '{machine_checks.CMDLINE.strip()}' > vm/cmdline",
        f"cat > vm/overlay/etc/rc <<'E'\n{mended}E",
    ]
    said = f"printf 'ticket {ticket}\\nPROOF {proof}\\n' > vm/serial.log"
    written = f"printf {proof} | dd of=vm/data.img bs=1 seek=4096 conv=notrunc"
    return Draft(
        family="repair_boot",
        seed=seed,
        difficulty="hard",
        instruction="The ticket machine in /work/vm used to do one thing: started by run.sh, it reads the "
        "ticket in the first sector of its disk data.img, computes a proof "
        "from it (its /etc/rc does, which build.sh packs from overlay/ into initrd.gz, behind the ordinary "
        "initramfs), writes the proof to byte 4096 of the disk, says "
        "`PROOF` and the proof on the serial line and powers itself off. Since someone 'cleaned up', it does "
        "not. There are two "
        "independent faults, somewhere in cmdline (the kernel's command line) and the overlay (contents or "
        "modes). Find and repair them "
        "in place: cmdline, overlay/etc/rc and a freshly built initrd.gz must be in working order afterwards, "
        "with the computation and the ticket as they are, and "
        "run.sh and build.sh unchanged. Then let the machine run to its end once, so that serial.log (run.sh "
        "starts it anew) "
        "ends in the kernel's message about powering down and data.img holds the proof.",
        files=(
            TaskFile(path="/work/vm/run.sh", text=machine_checks.RUN, mode=0o755),
            TaskFile(path="/work/vm/build.sh", text=machine_checks.BUILD, mode=0o755),
            TaskFile(path="/work/vm/cmdline", text=cmdline),
            TaskFile(path="/work/vm/overlay/etc/rc", text=rc, mode=mode),
        ),
        setup=(f"printf '%s\\n' {ticket} > vm/data.img && truncate -s 1M vm/data.img", "vm/build.sh"),
        solution=(*edits, "vm/build.sh && vm/run.sh; tail -n 3 vm/serial.log"),
        right=(
            Variant(
                name="edited",
                commands=(
                    *(
                        f"sed -i 's#{broken}#{sound}#' vm/cmdline"
                        for place, sound, broken in chosen
                        if place == "cmdline"
                    ),
                    f"printf %s {mended.encode().hex()} | xxd -r -p > vm/overlay/etc/rc && chmod 700 vm/overlay/etc/rc",
                    "cd vm && ./build.sh && ./run.sh",
                ),
            ),
        ),
        weak=(
            Variant(name="not_rebuilt", commands=(*edits, "vm/run.sh")),
            Variant(name="not_run", commands=(*edits, f"vm/build.sh && {written}")),
            Variant(name="forged", commands=(*edits, f"vm/build.sh; {said}; {written}")),
            Variant(
                name="one_fault",
                commands=(edits[0], "vm/build.sh; vm/run.sh")
                if len(edits) == 3
                else (edits[0 if seed % 2 else 1], "vm/build.sh; vm/run.sh"),
            ),
        ),
        verifier=filled(
            machine_checks.REPAIRED,
            proof=proof,
            ticket=ticket,
            rounds=rounds,
            scripts={"run.sh": _sum(machine_checks.RUN), "build.sh": _sum(machine_checks.BUILD)},
        ),
    )


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
