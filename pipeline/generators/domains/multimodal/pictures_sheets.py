"""Icons gathered on one sheet, with a description of where each one lies. Their files come with the image."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python
from pipeline.generators.drafts import Context, Draft, Make, TaskFile, chance, filled
from pipeline.types import Variant

SIZES = (32, 22, 16)
NAMES = (
    "audio-card",
    "battery",
    "camera-photo",
    "computer",
    "drive-harddisk",
    "folder",
    "input-gaming",
    "input-keyboard",
    "input-mouse",
    "media-floppy",
    "media-optical",
    "printer",
    "start-here",
    "user-home",
    "user-trash",
    "video-display",
)
Box = tuple[int, int, int, int]
"""Left, top, width, height."""


@dataclass(frozen=True)
class Form:
    """How a sheet is wanted: its width, the gap between icons, and how it is described."""

    width: int
    gap: int
    trimmed: bool
    file: str
    said: str
    writes: str
    """Expression of a solution: the text of the description, out of `placed`."""
    reads: str
    """Function of the verifier: the description as a list of names with their numbers."""


FORMS = (
    Form(
        100,
        1,
        False,
        "/work/sheet.json",
        'a JSON object with the one key "frames"; its value is an object with the icons as keys (as in the list, and '
        'in its order) and objects with the integers "x", "y", "w" and "h" as values',
        'json.dumps({"frames": {name: dict(zip("xywh", box[:4])) for name, box in placed}})',
        """
def described(box):
    data = json.loads(box.text(PLACES))
    assert list(data) == ["frames"]
    assert all(sorted(one) == ["h", "w", "x", "y"] for one in data["frames"].values())
    return [(name, [one[key] for key in "xywh"]) for name, one in data["frames"].items()]
""",
    ),
    Form(
        90,
        2,
        True,
        "/work/sheet.csv",
        "a CSV with the header `name,x,y,w,h,left,top` and one line for each icon, named as in the list and in "
        "its order; left and top say how many columns and rows were cut off there",
        '"name,x,y,w,h,left,top\\n" + "".join(",".join(map(str, (name, *box))) + "\\n" for name, box in placed)',
        """
def described(box):
    lines = list(csv.reader(box.text(PLACES).splitlines()))
    assert lines[0] == ["name", "x", "y", "w", "h", "left", "top"]
    return [(line[0], [int(cell) for cell in line[1:]]) for line in lines[1:]]
""",
    ),
    Form(
        108,
        3,
        False,
        "/work/sheet.css",
        "a style sheet of one line for each icon in the order of the list, exactly like `.i-32-folder { width: 32px; "
        "height: 32px; background-position: -7px -40px; }` for 32/folder that lies 7 pixels from the left and 40 "
        "from the top (a zero is -0px)",
        '"".join(".i-%s { width: %dpx; height: %dpx; background-position: -%dpx -%dpx; }\\n"'
        ' % (name.replace("/", "-"), box[2], box[3], box[0], box[1]) for name, box in placed)',
        """
RULE = (
    r"\\.i-(\\d+)-([a-z-]+) \\{ width: (\\d+)px; height: (\\d+)px; "
    r"background-position: -(\\d+)px -(\\d+)px; \\}"
)


def described(box):
    rules = [re.fullmatch(RULE, line) for line in box.text(PLACES).splitlines()]
    assert all(rules), "a line is no such rule"
    return [(f"{one[1]}/{one[2]}", [int(one[number]) for number in (5, 6, 3, 4)]) for one in rules]
""",
    ),
    Form(
        84,
        0,
        True,
        "/work/sheet.ini",
        "an INI file with a section for each icon, in the order of the list, named like it, with the keys x, y, w, h, "
        "and left and top, which say how many columns and rows were cut off there",
        '"".join(f"[{name}]\\n" + "".join(f"{key} = {value}\\n" for key, value in '
        'zip(("x", "y", "w", "h", "left", "top"), box)) for name, box in placed)',
        """
def described(box):
    parser = configparser.ConfigParser()
    parser.read_string(box.text(PLACES))
    assert all(sorted(parser[name]) == ["h", "left", "top", "w", "x", "y"] for name in parser.sections())
    keys = ("x", "y", "w", "h", "left", "top")
    return [(name, [int(parser[name][key]) for key in keys]) for name in parser.sections()]
