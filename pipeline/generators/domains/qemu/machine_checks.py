"""What judges the tasks of machines.py, and the programs that its machines run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

INVENTORY = """
import csv, io, json, socket
s = socket.socket(socket.AF_UNIX)
s.connect("/tmp/q.sock")
f = s.makefile("rw")
def ask(command):
    f.write(json.dumps({"execute": command}) + "\\n")
    f.flush()
    for line in f:
        answer = json.loads(line)
        if "return" in answer:
            return answer["return"]
f.readline()
ask("qmp_capabilities")
buses = ask("query-pci")
names, vendor = {}, ""
for line in open("/srv/pci.ids", encoding="utf-8"):
    if line.startswith("C "):
        break
    if line.strip() and not line.startswith(("#", "\\t\\t")):
        number, name = line.strip().split("  ", 1)
        if line[0] != "\\t":
            vendor = number
            names[number] = name
        else:
            names[f"{vendor}:{number}"] = name
rows = []
for device in buses[0]["devices"]:
    ids = f"{device['id']['vendor']:04x}:{device['id']['device']:04x}"
    slot = f"{device['bus']:02x}:{device['slot']:02x}.{device['function']}"
    rows.append([slot, ids, names[ids[:4]], names[ids]])
rows.sort(reverse=DOWN)
table = [["slot", "id", "vendor", "device"], *rows]
with open(PATH, "w", encoding="utf-8", newline="") as out:
    if TAB == ",":
        csv.writer(out, lineterminator="\\n").writerows(table)
    else:
        out.writelines("\\t".join(row) + "\\n" for row in table)
ask("quit")
"""

LISTED = """
import csv
import io

PATH = __PATH__
SEPARATOR = __SEPARATOR__
HEADER = __HEADER__
DEVICES = __ROWS__


def table(box):
    text = box.text(PATH)
    assert "\\r" not in text and text.endswith("\\n")
    if SEPARATOR == ",":
        return list(csv.reader(io.StringIO(text)))
    return [line.split(SEPARATOR) for line in text.splitlines()]


def test_header(box):
    assert table(box)[0] == HEADER


def test_every_slot_has_its_ids(box):
    assert [row[:2] for row in table(box)[1:]] == [device[:2] for device in DEVICES]


def test_names_are_those_of_the_list(box):
    assert [row[2:] for row in table(box)[1:]] == [device[2:] for device in DEVICES]
"""

BOOTED = """
import subprocess

INPUTS = __INPUTS__
ANSWERS = __ANSWERS__
MACHINE = ["-M", "pc", "-m", "16", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]
END = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x01"]


