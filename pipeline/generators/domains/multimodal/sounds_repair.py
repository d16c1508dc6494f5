"""Recordings whose files are damaged while their samples are not."""

from __future__ import annotations

import hashlib
import struct

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, music, packed, python, sent
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

FAULTS = {
    "unclosed": "The recorder lost its power while it wrote {file}: the sizes in its head are not filled in, and the "
    "end is in the middle of a frame (one sample per channel); the incomplete last frame is to go.",
    "text_mode": "{file} was sent by FTP in text mode, so that each byte 0A became the two bytes 0D 0A everywhere in "
    "the file; undo that.",
    "swapped": "{file} comes from a machine that writes the high byte first, in the samples only; the head is fine.",
    "lying_head": "The head of {file} is nonsense apart from its length of 44 bytes; after it there is nothing but "
    "samples.",
    "bare": "{file} has no head at all, it begins with the first sample.",
    "junk": "In {file} a faulty disk driver put a block of 64 bytes FF in front of the file and behind every 4096 "
    "bytes of it, so behind the last 4096 too if they are whole; the rest is as it was.",
}
CASES = (
    ("unclosed", "text_mode", 22050, 2),
    ("swapped", "junk", 16000, 1),
    ("lying_head", "text_mode", 32000, 1),
    ("bare", "unclosed", 11025, 2),
)
_MENDING = {
    "unclosed": "raw = raw[44:]\n    raw = raw[: len(raw) // (2 * channels) * 2 * channels]",
    "text_mode": 'raw = raw.replace(b"\\r\\n", b"\\n")[44:]',
    "swapped": "raw = raw[44:]\n    raw = bytes(raw[n ^ 1] for n in range(len(raw)))",
    "lying_head": "raw = raw[44:]",
    "bare": "pass",
    "junk": 'raw = b"".join(raw[64 + n : 64 + n + 4096] for n in range(0, len(raw), 4160))[44:]',
}
MEND = """
import wave
channels, rate = @SHAPE@
for name in ("monday", "tuesday"):
    raw = open(f"/work/tapes/{name}.wav", "rb").read()
    if name == "monday":
        @FIRST@
    else:
        @SECOND@
    with wave.open(f"/work/mended/{name}.wav", "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(raw)
"""
VERIFY_MENDED = """
import hashlib
import struct

SOUNDS = __SOUNDS__
CHANNELS, RATE = __SHAPE__


def chunks(raw):
    found, place = {}, 12
    while place + 8 <= len(raw):
        name, size = raw[place : place + 4], struct.unpack_from("<I", raw, place + 4)[0]
        assert place + 8 + size <= len(raw), f"{name} is longer than the file"
        found[name] = raw[place + 8 : place + 8 + size]
        place += 8 + size + size % 2
    return found


def test_outer_size_is_that_of_the_file(box):
    for name in SOUNDS:
        raw = box.read(f"/work/mended/{name}.wav")
        assert (raw[:4], raw[8:12]) == (b"RIFF", b"WAVE")
        assert struct.unpack_from("<I", raw, 4)[0] == len(raw) - 8


def test_every_field_of_the_format_is_right(box):
    wanted = (1, CHANNELS, RATE, RATE * CHANNELS * 2, CHANNELS * 2, 16)
    for name in SOUNDS:
        head = chunks(box.read(f"/work/mended/{name}.wav"))[b"fmt "]
        assert struct.unpack("<HHIIHH", head[:16]) == wanted, name


def test_samples_are_the_recorded_ones(box):
    for name, (size, digest) in SOUNDS.items():
        data = chunks(box.read(f"/work/mended/{name}.wav"))[b"data"]
        assert (len(data), hashlib.sha224(data).hexdigest()) == (size, digest), name
"""


def _head(size: int, rate: int, channels: int) -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE") + form + struct.pack("<4sI", b"data", size)


