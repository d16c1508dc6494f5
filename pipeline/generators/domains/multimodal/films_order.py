"""Films whose frames have lost their order, which marks burnt into them still tell."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.generators.domains.multimodal.films_files import scenery, y4m
from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python, sent
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

WIDTH, HEIGHT, BLOCK = 64, 36, 8


@dataclass(frozen=True)
class Mark:
    """How a number stands in the top row of blocks."""

    bits: Callable[[int], str]
    """Eight of them, from left to right."""
    read: str
    """How a solution gets the number out of the text `bits`."""
    told: str


MARKS = (
    Mark(
        lambda n: f"{n:08b}",
        "int(bits, 2)",
        "a bright block is a 1, a dark one a 0, and the leftmost has the highest value",
    ),
    Mark(
        lambda n: f"{n:08b}"[::-1],
        "int(bits[::-1], 2)",
        "a bright block is a 1, a dark one a 0, and the leftmost has the lowest value",
    ),
    Mark(
        lambda n: "".join("10"[int(bit)] for bit in f"{n // 10:04b}{n % 10:04b}"),
        'int("".join("10"[int(b)] for b in bits[:4]), 2) * 10 + int("".join("10"[int(b)] for b in bits[4:]), 2)',
        "the four on the left are the tens and the four on the right the ones of a decimal number, each digit in "
        "binary with its highest bit on the left, and here a dark block is a 1 and a bright one a 0",
    ),
    Mark(
        lambda n: f"{n ^ n >> 1:08b}",
        "sum((bits[: place + 1].count('1') % 2) << 7 - place for place in range(8))",
        "they are the number in Gray code (the usual reflected one), highest bit on the left, bright is 1 and dark 0",
    ),
)
REORDER = """
import json
raw = open("/work/tape.y4m", "rb").read()
end = raw.index(b"\\n") + 1
size = 64 * 36
frames = [raw[n + 6 : n + 6 + size] for n in range(end, len(raw), size + 6)]
found, extra = {}, []
for place, frame in enumerate(frames):
    bits = ""
    for block in range(8):
        mean = sum(frame[y * 64 + x] for y in range(8) for x in range(block * 8, block * 8 + 8)) / 64
        bits += "1" if mean > 127 else "0"
    number = @READ@
    if number in found:
        extra.append(place)
    else:
        found[number] = frame
lost = [n for n in range(min(found), max(found) + 1) if n not in found]
with open("/work/film.y4m", "wb") as out:
    out.write(raw[:end])
    for number in range(min(found), max(found) + 1):
        if number in found:
            last = found[number]
        out.write(b"FRAME\\n" + last)
json.dump({"first": min(found), "lost": lost, "extra": extra}, open("/work/film.json", "w"))
"""
VERIFY_ORDER = """
import hashlib
import json

FRAMES = __FRAMES__
REPORT = __REPORT__


def film(box):
    head, _, rest = box.read("/work/film.y4m").partition(b"\\n")
    size = __SIZE__
    pictures = []
    while rest:
        mark, _, rest = rest.partition(b"\\n")
        assert mark.split(b" ")[0] == b"FRAME"
        assert len(rest) >= size, "the last frame is cut"
        pictures.append(hashlib.md5(rest[:size]).hexdigest()[:12])
        rest = rest[size:]
    return head.split(), pictures


def test_stream_head(box):
    head = film(box)[0]
    assert head[0] == b"YUV4MPEG2"
    assert set(__FIELDS__) <= {field.decode() for field in head[1:]}


def test_frames_run_in_order_without_gaps(box):
    assert film(box)[1] == FRAMES


def test_report_tells_what_was_lost_and_what_was_there_twice(box):
    assert json.loads(box.text("/work/film.json")) == REPORT
