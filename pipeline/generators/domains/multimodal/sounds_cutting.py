"""Sounds that are put together from pieces of others, sample by sample."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, music, packed, python, sent, wav
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant


@dataclass(frozen=True)
class Piece:
    """A range of samples of a take, the end not in it; silence of that length where there is no take."""

    take: str
    start: int
    end: int
    change: str = ""
    """`back` for backwards, a number of percent, or nothing."""


Said = Callable[[list[Piece]], str]


@dataclass(frozen=True)
class Notation:
    """One way to write a cut list."""

    name: str
    rate: int
    channels: int
    unit: int
    """Every cut is at a multiple of so many samples."""
    write: Said
    parse: str
    """How a solution reads it: makes `cuts`, tuples like a Piece."""
    told: str
    changes: tuple[str, ...] = ("",)
    """What it can say of a piece besides its range."""


def _json(pieces: list[Piece]) -> str:
    entries = [
        {"take": p.take, "first": p.start, "last": p.end - 1, "backwards": p.change == "back"} for p in pieces if p.take
    ]
    return json.dumps({"rate": 8000, "pieces": entries}, indent=1) + "\n"


def _clock(samples: int) -> str:
    milliseconds = samples // 8
    return f"{milliseconds // 60000:02d}:{milliseconds // 1000 % 60:02d}.{milliseconds % 1000:03d}"


def _clocked(pieces: list[Piece]) -> str:
    lines = ["# take   in        out"]
    for p in pieces:
        if p.take:
            lines.append(f"{p.take:<8} {_clock(p.start)} {_clock(p.end)}")
        else:
            lines.append(f"pause    {_clock(p.end - p.start)}")
    return "\n".join(lines) + "\n"


def _csv(pieces: list[Piece]) -> str:
    rows = [
        f"{order},{p.take},{p.start},{p.end - p.start},{p.change if p.change.isdigit() else 100}"
        for order, p in enumerate(pieces, start=1)
        if p.take
    ]
    return "\n".join(["order,take,start,samples,percent", *sorted(rows, key=lambda row: row[::-1])]) + "\n"


def _frames(pieces: list[Piece]) -> str:
    def code(samples: int) -> str:
        frames = samples // 640
        return f"00:00:{frames // 25:02d}:{frames % 25:02d}"

    lines, place = [], 0
    for number, p in enumerate(pieces, start=1):
        name = p.take or "BL"
        record = f"{code(place)} {code(place + p.end - p.start)}"
        lines.append(f"{number:03d}  {name:<8} A  C  {code(p.start)} {code(p.end)} {record}")
        place += p.end - p.start
    return "\n".join(lines) + "\n"


NOTATIONS = (
    Notation(
        "pieces.json",
        8000,
        1,
        1,
        _json,
        """
import json
for p in json.load(open("/work/pieces.json"))["pieces"]:
    cuts.append((p["take"], p["first"], p["last"] + 1, "back" if p["backwards"] else ""))
""",
        "Its entries are in the order of the result; `first` and `last` count samples from 0 and both belong to the "
        "piece; one with `backwards` true is played from its last sample to its first.",
        ("back",),
    ),
    Notation(
        "pieces.txt",
        8000,
        2,
        8,
        _clocked,
        """
def samples(clock):
    minutes, seconds = clock.split(":")
    return (int(minutes) * 60000 + int(seconds.replace(".", ""))) * 8
for line in open("/work/pieces.txt"):
    words = line.split()
    if words[0] == "pause":
        cuts.append(("", 0, samples(words[1]), ""))
    elif words[0] != "#":
        cuts.append((words[0], samples(words[1]), samples(words[2]), ""))
""",
        "Each line is one piece, in order: the take, where it begins and where it ends as minutes:seconds.milliseconds "
        "(the sample at the end time is the first that no longer belongs to it). A line `pause` is digital silence "
        "(zeros) of the length given. Lines with # are remarks.",
    ),
    Notation(
        "pieces.csv",
        11025,
        1,
        1,
        _csv,
        """
import csv
for p in sorted(csv.DictReader(open("/work/pieces.csv")), key=lambda p: int(p["order"])):
    start, percent = int(p["start"]), p["percent"]
    cuts.append((p["take"], start, start + int(p["samples"]), "" if percent == "100" else percent))
""",
        "The column `order` says what comes after what. `start` counts samples from 0, `samples` is the length. Each "
        "sample is to become sample * percent / 100, rounded down (towards minus infinity).",
        ("50", "75", "30"),
    ),
    Notation(
        "reel.edl",
        16000,
        2,
        640,
        _frames,
        """
def samples(code):
    hours, minutes, seconds, frames = map(int, code.split(":"))
    return (((hours * 60 + minutes) * 60 + seconds) * 25 + frames) * 640
for line in open("/work/reel.edl"):
    words = line.split()
    cuts.append(("" if words[1] == "BL" else words[1], samples(words[4]), samples(words[5]), ""))