def said(sector, given, disk):
    disk.write_bytes((sector + bytes.fromhex(given).ljust(512, b"\\0")).ljust(65536, b"\\0"))
    drive = ["-drive", f"file={disk},format=raw,if=ide"]
    command = ["qemu-system-x86_64", *MACHINE, *END, *drive]
    try:
        done = subprocess.run(command, timeout=10, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.TimeoutExpired:
        return "no end", b""
    return done.returncode, done.stdout


def test_it_is_a_boot_sector(box):
    sector = box.read("/work/boot.bin")
    assert len(sector) == 512
    assert sector[510:] == b"\\x55\\xaa"


def test_it_answers_other_inputs(box, tmp_path):
    sector = box.read("/work/boot.bin")
    assert sector[510:] == b"\\x55\\xaa"
    right = []
    for number, (given, answer) in enumerate(zip(INPUTS, ANSWERS, strict=True)):
        right.append(said(sector, given, tmp_path / f"disk{number}") == (1, f"{answer}\\r\\n".encode()))
        if not right[-1]:
            break
    assert right == [True] * len(INPUTS)
"""


@dataclass(frozen=True)
class BootJob:
    """What a boot sector is to compute, and one that does."""

    said: str
    sample: Callable[[random.Random], bytes]
    answer: Callable[[bytes], str]
    assembly: str
    mistake: tuple[str, str]

    def sector(self, given: bytes) -> bytes:
        """The beginning of the second sector; the rest is zero."""
        return given


_START = """bits 16
org 0x7c00
 jmp 0:start
start:
 xor ax, ax
 mov ds, ax
 mov es, ax
 mov ss, ax
 mov sp, 0x7c00
 cld
"""
_READ = """ mov ax, 0x0201
 mov cx, 2
 xor dh, dh
 mov bx, 0x8000
 int 0x13
 mov si, 0x8000
"""
_DONE = """ mov al, 13
 call put
 mov al, 10
 call put
 xor al, al
 out 0xf4, al
stop: hlt
 jmp stop
put:
 push dx
 push ax
 mov dx, 0x3fd
wait_for: in al, dx
 test al, 0x20
 jz wait_for
 pop ax
 mov dx, 0x3f8
 out dx, al
 pop dx
 ret
"""
_DECIMAL = """decimal:
 mov ebx, 10
 xor cx, cx
digit:
 xor edx, edx
 div ebx
 push dx
 inc cx
 test eax, eax
 jnz digit
shown:
 pop ax
 add al, '0'
 call put
 loop shown
 ret
"""
_SIGNED = "times 510-($-$$) db 0\ndw 0xaa55\n"


def saying(text: str) -> str:
    """A boot sector that says one text whatever it is given."""
    loop = " mov si, text\nnext: lodsb\n test al, al\n jz done\n call put\n jmp next\ndone:\n"
    return f"{_START}{loop}{_DONE}text: db '{text}', 0\n{_SIGNED}"


def _words(rng: random.Random) -> bytes:
    count = rng.randint(20, 100)
    return count.to_bytes(2, "little") + b"".join(rng.randint(300, 65535).to_bytes(2, "little") for _ in range(count))


def _text(rng: random.Random) -> bytes:
    return (
        "".join(rng.choice("abcdefghijklmnopqrstuvwxyz  ,") for _ in range(rng.randint(40, 200))).strip().encode()
        + b"z"
    )


def _numbers(given: bytes) -> list[int]:
    count = int.from_bytes(given[:2], "little")
    return [int.from_bytes(given[2 + 2 * n : 4 + 2 * n], "little") for n in range(count)]


def _fletcher(given: bytes) -> str:
    low = high = 0
    for byte in given:
        low = (low + byte) % 255
        high = (high + low) % 255
    return f"{high:02X}{low:02X}"


BOOT_JOBS: Sequence[BootJob] = (
    BootJob(
        said="The input is a 16-bit little-endian count n (1 to 200) and then n unsigned 16-bit little-endian "
        "numbers; the answer is their sum, as a decimal "
        "number without leading zeros (it may need more than 16 bits).",
        sample=_words,
        answer=lambda given: str(sum(_numbers(given))),
        assembly=_START
        + _READ
        + " lodsw\n mov cx, ax\n xor ebp, ebp\n xor eax, eax\nsum: lodsw\n movzx eax, ax\n add ebp, eax\n loop sum\n"
        " mov eax, ebp\n call decimal\n" + _DONE + _DECIMAL + _SIGNED,
        mistake=("add ebp, eax", "add bp, ax"),
    ),
    BootJob(
        said="The input is an ASCII text that ends before the first zero byte (at most 400 characters); the "
        "answer is the text backwards, with lower-case "
        "letters made upper-case and all other characters as they are.",
        sample=_text,
        answer=lambda given: given.decode()[::-1].upper(),
        assembly=_START + _READ + "ends: lodsb\n test al, al\n jnz ends\n dec si\n"
        "back: dec si\n cmp si, 0x8000\n jb over\n mov al, [si]\n"
        " cmp al, 'a'\n jb plain\n cmp al, 'z'\n ja plain\n sub al, 32\nplain: call put\n jmp back\nover:\n"
        + _DONE
        + _SIGNED,
        mistake=("ja plain", "jae plain"),
    ),
    BootJob(
        said="The input is an ASCII text that ends before the first zero byte; the answer is its Fletcher-16 "
        "checksum: over the bytes in order, two sums from 0, "
        "low = (low + byte) mod 255, then high = (high + low) mod 255; print high, then low, as two "
        "upper-case hex digits each.",
        sample=_text,
        answer=_fletcher,
        assembly=_START
        + _READ
        + " xor bx, bx\n xor bp, bp\n mov di, 255\nnext: xor ax, ax\n lodsb\n test al, al\n jz told\n add ax, bx\n"
        " xor dx, dx\n div di\n mov bx, dx\n mov ax, bp\n add ax, bx\n xor dx, dx\n div di\n mov bp, dx\n jmp "
        "next\ntold:\n"
        " mov ax, bp\n call hex\n mov ax, bx\n call hex\n"
        + _DONE
        + "hex: push ax\n shr al, 4\n call one\n pop ax\n and al, 15\none: cmp al, 10\n"
        " jb low\n add al, 7\nlow: add al, '0'\n jmp put\n" + _SIGNED,
        mistake=("mov di, 255", "mov di, 256"),
    ),
    BootJob(
        said="The input is a 16-bit little-endian count n (1 to 200) and then n unsigned 16-bit little-endian "
        "numbers; the answer is the largest of them, "
        "one space, and its position (from 0; the first one where it stands more than once), both as decimal "
        "numbers without leading zeros.",
        sample=_words,
        answer=lambda given: f"{max(_numbers(given))} {_numbers(given).index(max(_numbers(given)))}",
        assembly=_START + _READ + " lodsw\n mov cx, ax\n xor di, di\n xor bp, bp\n mov bx, 0xffff\n xor dx, dx\n"
        "scan: lodsw\n cmp bx, 0xffff\n je take\n"
        " cmp ax, di\n jbe skip\ntake: mov di, ax\n mov bx, dx\nskip: inc dx\n loop scan\n mov bp, bx\n movzx "
        "eax, di\n call decimal\n mov al, ' '\n"
        " call put\n movzx eax, bp\n call decimal\n" + _DONE + _DECIMAL + _SIGNED,
        mistake=("jbe skip", "jle skip"),
    ),
)

CMDLINE = "console=ttyS0 rdinit=/init panic=-1 no_timer_check\n"

RC = """#!/bin/sh
# The duty of this machine.
rounds=ROUNDS
disk=/dev/vda
h=$(head -n 1 $disk)
echo "ticket $h"
i=0
while [ $i -lt $rounds ]; do
    h=$(echo "$h/$i" | sha256sum | cut -c1-64)
    i=$((i + 1))
done
printf %s "$h" | dd of=$disk bs=1 seek=4096 conv=notrunc 2>/dev/null
sync
echo "PROOF $h"
poweroff -f
"""

BUILD = """#!/bin/bash
# Packs the overlay behind the ordinary initramfs.
set -euo pipefail
cd "$(dirname "$0")/overlay"
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 | gzip -n | cat /opt/guest/initramfs.cpio.gz - > ../initrd.gz
"""

RUN = """#!/bin/bash
# Runs the machine until it ends, at most 20 seconds.
cd "$(dirname "$0")"
timeout 20 qemu-system-x86_64 -M pc -m 96 -nodefaults -display none -no-reboot -serial file:serial.log \\
    -kernel /opt/guest/vmlinuz -initrd initrd.gz -append "$(cat cmdline)" \\
    -drive file=data.img,format=raw,if=virtio < /dev/null
"""

REPAIRED = """
import hashlib
import re
import zlib

PROOF = __PROOF__
TICKET = __TICKET__
ROUNDS = __ROUNDS__
SCRIPTS = __SCRIPTS__


def last_script_of(archive):
    unpacked = b""
    while archive:
        stream = zlib.decompressobj(31)
        unpacked += stream.decompress(archive)
        archive = stream.unused_data.lstrip(b"\\0")
    found = [match.start() for match in re.finditer(rb"070701[0-9A-Fa-f]{104}(?:\\./)?etc/rc\\0", unpacked)]
    head = unpacked[found[-1] : found[-1] + 110]
    mode, size, name = int(head[14:22], 16), int(head[54:62], 16), int(head[94:102], 16)
    begin = (found[-1] + 110 + name + 3) // 4 * 4
    return mode, unpacked[begin : begin + size]


def test_machine_ran_to_its_end(box):
    log = box.read("/work/vm/serial.log").decode(errors="replace")
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    assert f"PROOF {PROOF}" in lines and f"ticket {TICKET}" in lines
    assert "Linux version" in log and "reboot: Power down" in lines[-1]


def test_disk_holds_ticket_and_proof(box):
    disk = box.read("/work/vm/data.img")
    assert len(disk) == 1 << 20
    assert disk[:25] == f"{TICKET}\\n".encode()
    assert disk[4096:4161] == PROOF.encode() + b"\\0"


def test_initrd_and_command_line_are_in_order(box):
    mode, script = last_script_of(box.read("/work/vm/initrd.gz"))
    assert mode & 0o100 and script == box.read("/work/vm/overlay/etc/rc")
    assert b"\\r" not in script and f"rounds={ROUNDS}\\n".encode() in script and b"sha256sum" in script
    words = box.text("/work/vm/cmdline").split()
    assert "console=ttyS0" in words and not [w for w in words if w.startswith("module_blacklist=")]


def test_scripts_are_as_they_were(box):
    sums = {name: hashlib.sha256(box.read(f"/work/vm/{name}")).hexdigest() for name in SCRIPTS}
    assert sums == SCRIPTS
"""