""",
    ),
)
SHELVES = """
import configparser, csv, json
from PIL import Image
WIDTH, HEIGHT, GAP, TRIMMED = __SHEET__
names = open("/work/icons.txt").read().split()
icons = {}
for name in names:
    icon = Image.open(f"/srv/tango/{name}.png").convert("RGBA")
    area = icon.getchannel("A").getbbox() if TRIMMED else (0, 0, *icon.size)
    icons[name] = icon.crop(area), area
shelves, found, bottom = [], {}, 0
for name in sorted(names, key=lambda one: -icons[one][0].height):
    icon, area = icons[name]
    shelf = next((one for one in shelves if one[0] + icon.width <= WIDTH), None)
    if shelf is None:
        shelf = [0, bottom]
        shelves.append(shelf)
        bottom += icon.height + GAP
    found[name] = (*shelf, *icon.size, *area[:2])
    shelf[0] += icon.width + GAP
placed = [(name, found[name][: 6 if TRIMMED else 4]) for name in names]
sheet = Image.new("RGBA", (WIDTH, HEIGHT))
for name, box in placed:
    sheet.paste(icons[name][0], box[:2])
sheet.save("/work/sheet.png")
open(__FILE__, "w").write(WRITES)
"""
SEARCHED = """
import json, subprocess
from PIL import Image
WIDTH, HEIGHT, GAP, TRIMMED = __SHEET__
names = open("/work/icons.txt").read().split()
found, command = {}, ["convert", "-size", f"{WIDTH}x{HEIGHT}", "xc:none", "-compose", "copy"]
areas = {}
for name in names:
    icon = Image.open(f"/srv/tango/{name}.png")
    areas[name] = icon.getchannel("A").getbbox() if TRIMMED else (0, 0, *icon.size)
for name in sorted(names, key=lambda one: (areas[one][1] - areas[one][3]) * (areas[one][2] - areas[one][0])):
    left, top, right, low = areas[name]
    w, h = right - left, low - top
    x, y = next(
        (x, y)
        for y in range(HEIGHT - h + 1)
        for x in range(WIDTH - w + 1)
        if all(
            x + w + GAP <= a or a + c + GAP <= x or y + h + GAP <= b or b + d + GAP <= y
            for a, b, c, d, *_ in found.values()
        )
    )
    found[name] = (x, y, w, h, left, top)[: 6 if TRIMMED else 4]
    part = ["(", f"/srv/tango/{name}.png", "-crop", f"{w}x{h}+{left}+{top}", "+repage", ")"]
    command += [*part, "-geometry", f"+{x}+{y}", "-composite"]
subprocess.run([*command, "-depth", "8", "PNG32:/work/sheet.png"], check=True)
placed = [(name, found[name]) for name in names]
open(__FILE__, "w").write(WRITES)
"""
VERIFY_SHEET = """
import configparser
import csv
import hashlib
import json
import re
import struct
import zlib

PLACES = __PLACES__
ICONS = __ICONS__
WIDTH, HEIGHT, GAP = __LIMITS__

READER