def _damaged(fault: str, data: bytes, rate: int, channels: int) -> bytes:
    whole = _head(len(data), rate, channels) + data
    match fault:
        case "unclosed":
            return (
                _head(0, rate, channels)[:4]
                + bytes(4)
                + _head(0, rate, channels)[8:]
                + data
                + b"\x11" * (2 * channels - 1)
            )
        case "text_mode":
            return whole.replace(b"\n", b"\r\n")
        case "swapped":
            return whole[:44] + bytes(data[n ^ 1] for n in range(len(data)))
        case "lying_head":
            return bytes(n * 7 % 256 for n in range(44)) + data
        case "bare":
            return data
    blocks = [whole[n : n + 4096] for n in range(0, len(whole), 4096)]
    return b"\xff" * 64 + b"".join(block + b"\xff" * 64 * (len(block) == 4096) for block in blocks)


def mended_tapes(seed: int, context: Context) -> Draft:
    """Damaged files with whole samples."""
    rng = chance(DOMAIN, "mended_tapes", seed)
    first, second, rate, channels = CASES[seed % len(CASES)]
    damaged, wanted = {}, {}
    for name, fault in (("monday", first), ("tuesday", second)):
        data = packed(music(rng, channels * rng.randrange(9000, 14000)))
        damaged[f"/work/tapes/{name}.wav"] = _damaged(fault, data, rate, channels)
        wanted[name] = (len(data), hashlib.sha224(data).hexdigest())
    files, setup = sent(damaged)
    mending = (_MENDING[first].replace("\n", "\n    "), _MENDING[second].replace("\n", "\n    "))
    script = altered(
        MEND.strip(), ("@SHAPE@", str((channels, rate))), ("@FIRST@", mending[0]), ("@SECOND@", mending[1])
    )
    said = " ".join(
        FAULTS[fault].format(file=f"/work/tapes/{name}.wav") for fault, name in ((first, "monday"), (second, "tuesday"))
    )
    return Draft(
        family="mended_tapes",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"Two recordings do not open any more. Both were {'stereo' if channels == 2 else 'mono'}, "
        f"{rate} samples a second, 16 bits signed little-endian PCM, in a WAV file with the usual head of 44 bytes "
        f"(RIFF, fmt with 16 bytes, data; nothing after the samples). {said} "
        "Put correct WAV files with the same names into /work/mended: all fields of the head (both sizes, rate, byte "
        "rate, block align, bits) have to be right, and every recorded sample must be there, bit by bit, with nothing "
        "added or lost. An archive program will check them, so a player that opens them is no proof. Do not touch the "
        "originals.",
        files=files,
        setup=setup,
        solution=("mkdir -p mended", python(script)),
        right=(Variant(name="head_by_hand", commands=("mkdir -p mended", python(_by_hand(script)))),),
        weak=(
            Variant(name="just_copied", commands=("cp -r tapes mended",)),
            Variant(
                name="head_taken_for_samples",
                commands=(
                    "mkdir -p mended",
                    python(altered(script, ("writeframes(raw)", "writeframes(bytes(4) + raw)"))),
                ),
            ),
            Variant(
                name="size_not_filled_in",
                commands=(
                    "mkdir -p mended",
                    python(
                        script + "\n" + 'with open("/work/mended/monday.wav", "r+b") as f:\n    f.seek(4)\n'
                        "    f.write(bytes(4))"
                    ),
                ),
            ),
            Variant(
                name="other_rate",
                commands=("mkdir -p mended", python(altered(script, (f", {rate})", f", {rate * 2})")))),
            ),
        ),
        verifier=filled(VERIFY_MENDED, sounds=wanted, shape=(channels, rate)),
    )


def _by_hand(script: str) -> str:
    """The same without the module wave."""
    head, _, _ = script.partition("    with wave.open")
    return (
        altered(head, ("import wave", "import struct"))
        + """    form = struct.pack("<HHIIHH", 1, channels, rate, 2 * channels * rate, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(raw)) + raw
    open(f"/work/mended/{name}.wav", "wb").write(b"RIFF" + struct.pack("<I", len(body)) + body)
"""
    )