"""


def _frame(number: int, seed: int, mark: Mark) -> bytes:
    noise = chance(DOMAIN, f"frame_order/noise/{number}", seed)
    picture = bytearray(scenery(chance(DOMAIN, "frame_order/scenery", seed), WIDTH, HEIGHT, number))
    bits = mark.bits(number)
    for y in range(BLOCK):
        for x in range(WIDTH):
            picture[y * WIDTH + x] = (190 if bits[x // BLOCK] == "1" else 60) + noise.randint(-30, 30)
            # A single pixel proves nothing.
            if noise.random() < 0.06:
                picture[y * WIDTH + x] = noise.choice((5, 250))
    return bytes(picture)


def frame_order(seed: int, context: Context) -> Draft:
    """Frames in order again, by their numbers."""
    rng, mark = chance(DOMAIN, "frame_order", seed), MARKS[seed % len(MARKS)]
    rate = (25, 15, 24, 10)[seed % 4]
    first = rng.randint(12, 40)
    numbers = list(range(first, first + 34))
    lost = sorted([*rng.sample(numbers[1:16], 2), *(numbers[20], numbers[21])])
    kept = [n for n in numbers if n not in lost]
    order = [*kept, *rng.sample(kept, 3)]
    rng.shuffle(order)
    extra = [place for place, number in enumerate(order) if number in order[:place]]
    frames = {n: _frame(n, seed, mark) for n in kept}
    wanted, shown = [], b""
    for number in numbers:
        shown = frames.get(number, shown)
        wanted.append(hashlib.md5(shown, usedforsecurity=False).hexdigest()[:12])
    files, setup = sent({"/work/tape.y4m": y4m([frames[n] for n in order], WIDTH, HEIGHT, rate)})
    script = altered(REORDER.strip(), ("@READ@", mark.read))
    pieces = (
        "mean > 127",
        "sorted(frame[y * 64 + x] for y in range(8) for x in range(block * 8, block * 8 + 8))[32] > 127",
    )
    return Draft(
        family="frame_order",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"A capture card handed the frames of a grey film over in the wrong order. /work/tape.y4m "
        f"(YUV4MPEG2, {WIDTH}x{HEIGHT}, mono, {rate} frames a second) has them as they came. Each carries its number "
        f"in its uppermost {BLOCK} rows: eight square blocks of {BLOCK}x{BLOCK} pixels side by side; {mark.told}. The "
        "blocks are noisy, with a few stray pixels. Write /work/film.y4m, same format and rate, with the frames in "
        "the order of their numbers from the lowest to the highest there is. Where frames came twice, take one of "
        "them (they are alike); where numbers in between never came, show the frame before once more for each "
        "of them, so that the timing is kept. Do not alter any picture, marks included. Also write /work/film.json, an "
        "object with `first` (the lowest number), `lost` (numbers that never came, ascending) and `extra` (places in "
        "the tape, counted from 0, of frames whose number had come before, ascending).",
        files=files,
        setup=setup,
        solution=(python(script),),
        right=(Variant(name="by_the_median", commands=(python(altered(script, pieces)),)),),
        weak=(
            Variant(
                name="one_pixel_of_each_block",
                commands=(python(altered(script, ("mean > 127", "frame[block * 8] > 200"))),),
            ),
            Variant(
                name="gaps_closed",
                commands=(
                    python(
                        altered(
                            script,
                            (
                                "        if number in found:\n",
                                "        if number not in found:\n            continue\n        else:\n",
                            ),
                        )
                    ),
                ),
            ),
            Variant(name="order_of_arrival", commands=(python(script), "cp tape.y4m film.y4m")),
            Variant(
                name="another_code",
                commands=(python(altered(script, (f"number = {mark.read}", "number = int(bits, 2) ^ 5"))),),
            ),
        ),
        verifier=filled(
            VERIFY_ORDER,
            frames=wanted,
            report={"first": first, "lost": lost, "extra": extra},
            size=WIDTH * HEIGHT,
            fields=[f"W{WIDTH}", f"H{HEIGHT}", f"F{rate}:1", "Cmono"],
        ),
    )
