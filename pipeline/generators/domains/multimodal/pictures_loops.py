"""Animated GIF files whose pictures get another order or other times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python
from pipeline.generators.drafts import Context, Draft, Make, TaskFile, chance, filled
from pipeline.types import Variant

WIDTH, HEIGHT, COUNT = 28, 20, 9
Shown = list[tuple[int, int]]
"""Number of a picture and for how many hundredths of a second it is shown, one after the other."""


@dataclass(frozen=True)
class Change:
    """What an animation is to become."""

    said: str
    plan: str
    """Statement of a solution: `shown` is what `old` becomes, both as lists of picture and time."""
    wrong: str
    """The same with a usual mistake."""
    loop: int


CHANGES = (
    Change(
        "It has to swing: first all pictures as now, then backwards again to the second one. The last picture and the "
        "first one are therefore not doubled at the turns; every picture keeps its own time, both ways.",
        "shown = old + old[-2:0:-1]",
        "shown = old + old[::-1]",
        0,
    ),
    Change(
        "Some pictures are spoilt: their leftmost column of pixels is pure red (255, 0, 0) from top to bottom. Leave "
        "those out, and show the last good picture before each of them longer by its time, so that the whole "
        "takes as long as now. The first picture is good.",
        """
shown = []
for number, time in old:
    if all(pictures[number].getpixel((0, y)) == (255, 0, 0) for y in range(pictures[number].height)):
        shown[-1] = (shown[-1][0], shown[-1][1] + time)
    else:
        shown.append((number, time))
""",
        "shown = [one for one in old if pictures[one[0]].getpixel((0, 0)) != (255, 0, 0)]",
        5,
    ),
    Change(
        "It is too slow: halve the time of every picture; where half a hundredth of a second is left over, round it "
        "up; and no picture may have less than 4 hundredths. Except the last one: it stays for 150 hundredths.",
        "shown = [(number, max(4, (time + 1) // 2)) for number, time in old[:-1]] + [(old[-1][0], 150)]",
        "shown = [(number, max(4, time // 2)) for number, time in old[:-1]] + [(old[-1][0], 150)]",
        3,
    ),
    Change(
        "Somebody dropped the pictures and picked them up in any order. /work/order.txt has the right one, one line "
        "for each picture to be shown: its number in the present file, counted from 1, and the milliseconds it has to "
        "stay (multiples of 10). `=` instead of the milliseconds means the time it has now. Some pictures are shown "
        "twice, one is not wanted any more.",
        """
