"""Families of pictures: what is in them, and sheets made of them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

from pipeline.generators.drafts import Context, Draft, Make, TaskFile, chance, filled
from pipeline.types import Variant

Pixel = tuple[int, int, int]
Picture = list[list[Pixel]]
"""Rows of pixels."""

_NAMES = ("harbour", "meadow", "station", "kitchen", "attic", "orchard", "bridge", "cellar", "garden", "market")


def _python(text: str) -> str:
    return f"python3 -c {shlex.quote(text.strip())}"


def _plain(picture: Picture) -> str:
    """The picture as a PPM file of numbers."""
    head = f"P3\n# scanned\n{len(picture[0])} {len(picture)}\n255\n"
    return head + "".join(" ".join(f"{r} {g} {b}" for r, g, b in row) + "\n" for row in picture)


def _patches(rng: Random, width: int, height: int, colours: Sequence[Pixel]) -> Picture:
    """A picture of rectangles one over the other."""
    picture = [[colours[0]] * width for _ in range(height)]
    for colour in colours[1:]:
        left, top = rng.randrange(width - 2), rng.randrange(height - 2)
        for y in range(top, min(height, top + rng.randint(2, height))):
            for x in range(left, min(width, left + rng.randint(2, width))):
                picture[y][x] = colour
    return picture


_COUNT = """
import glob
from collections import Counter
from PIL import Image
for path in sorted(glob.glob("scans/*.ppm")):
    pixels = list(Image.open(path).convert("RGB").getdata())
    PREPARE
    colour, n = min(Counter(pixels).items(), key=lambda one: (-one[1], one[0]))
    print(path[6:-4], "#%02x%02x%02x" % colour, len(set(pixels)), n * 1000 // len(pixels), sep=SEPARATOR)
"""
Choice = Callable[[Picture], list[Pixel]]
_SHARES: tuple[tuple[str, str, Choice], ...] = (
    ("all pixels", "", lambda picture: [pixel for row in picture for pixel in row]),
    (
        "its border only, the outermost pixels on all four sides, each counted once",
        "w, h = Image.open(path).size; pixels = [p for i, p in enumerate(pixels)"
        " if i // w in (0, h - 1) or i % w in (0, w - 1)]",
        lambda picture: [*picture[0], *picture[-1], *(row[x] for row in picture[1:-1] for x in (0, -1))],
    ),
    (
        "all pixels that are not pure white",
        "pixels = [p for p in pixels if p != (255, 255, 255)]",
        lambda picture: [pixel for row in picture for pixel in row if pixel != (255, 255, 255)],
    ),
    (
        "its upper half only, which is the first half of its rows, the middle one not included",
        "w, h = Image.open(path).size; pixels = pixels[: h // 2 * w]",
        lambda picture: [pixel for row in picture[: len(picture) // 2] for pixel in row],
    ),
)


def colour_table(seed: int, context: Context) -> Draft:
    """The commonest colour of each picture in a table."""
    rng = chance("multimodal", "colour_table", seed)
    what, prepare, chosen = _SHARES[seed % 4]
    separator = (",", ";", "\t", "|")[(seed + rng.randrange(4)) % 4]
    files, expected = [], []
    for name in sorted(rng.sample(_NAMES, 6)):
        white: list[Pixel] = [(255, 255, 255)]
        colours = [*white, *((rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(5))]
        picture = _patches(rng, rng.randint(9, 15), rng.randint(7, 11), colours)
        pixels = chosen(picture) or white
        colour, count = min(Counter(pixels).items(), key=lambda one: (-one[1], one[0]))
        hexadecimal = "#{:02x}{:02x}{:02x}".format(*colour)
        expected.append([name, hexadecimal, str(len(set(pixels))), str(count * 1000 // len(pixels))])
        files.append(TaskFile(path=f"/work/scans/{name}.ppm", text=_plain(picture)))
    count_all = _COUNT.replace("SEPARATOR", repr(separator))
    solution = count_all.replace("PREPARE", prepare or "pass")
    wrong = "pixels = pixels[1:]" if seed % 4 else "pixels.sort(); del pixels[::2]"
    shown = {"\t": "tabs"}.get(separator, f"`{separator}`")
    return Draft(
        family="colour_table",
        seed=seed,
        difficulty="easy",
        language="python",
        instruction="Which colour rules in each scan in /work/scans? Put a table into /work/colours.txt without "
        "a header, one line for each picture, sorted by its name, the fields separated by "
        f"{shown}: the name of the file without .ppm, the commonest colour as # and six lower-case hexadecimal digits "
        "(of colours that are equally common the one with the smaller red, then green, then blue), how many different "
        f"colours there are, and the share of the commonest in thousandths, rounded down. Of each picture take {what}.",
        files=tuple(files),
        solution=(f"{_python(solution)} > colours.txt",),
        right=(Variant(name="written_line_by_line", commands=(_by_hand(seed, separator),)),),
        weak=(
            Variant(name="other_pixels", commands=(f"{_python(count_all.replace('PREPARE', wrong))} > colours.txt",)),
            Variant(name="percent", commands=(f"{_python(solution.replace('1000', '100'))} > colours.txt",)),
            Variant(name="upper_case", commands=(f"{_python(solution.replace('%02x', '%02X'))} > colours.txt",)),
        ),
        verifier=filled(
            """
SEPARATOR = __SEPARATOR__
TABLE = __TABLE__


def fields(box):
    return [line.split(SEPARATOR) for line in box.text("/work/colours.txt").splitlines()]


def test_every_scan_has_its_line_in_order(box):
    assert [line[0] for line in fields(box)] == [line[0] for line in TABLE]


def test_colours_and_numbers(box):
    assert fields(box) == TABLE
""",
            separator=separator,
            table=expected,
        ),
    )


def _by_hand(seed: int, separator: str) -> str:
    """The same without any library of pictures."""
    part = (
        "pass",
        "px = [p for i, p in enumerate(px) if i // w in (0, h - 1) or i % w in (0, w - 1)]",
        "px = [p for p in px if p != (255, 255, 255)]",
        "px = px[: h // 2 * w]",
    )[seed % 4]
    text = f"""
import os
with open("/work/colours.txt", "w") as out:
    for name in sorted(os.listdir("/work/scans")):
        words = [l for l in open("/work/scans/" + name) if not l.startswith("#")]
        w, h, _, *v = map(int, "".join(words).split()[1:])
        px = list(zip(v[::3], v[1::3], v[2::3]))
        {part}
        best = sorted(set(px), key=lambda p: (-px.count(p), p))[0]
        row = [name[:-4], "#" + bytes(best).hex(), str(len(set(px))), str(px.count(best) * 1000 // len(px))]
        out.write({separator!r}.join(row) + "\\n")
"""
    return _python(text)


FAMILIES: Mapping[str, Make] = {"colour_table": colour_table}
