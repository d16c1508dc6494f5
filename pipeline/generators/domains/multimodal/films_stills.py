"""Single pictures out of a film."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pipeline.generators.domains.multimodal.films_files import scenery
from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python, sent
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

WIDTH, HEIGHT = 40, 24


@dataclass(frozen=True)
class Order:
    """Which pictures are wanted of a film, and in which form."""

    rate: int
    film: str
    codec: str
    upright: bool
    """Turned by a quarter clockwise."""
    half: str
    """The part of the picture that is kept, as of its columns: all, left, right."""


ORDERS = (
    Order(25, "/work/visit.mkv", "-c:v ffv1 -pix_fmt bgr0", False, "all"),
    Order(12, "/work/lens.avi", "-c:v huffyuv -pix_fmt rgb24", False, "left"),
    Order(30, "/work/gate.mov", "-c:v qtrle -pix_fmt rgb24", True, "all"),
    Order(24, "/work/rig.avi", "-c:v rawvideo -pix_fmt bgr24", False, "right"),
)
PICK = """
import subprocess
rate, film, turned, half = __ORDER__
width, height = __SIZE__
raw = subprocess.run(
    ["ffmpeg", "-v", "error", "-i", film, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
).stdout
for line in open("/work/moments.txt"):
    minutes, rest = line.split()[0].split(":")
    seconds, thousandths = map(int, rest.split("."))
    number = (seconds * 1000 + thousandths) * rate // 1000
    frame = raw[number * width * height * 3 :][: width * height * 3]
    rows = [[frame[(y * width + x) * 3 :][:3] for x in range(width)] for y in range(height)]
    if half == "left":
        rows = [row[: width // 2] for row in rows]
    if half == "right":
        rows = [row[width // 2 :] for row in rows]
    if turned:
        rows = [list(row) for row in zip(*rows[::-1])]
    with open(f"/work/stills/{line.split()[1]}.ppm", "wb") as out:
        out.write(b"P6\\n%d %d\\n255\\n" % (len(rows[0]), len(rows)))
        out.write(b"".join(b"".join(row) for row in rows))
"""
VERIFY_STILLS = """
import hashlib
import os

STILLS = __STILLS__
WIDTH, HEIGHT = __SHAPE__


def still(box, name):
    raw, fields = box.read(f"/work/stills/{name}.ppm"), []
    place = 0
    while len(fields) < 4:
        while raw[place : place + 1].isspace():
            place += 1
        if raw[place : place + 1] == b"#":
            place = raw.index(b"\\n", place)
            continue
        end = place
        while end < len(raw) and not raw[end : end + 1].isspace():
            end += 1
        assert end > place, f"{name} has no whole head"
        fields.append(raw[place:end])
        place = end
    return fields, raw[place + 1 :]


def test_folder_has_the_asked_stills_only(box):
    assert sorted(os.listdir("/work/stills")) == sorted(f"{name}.ppm" for name in STILLS)


def test_heads(box):
    for name in STILLS:
        assert still(box, name)[0] == [b"P6", b"%d" % WIDTH, b"%d" % HEIGHT, b"255"], name


def test_pixels(box):
    assert {name: hashlib.sha1(still(box, name)[1]).hexdigest() for name in STILLS} == STILLS
"""


def _shape(frame: bytes, order: Order) -> tuple[bytes, int, int]:
    rows = [[frame[(y * WIDTH + x) * 3 :][:3] for x in range(WIDTH)] for y in range(HEIGHT)]
    first, last = {"all": (0, WIDTH), "left": (0, WIDTH // 2), "right": (WIDTH // 2, WIDTH)}[order.half]
    rows = [row[first:last] for row in rows]
    if order.upright:
        rows = [[rows[HEIGHT - 1 - y][x] for y in range(HEIGHT)] for x in range(WIDTH)]
    return b"".join(pixel for row in rows for pixel in row), len(rows[0]), len(rows)


def stills(seed: int, context: Context) -> Draft:
    """Pictures at given moments."""
    rng, order = chance(DOMAIN, "stills", seed), ORDERS[seed % len(ORDERS)]
    frames = [scenery(chance(DOMAIN, "scenery", seed), WIDTH, HEIGHT, number, 3) for number in range(36)]
    names = rng.sample(("door", "stairs", "lamp", "window", "sign", "bench", "hedge"), 4)
    moments, wanted = [], {}
    width = height = 0
    for name in names:
        number = rng.randrange(2, 33)
        first, after = -(-number * 1000 // order.rate), -(-(number + 1) * 1000 // order.rate)
        moments.append(f"00:{first // 1000:02d}.{rng.randint(first + (after - first) * 2 // 3, after - 1) % 1000:03d}")
        if int(moments[-1][3:5]) * 1000 + int(moments[-1][6:]) < first:
            moments[-1] = f"00:{first // 1000:02d}.{first % 1000:03d}"
        pixels, width, height = _shape(frames[number], order)
        wanted[name] = hashlib.sha1(pixels, usedforsecurity=False).hexdigest()
    files, setup = sent({"/root/raw": b"".join(frames)})
    made = f"ffmpeg -v error -f rawvideo -pix_fmt rgb24 -s {WIDTH}x{HEIGHT} -r {order.rate} -i /root/raw"
    script = filled(PICK, order=(order.rate, order.film, order.upright, order.half), size=(WIDTH, HEIGHT))
    part = {"all": "The whole picture", "left": "Only the left half", "right": "Only the right half"}[order.half]
    turn = ", turned a quarter clockwise because the camera lay on its side," if order.upright else ""
    other = ("rate // 1000", "rate // 1000 + 1")
    return Draft(
        family="stills",
        seed=seed,
        difficulty="easy",
        language="python",
        instruction=f"Our report needs pictures from the film {order.film}. /work/moments.txt has one per line: the "
        f"moment as minutes:seconds.thousandths, then a name. Save the picture that is on screen at that moment (the "
        f"latest that begins at or before it; the film runs at {order.rate} pictures a second from 0) as "
        f"/work/stills/NAME.ppm, binary PPM (P6) with maxval 255. {part}{turn} is wanted, and the pixels must be "
        "those of the film, neither scaled nor filtered. The film is lossless RGB. Only these files in /work/stills.",
        files=(
            *files,
            TaskFile(
                path="/work/moments.txt",
                text="".join(f"{moment} {name}\n" for moment, name in zip(moments, names, strict=True)),
            ),
        ),
        setup=(*setup, f"{made} {order.codec} {order.film}", "rm /root/raw"),
        solution=("mkdir -p stills", python(script)),
        right=(Variant(name="by_filters", commands=("mkdir -p stills", _filtered(order))),),
        weak=(
            Variant(name="picture_after", commands=("mkdir -p stills", python(altered(script, other)))),
            Variant(
                name="rounded_down_to_the_second",
                commands=(
                    "mkdir -p stills",
                    python(altered(script, ("(seconds * 1000 + thousandths)", "seconds * 1000"))),
                ),
            ),
            Variant(
                name="mirrored",
                commands=(
                    "mkdir -p stills",
                    python(altered(script, ("    if turned:", "    rows.reverse()\n    if turned:"))),
                ),
            ),
        ),
        verifier=filled(VERIFY_STILLS, stills=wanted, shape=(width, height)),
    )


def _filtered(order: Order) -> str:
    """The same by ffmpeg alone."""
    crop = {"all": "", "left": ",crop=iw/2:ih:0:0", "right": ",crop=iw/2:ih:iw/2:0"}[order.half]
    turn = ",transpose=clock" if order.upright else ""
    number = f"$(( (10#${{at:3:2}} * 1000 + 10#${{at:6:3}}) * {order.rate} / 1000 ))"
    return (
        f"while read at name; do n={number}; ffmpeg -nostdin -v error -i {order.film} -vf "
        f'"format=rgb24,select=eq(n\\\\,$n){crop}{turn}" -frames:v 1 -pix_fmt rgb24 stills/$name.ppm || exit 1; '
        "done < moments.txt"
    )