shown = []
for line in open("/work/order.txt"):
    number, time = line.split()
    shown.append((int(number) - 1, old[int(number) - 1][1] if time == "=" else int(time) // 10))
""",
        """
shown = []
for place, line in enumerate(open("/work/order.txt")):
    number, time = line.split()
    shown.append((int(number) - 1, old[place % len(old)][1] if time == "=" else int(time) // 10))
""",
        0,
    ),
)
BY_CONVERT = """
import os, subprocess, tempfile
from PIL import Image
folder = tempfile.mkdtemp()
subprocess.run(["convert", __OLD__, "-coalesce", folder + "/%03d.png"], check=True)
times = subprocess.run(["identify", "-format", "%T\\n", __OLD__], capture_output=True, text=True, check=True).stdout
old = [(number, int(time)) for number, time in enumerate(times.split())]
pictures = [Image.open(f"{folder}/{number:03d}.png").convert("RGB") for number, _ in old]
PLAN
command = ["convert", "-loop", str(__PLAYS__)]
for number, time in shown:
    command += ["(", f"{folder}/{number:03d}.png", "-set", "delay", str(time), ")"]
subprocess.run([*command, "-set", "dispose", "none", __NEW__], check=True)
"""
BY_PIL = """
from PIL import Image, ImageSequence
film = Image.open(__OLD__)
old, pictures = [], []
for number, picture in enumerate(ImageSequence.Iterator(film)):
    old.append((number, picture.info["duration"] // 10))
    pictures.append(picture.convert("RGB"))
PLAN
first, *others = [pictures[number] for number, _ in shown]
times = [10 * time for _, time in shown]
first.save(__NEW__, save_all=True, append_images=others, duration=times, loop=__LOOP__, optimize=False)
"""
VERIFY_LOOP = """
import hashlib

NEW, SIZE, LOOP = __FILE__
SHOWN = __SHOWN__


def blocks(raw, at):
    whole = b""
    while raw[at]:
        whole += raw[at + 1 : at + 1 + raw[at]]
        at += 1 + raw[at]
    return whole, at + 1


def indices(packed, width, count):
    clear, found, bits, held = 1 << width, bytearray(), 0, 0
    table, size, before = {}, width + 1, b""
    for byte in packed:
        held |= byte << bits
        bits += 8
        while bits >= size:
            code, held, bits = held & (1 << size) - 1, held >> size, bits - size
            if code == clear:
                table = {one: bytes([one]) for one in range(clear)} | {clear: b"", clear + 1: b""}
                size, before = width + 1, b""
                continue
            if code == clear + 1 or len(found) >= count:
                return found
            word = table.get(code, before + before[:1])
            found += word
            if before and len(table) < 4096:
                table[len(table)] = before + word[:1]
            before = word
            if len(table) == 1 << size and size < 12:
                size += 1
    return found


def rows_of(height, interlaced):
    if not interlaced:
        return range(height)
    return [*range(0, height, 8), *range(4, height, 8), *range(2, height, 4), *range(1, height, 2)]


def colours(raw, at, flags):
    count = 2 << (flags & 7) if flags & 128 else 0
    return [raw[at + 3 * one : at + 3 * one + 3] for one in range(count)], at + 3 * count


def animation(box):
    raw = box.read(NEW)
    assert raw[:6] in (b"GIF87a", b"GIF89a"), "no GIF"
    size = [int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little")]
    assert size == SIZE
    common, at = colours(raw, 13, raw[10])
    canvas, shown, loop, control = [b""] * (size[0] * size[1]), [], None, bytes(4)
    while raw[at] != 0x3B:
        if raw[at] == 0x21:
            label, (body, at) = raw[at + 1], blocks(raw, at + 2)
            if label == 0xF9:
                control = body
            if label == 0xFF and body.startswith(b"NETSCAPE2.0\\x01"):
                loop = int.from_bytes(body[12:14], "little")
            continue
        assert raw[at] == 0x2C, "an unknown block"
        left, top, w, h = (int.from_bytes(raw[at + n : at + n + 2], "little") for n in (1, 3, 5, 7))
        flags = raw[at + 9]
        own, at = colours(raw, at + 10, flags)
        packed, after = blocks(raw, at + 1)
        pixels, kept, table = indices(packed, raw[at], w * h), list(canvas), own or common
        for number, y in enumerate(rows_of(h, flags & 64)):
            for x, index in enumerate(pixels[number * w : (number + 1) * w]):
                if not (control[0] & 1 and index == control[3]):
                    canvas[(top + y) * size[0] + left + x] = table[index]
        shown.append([hashlib.sha256(b"".join(canvas)).hexdigest()[:24], control[1] + 256 * control[2]])
        if len(shown) > 1 and shown[-2][0] == shown[-1][0]:
            shown[-2][1] += shown.pop()[1]
        if control[0] >> 2 & 7 == 2:
            for y in range(top, top + h):
                canvas[y * size[0] + left : y * size[0] + left + w] = [b""] * w
        elif control[0] >> 2 & 7 == 3:
            canvas = kept
        control, at = bytes(4), after
    return shown, loop


def test_pictures_in_order(box):
    assert [picture for picture, _ in animation(box)[0]] == [picture for picture, _ in SHOWN]


def test_times(box):
    assert [time for _, time in animation(box)[0]] == [time for _, time in SHOWN]


def test_loop_count(box):
    assert animation(box)[1] == LOOP
"""


def _pictures(rng: Random, red: set[int]) -> list[bytes]:
    """A ball that moves through a still room; pixels in red, green and blue."""
    wall, floor, ball, lamp = (bytes(rng.randrange(20, 236) for _ in range(3)) for _ in range(4))
    x, y = rng.randrange(2, 5), rng.randrange(2, 6)
    found = []
    for number in range(COUNT):
        rows = [[wall if line < 13 else floor] * WIDTH for line in range(HEIGHT)]
        rows[2][20:25] = [lamp] * 5
        for line in range(y + number, y + number + 4):
            rows[line][x + 2 * number : x + 2 * number + 5] = [ball] * 5
        if number in red:
            for row in rows:
                row[0] = b"\xff\0\0"
        found.append(b"".join(b"".join(row) for row in rows))
    return found


def _plain(picture: bytes) -> str:
    """The picture as a PPM file of numbers."""
    lines = [picture[at : at + 3 * WIDTH] for at in range(0, len(picture), 3 * WIDTH)]
    return f"P3\n{WIDTH} {HEIGHT}\n255\n" + "".join(" ".join(map(str, line)) + "\n" for line in lines)


def _order(rng: Random) -> list[tuple[int, int | None]]:
    """Pictures to be shown, with their times or none for the present ones."""
    numbers = [*range(COUNT), *rng.sample(range(COUNT), 3)]
    unwanted = rng.choice([number for number in range(COUNT) if numbers.count(number) == 1])
    numbers.remove(unwanted)
    rng.shuffle(numbers)
    while any(one == other for one, other in pairwise(numbers)):
        rng.shuffle(numbers)
    return [(number, rng.choice((None, rng.randint(3, 60)))) for number in numbers]


def _expected(kind: int, times: list[int], red: set[int], order: list[tuple[int, int | None]]) -> Shown:
    if kind == 0:
        return [(number, times[number]) for number in (*range(COUNT), *range(COUNT - 2, 0, -1))]
    if kind == 1:
        good = [number for number in range(COUNT) if number not in red]
        ends = [*good[1:], COUNT]
        return [(number, sum(times[number:end])) for number, end in zip(good, ends, strict=True)]
    if kind == 2:
        return [(number, max(4, -(-time // 2))) for number, time in enumerate(times[:-1])] + [(COUNT - 1, 150)]
    return [(number, times[number] if time is None else time) for number, time in order]


def loop_timing(seed: int, context: Context) -> Draft:
    """An animation with other times or another order of its pictures."""
    rng, kind = chance(DOMAIN, "loop_timing", seed), seed % len(CHANGES)
    change = CHANGES[kind]
    red = set(rng.sample(range(1, COUNT), 3)) if kind == 1 else set()
    pictures, times = _pictures(rng, red), [rng.randrange(5, 40) for _ in range(COUNT)]
    times[3], times[5] = 6, 17
    order = _order(rng)
    if kind == 3:
        rng.shuffle(pictures)
    digests = [hashlib.sha256(picture).hexdigest()[:24] for picture in pictures]
    shown = [[digests[number], time] for number, time in _expected(kind, times, red, order)]
    name = rng.choice(("ball", "wait", "intro", "banner", "walk"))
    old, new = f"/work/{name}.gif", f"/work/{name}_new.gif"
    by_convert, by_pil, wrong = (
        filled(script, old=old, new=new, loop=change.loop, plays=_plays(change)).replace("PLAN", plan.strip())
        for script, plan in ((BY_CONVERT, change.plan), (BY_PIL, change.plan), (BY_CONVERT, change.wrong))
    )
    files = [TaskFile(path=f"/root/made/{number}.ppm", text=_plain(one)) for number, one in enumerate(pictures)]
    if kind == 3:
        lines = [f"{number + 1} {'=' if time is None else 10 * time}\n" for number, time in order]
        files.append(TaskFile(path="/work/order.txt", text="".join(lines)))
    parts = " ".join(f"-delay {time} /root/made/{number}.ppm" for number, time in enumerate(times))
    return Draft(
        family="loop_timing",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=_asked(old, new, change),
        files=tuple(files),
        setup=(f"convert -loop 1 {parts} -layers OptimizeFrame {old}", "rm -r /root/made"),
        solution=(python(by_convert),),
        right=(Variant(name="by_a_library", commands=(python(by_pil),)),),
        weak=_wrong(by_convert, wrong, old, kind),
        verifier=filled(VERIFY_LOOP, file=(new, [WIDTH, HEIGHT], change.loop), shown=shown),
    )


def _asked(old: str, new: str, change: Change) -> str:
    return (
        f"The animation {old} must change before it goes on the start page. {change.said} Save the result as {new}, "
        f"again an animated GIF of the same size, with {change.loop} as the number that is stored in its NETSCAPE "
        "extension for loops. The old file stores only what changes from picture to picture, but what counts is what "
        "one sees: the pictures must look exactly like now, pixel by pixel, in the right order, each for the right "
        "time in hundredths of a second. How the new file stores them is up to you (equal pictures that follow one "
        "another count as one, with their times added)."
    )


def _wrong(by_convert: str, mistaken: str, old: str, kind: int) -> tuple[Variant, ...]:
    loop = altered(by_convert, (f"str({_plays(CHANGES[kind])})", '"1"'))
    parted = altered(by_convert, (f'"{old}", "-coalesce", ', f'"{old}", '))
    return (
        Variant(name="usual_mistake", commands=(python(mistaken),)),
        Variant(name="loop_of_before", commands=(python(loop),)),
        Variant(name="same_time_for_all", commands=(python(altered(by_convert, ("str(time)", '"10"'))),)),
        # Parts in their old order still show whole pictures.
        *((Variant(name="parts_instead_of_pictures", commands=(python(parted),)),) if kind != 2 else ()),
    )


def _plays(change: Change) -> int:
    """What ImageMagick is told: it takes how often all is shown, and stores how often it is repeated."""
    return change.loop + 1 if change.loop else 0


FAMILIES: Mapping[str, Make] = {"loop_timing": loop_timing}