def sheet(box):
    raw = box.read("/work/sheet.png")
    assert raw[:8] == b"\\x89PNG\\r\\n\\x1a\\n"
    place, packed = 8, b""
    while place < len(raw):
        (size,) = struct.unpack_from(">I", raw, place)
        if raw[place + 4 : place + 8] == b"IDAT":
            packed += raw[place + 8 : place + 8 + size]
        place += size + 12
    assert raw[24:29] == bytes([8, 6, 0, 0, 0]), "not 8 bits of red, green, blue and alpha, or interlaced"
    width, height = struct.unpack(">II", raw[16:24])
    assert width <= WIDTH and height <= HEIGHT
    data = zlib.decompressobj().decompress(packed, 4 * WIDTH * HEIGHT + HEIGHT)
    above, rows = bytearray(4 * width), []
    for y in range(height):
        how, *row = data[y * (4 * width + 1) : (y + 1) * (4 * width + 1)]
        assert len(row) == 4 * width, "the sheet ends early"
        for x in range(4 * width):
            left, up = (row[x - 4] if x > 3 else 0), above[x]
            corner = above[x - 4] if x > 3 else 0
            if how == 4:
                guess = left + up - corner
                nearest = min((abs(guess - one), rank) for rank, one in enumerate((left, up, corner)))
                row[x] = row[x] + (left, up, corner)[nearest[1]] & 255
            else:
                row[x] = row[x] + (0, left, up, (left + up) // 2)[how] & 255
        above = row
        rows.append([bytes(row[x : x + 4]) if row[x + 3] else bytes(4) for x in range(0, 4 * width, 4)])
    return rows


def test_every_icon_is_described_in_the_order_of_the_list(box):
    assert [(name, numbers[2:]) for name, numbers in described(box)] == [(name, shape) for name, shape, _ in ICONS]


def test_icons_lie_on_the_sheet(box):
    places = [numbers[:4] for _, numbers in described(box)]
    assert all(x >= 0 and y >= 0 and x + w <= WIDTH and y + h <= HEIGHT for x, y, w, h in places)


def test_icons_keep_their_distance(box):
    places = [numbers[:4] for _, numbers in described(box)]
    close = [
        (number, other)
        for number, (x, y, w, h) in enumerate(places)
        for other, (a, b, c, d) in enumerate(places[:number])
        if max(a - x - w, x - a - c) < GAP and max(b - y - h, y - b - d) < GAP
    ]
    assert close == []


def test_sheet_has_these_pixels_at_these_places(box):
    rows = sheet(box)
    for (name, numbers), (_, _, digest) in zip(described(box), ICONS, strict=True):
        x, y, w, h = numbers[:4]
        area = b"".join(b"".join(row[x : x + w]) for row in rows[y : y + h])
        assert hashlib.sha256(area).hexdigest()[:32] == digest, name


def test_the_rest_is_clear(box):
    rows = sheet(box)
    for _, (x, y, w, h, *_) in described(box):
        for row in rows[y : y + h]:
            row[x : x + w] = [bytes(4)] * w
    assert not any(any(pixel) for row in rows for pixel in row)
"""


def icon(content: bytes) -> list[list[bytes]]:
    """Rows of pixels of a PNG of 8 bits with red, green, blue and alpha; clear ones are all alike.

    Raises ValueError for another form of PNG.
    """
    if content[24:29] != bytes([8, 6, 0, 0, 0]):
        raise ValueError("no PNG of 8 bits with alpha")
    place, packed = 8, b""
    while place < len(content):
        (size,) = struct.unpack_from(">I", content, place)
        if content[place + 4 : place + 8] == b"IDAT":
            packed += content[place + 8 : place + 8 + size]
        place += size + 12
    width, height = struct.unpack(">II", content[16:24])
    data, line = zlib.decompress(packed), 4 * width
    above, rows = [0] * line, []
    for y in range(height):
        above = _unfiltered(data[y * (line + 1)], data[y * (line + 1) + 1 : (y + 1) * (line + 1)], above)
        rows.append([bytes(above[x : x + 4]) if above[x + 3] else bytes(4) for x in range(0, line, 4)])
    return rows


def _unfiltered(how: int, line: bytes, above: Sequence[int]) -> list[int]:
    row: list[int] = []
    for x, value in enumerate(line):
        a, b, c = (row[x - 4], above[x], above[x - 4]) if x > 3 else (0, above[x], 0)
        paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        row.append((value + (0, a, b, (a + b) // 2, paeth)[how]) & 255)
    return row


def _visible(rows: list[list[bytes]]) -> Box:
    """The smallest part of an icon outside which all is clear."""
    ys = [y for y, row in enumerate(rows) if any(pixel[3] for pixel in row)]
    xs = [x for x in range(len(rows[0])) if any(row[x][3] for row in rows)]
    return xs[0], ys[0], xs[-1] - xs[0] + 1, ys[-1] - ys[0] + 1


def _height(shapes: Iterable[tuple[int, int]], form: Form) -> int:
    """How high a sheet gets when icons stand on shelves, the highest ones first."""
    shelves: list[int] = []
    bottom = 0
    for width, height in sorted(shapes, key=lambda shape: -shape[1]):
        for number, used in enumerate(shelves):
            if used + width <= form.width:
                shelves[number] += width + form.gap
                break
        else:
            shelves.append(width + form.gap)
            bottom += height + form.gap
    return bottom - form.gap


def icon_sheet(seed: int, context: Context) -> Draft:
    """Icons of several sizes packed on one small sheet."""
    rng, form = chance(DOMAIN, "icon_sheet", seed), FORMS[seed % len(FORMS)]
    names = [f"{size}/{name}" for size in SIZES for name in rng.sample(NAMES, rng.randint(4, 6))]
    rng.shuffle(names)
    icons, shapes = [], []
    for name in names:
        rows = icon(context.read(f"tango/{name}.png"))
        left, top, width, height = _visible(rows) if form.trimmed else (0, 0, len(rows[0]), len(rows))
        pixels = b"".join(b"".join(row[left : left + width]) for row in rows[top : top + height])
        digest = hashlib.sha256(pixels).hexdigest()[:32]
        icons.append((name, [width, height, *((left, top) if form.trimmed else ())], digest))
        shapes.append((width, height))
    height = _height(shapes, form) + 2
    solution, searched = (
        filled(script, sheet=(form.width, height, form.gap, form.trimmed), file=form.file).replace(
            "WRITES", form.writes
        )
        for script in (SHELVES, SEARCHED)
    )
    return Draft(
        family="icon_sheet",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=_asked(form, height),
        files=(TaskFile(path="/work/icons.txt", text="".join(f"{name}\n" for name in names)),),
        solution=(python(solution),),
        right=(Variant(name="first_free_place", commands=(python(searched),)),),
        weak=_wrong(solution, form),
        verifier=filled(
            VERIFY_SHEET.replace("READER", form.reads.strip() + "\n"),
            places=form.file,
            icons=icons,
            limits=(form.width, height, form.gap),
        ),
        contexts=("tango",),
    )


def _asked(form: Form, height: int) -> str:
    pixels = f"{form.gap} clear pixel{'s' * (form.gap > 1)}"
    gap = f"at least {pixels} between any two icons, across or down (none is needed at the edge)"
    apart = f"leave {gap}" if form.gap else "icons may touch, but not overlap"
    kept = (
        "Of each icon only the smallest rectangle that holds every pixel with an alpha above 0 goes on the sheet"
        if form.trimmed
        else "Each icon goes on the sheet whole, with its clear edges"
    )
    return (
        "Our page loads far too many little pictures, please put them on one sheet. /work/icons.txt lists the icons, "
        "one a line, as SIZE/NAME; the files are /srv/tango/SIZE/NAME.png. Make /work/sheet.png, not interlaced, with "
        f"8 bits each of red, green, blue and alpha (colour type 6), at most {form.width} pixels wide and {height} "
        f"high. You choose the places; {apart}. {kept}, neither scaled nor turned; every pixel keeps its exact "
        "colour and alpha (of a pixel with alpha 0 the colour does not matter), and what no icon covers has alpha 0. "
        f"Where things lie goes into {form.file}: {form.said}. "
        "Positions count from the top left corner of the sheet, which is 0, 0; "
        "width and height are those of the part on the sheet."
    )


def _wrong(solution: str, form: Form) -> tuple[Variant, ...]:
    in_order = altered(solution, ("sorted(names, key=lambda one: -icons[one][0].height)", "names"))
    blended = altered(solution, ("icons[name][0], box[:2])", "icons[name][0], box[:2], icons[name][0])"))
    close = altered(solution, ("icon.width + GAP\n", "icon.width + GAP - 1\n"))
    trimmed = altered(solution, ("if TRIMMED else (0, 0, *icon.size)", "if not TRIMMED else (0, 0, *icon.size)"))
    return (
        Variant(name="taken_as_they_come", commands=(python(in_order),)),
        Variant(name="blended_twice", commands=(python(blended),)),
        Variant(name="a_pixel_too_close", commands=(python(close),)),
        Variant(name="trimmed_the_other_way", commands=(python(trimmed),)),
    )


FAMILIES: Mapping[str, Make] = {"icon_sheet": icon_sheet}