""",
        "It is a simple EDL: number, reel (the take; BL is black, here silence of zeros), A, C, source in, source out, "
        "record in, record out; times are hours:minutes:seconds:frames at 25 frames per second, and an out point is "
        "the first moment that is not in.",
    ),
)
ASSEMBLE = """
import array, wave
cuts = []
@PARSE@
sound = array.array("h")
channels, rate = @SHAPE@
for take, start, end, change in cuts:
    if not take:
        sound.extend([0] * ((end - start) * channels))
        continue
    with wave.open(f"/work/takes/{take}.wav") as given:
        given.setpos(start)
        piece = array.array("h", given.readframes(end - start))
    if change == "back":
        piece.reverse()
    elif change:
        piece = array.array("h", [s * int(change) // 100 for s in piece])
    sound += piece
with wave.open("/work/spot.wav", "wb") as out:
    out.setparams((channels, 2, rate, 0, "NONE", ""))
    out.writeframes(sound.tobytes())
"""
VERIFY_CUTS = """
import hashlib
import io
import wave

SHAPE = __SHAPE__
PIECES = __PIECES__


def opened(box):
    return wave.open(io.BytesIO(box.read("/work/spot.wav")))


def test_spot_has_the_format_of_the_takes(box):
    with opened(box) as spot:
        assert [spot.getnchannels(), spot.getsampwidth(), spot.getframerate()] == SHAPE


def test_spot_is_as_long_as_its_pieces(box):
    with opened(box) as spot:
        assert spot.getnframes() == sum(length for length, _ in PIECES)


def test_every_piece_is_exact(box):
    with opened(box) as spot:
        heard = [hashlib.md5(spot.readframes(length)).hexdigest() for length, _ in PIECES]
    assert heard == [digest for _, digest in PIECES]
"""


def cut_list(seed: int, context: Context) -> Draft:
    """Pieces of takes in a row."""
    rng, notation = chance(DOMAIN, "cut_list", seed), NOTATIONS[seed % len(NOTATIONS)]
    channels, unit = notation.channels, notation.unit
    length = notation.rate * 2
    names = rng.sample(("ANNA", "BORIS", "CHLOE", "DINESH", "EMMA", "FARID"), 3)
    takes = {name: music(rng, length * channels) for name in names}
    pieces = []
    for number in range(9):
        start = rng.randrange(length // 2 // unit) * unit
        end = start + rng.randrange(400 // unit + 2, length // 3 // unit) * unit
        change = rng.choice(notation.changes) if number % 3 == 1 else ""
        silent = unit > 1 and number % 4 == 2
        pieces.append(Piece("", 0, end - start) if silent else Piece(rng.choice(names), start, end, change))
    wanted = []
    for p in pieces:
        samples = _sound(p, takes, channels)
        wanted.append([p.end - p.start, hashlib.md5(packed(samples), usedforsecurity=False).hexdigest()])
    files, setup = sent({f"/work/takes/{name}.wav": wav(one, notation.rate, channels) for name, one in takes.items()})
    script = _script(notation)
    return Draft(
        family="cut_list",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"I have marked the good bits of our takes (/work/takes/NAME.wav) in /work/{notation.name}; cut "
        f"the "
        f"spot for me, as /work/spot.wav: all pieces one directly after the other, nothing between them, no fades. "
        f"{notation.told} The result must be plain PCM WAV with the rate, channels and 16 bits of the takes, exact to "
        "the sample: no resampling, no dither, no volume adjusted unless the list says so. Leave the takes alone.",
        files=(*files, TaskFile(path=f"/work/{notation.name}", text=notation.write(pieces))),
        setup=setup,
        solution=(python(script),),
        right=(Variant(name="sox", commands=(python(_by_sox(script)),)),),
        weak=(
            Variant(
                name="end_one_sample_off",
                commands=(python(altered(script, ("readframes(end - start)", "readframes(end - start - 1)"))),),
            ),
            Variant(
                name="in_order_of_the_takes", commands=(python(altered(script, ("in cuts:", "in sorted(cuts):"))),)
            ),
            Variant(name="one_piece_forgotten", commands=(python(altered(script, ("in cuts:", "in cuts[:-1]:"))),)),
            Variant(
                name="one_sample_late", commands=(python(altered(script, ("setpos(start)", "setpos(start + 1)"))),)
            ),
        ),
        verifier=filled(VERIFY_CUTS, shape=[channels, 2, notation.rate], pieces=wanted),
    )


def _script(notation: Notation) -> str:
    shape = str((notation.channels, notation.rate))
    return altered(ASSEMBLE, ("@PARSE@", notation.parse.strip()), ("@SHAPE@", shape))


def _by_sox(script: str) -> str:
    """The same cuts with sox where it cuts; what is counted down or silent is made with raw samples."""
    head, _, _ = script.partition("for take, start, end, change in cuts:")
    return (
        head
        + """
import subprocess
parts = []
for number, (take, start, end, change) in enumerate(cuts):
    part = f"/tmp/{number}.raw"
    if not take:
        open(part, "wb").write(bytes((end - start) * channels * 2))
    else:
        backwards = ["reverse"] if change == "back" else []
        cut = ["trim", f"{start}s", f"{end - start}s", *backwards]
        subprocess.run(["sox", "-D", f"/work/takes/{take}.wav", part, *cut], check=True)
        if change.isdigit():
            louder = [s * int(change) // 100 for s in array.array("h", open(part, "rb").read())]
            open(part, "wb").write(array.array("h", louder).tobytes())
    parts.append(part)
raw = ["-t", "raw", "-r", str(rate), "-c", str(channels), "-b", "16", "-e", "signed"]
open("/tmp/all.raw", "wb").write(b"".join(open(part, "rb").read() for part in parts))
subprocess.run(["sox", *raw, "/tmp/all.raw", "/work/spot.wav"], check=True)
"""
    )


def _sound(piece: Piece, takes: dict[str, list[int]], channels: int) -> list[int]:
    if not piece.take:
        return [0] * (piece.end - piece.start) * channels
    samples = takes[piece.take][piece.start * channels : piece.end * channels]
    if piece.change == "back":
        return samples[::-1]
    return [sample * int(piece.change) // 100 for sample in samples] if piece.change else samples
