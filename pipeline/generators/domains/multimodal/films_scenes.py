"""Films that are taken apart where one scene ends and the next begins."""

from __future__ import annotations

import hashlib
from random import Random

from pipeline.generators.domains.multimodal.films_files import scenery
from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python, sent
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

WIDTH, HEIGHT, DARK = 32, 24, 16
KINDS = (
    ("cuts", 25, "longest"),
    ("black", 24, "shortest"),
    ("short", 12, "last"),
    ("black", 30, "last"),
)
RULES = {
    "cuts": "A new scene begins at each frame whose pixels differ from those of the frame before by more than 30 on "
    "the average (mean of the absolute differences of grey values). Every frame belongs to a scene.",
    "black": "Between scenes there are one or more black frames: frames without any pixel above 15. They belong to "
    "no scene; every other frame does, and runs of them are the scenes. Dark is not black.",
    "short": "A new scene begins at each frame whose pixels differ from those of the frame before by more than 30 on "
    "the average (mean of the absolute differences of grey values). What would be a scene of fewer than 4 frames is a "
    "flash and no scene of its own: it belongs to the scene before it, as does whatever such flashes follow directly. "
    "The scene after it begins as usual. The film does not begin with a flash.",
}
FIND = """
import json, subprocess
size = 32 * 24
film = ["ffmpeg", "-v", "error", "-i", "/work/film.mkv", "-f", "rawvideo", "-pix_fmt", "gray", "-"]
raw = subprocess.run(film, capture_output=True, check=True).stdout
frames = [raw[n : n + size] for n in range(0, len(raw), size)]
kind, rate, chosen = __CASE__
scenes = []
for n, frame in enumerate(frames):
    if kind == "black":
        if max(frame) > 15:
            if n and max(frames[n - 1]) > 15:
                scenes[-1][1] = n
            else:
                scenes.append([n, n])
    elif n == 0 or sum(abs(a - b) for a, b in zip(frame, frames[n - 1])) > 30 * size:
        scenes.append([n, n])
    else:
        scenes[-1][1] = n
if kind == "short":
    kept = []
    for first, last in scenes:
        if last - first + 1 < 4:
            kept[-1][1] = last
        else:
            kept.append([first, last])
    scenes = kept
def code(n):
    return f"{n // rate // 60:02d}:{n // rate % 60:02d}:{n % rate:02d}"
told = [{"first": a, "last": b, "in": code(a), "out": code(b + 1)} for a, b in scenes]
json.dump(told, open("/work/scenes.json", "w"))
length = lambda scene: scene[1] - scene[0]
first, last = {"longest": max(scenes, key=length), "shortest": min(scenes, key=length), "last": scenes[-1]}[chosen]
with open("/work/clip.y4m", "wb") as out:
    out.write(b"YUV4MPEG2 W32 H24 F%d:1 Ip A1:1 Cmono\\n" % rate)
    for frame in frames[first : last + 1]:
        out.write(b"FRAME\\n" + frame)
"""
VERIFY_SCENES = """
import hashlib
import json

SCENES = __SCENES__
CLIP = __CLIP__


def clip(box):
    raw = box.read("/work/clip.y4m")
    end = raw.index(b"\\n")
    return raw[:end].decode().split(" "), raw[end + 1 :].split(b"FRAME\\n")[1:]


def test_scenes_lie_where_the_film_changes(box):
    told = json.loads(box.text("/work/scenes.json"))
    assert [[scene["first"], scene["last"]] for scene in told] == [scene[:2] for scene in SCENES]


def test_time_codes(box):
    told = json.loads(box.text("/work/scenes.json"))
    assert [[scene["in"], scene["out"]] for scene in told] == [scene[2:] for scene in SCENES]


def test_clip_is_the_asked_scene(box):
    head, pictures = clip(box)
    assert head[0] == "YUV4MPEG2" and {"W32", "H24", __SPEED__, "Cmono"} <= set(head)
    assert len(pictures) == CLIP[0]
    assert hashlib.sha384(b"".join(pictures)).hexdigest()[:40] == CLIP[1]
"""


def _shot(rng: Random, base: int, length: int) -> list[bytes]:
    """A scene: little moves, and its grey lies around its base."""
    still = [base + value % 20 for value in scenery(rng, WIDTH, HEIGHT, 0)]
    return [bytes(value + rng.randint(0, 6) for value in still) for _ in range(length)]


def _film(rng: Random, kind: str) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Frames, and first and last frame of each scene."""
    frames: list[bytes] = []
    scenes: list[tuple[int, int]] = []
    lengths = [*rng.sample(range(6, 22), 6), rng.randint(9, 11)]
    lengths[rng.randrange(3)], lengths[rng.randrange(3, 6)] = 24, 5
    for number, length in enumerate(lengths):
        first = len(frames)
        frames += _shot(rng, rng.randint(90, 120) if number % 2 else rng.randint(14, 40), length)
        if kind == "short" and number in (1, 3, 4):
            frames += _shot(rng, 210, rng.randint(1, 3))
        scenes.append((first, len(frames) - 1))
        if kind == "black":
            frames += [bytes(rng.randint(0, DARK - 1) for _ in range(WIDTH * HEIGHT)) for _ in range(rng.randint(1, 4))]
    return frames, scenes


def scene_list(seed: int, context: Context) -> Draft:
    """Scenes by a rule, and one of them cut out."""
    rng, case = chance(DOMAIN, "scene_list", seed), KINDS[seed % len(KINDS)]
    kind, rate, chosen = case
    frames, scenes = _film(rng, kind)
    listed = [[first, last, _code(first, rate), _code(last + 1, rate)] for first, last in scenes]
    by_length = sorted(scenes, key=lambda scene: scene[1] - scene[0])
    first, last = {"longest": by_length[-1], "shortest": by_length[0], "last": scenes[-1]}[chosen]
    cut = frames[first : last + 1]
    files, setup = sent({"/root/raw": b"".join(frames)})
    making = f"ffmpeg -v error -f rawvideo -pix_fmt gray -s {WIDTH}x{HEIGHT} -r {rate} -i /root/raw"
    script = filled(FIND, case=case)
    clipped = "ffmpeg -v error -y -i clip.y4m -f rawvideo -pix_fmt gray /tmp/clip && ffmpeg -v error -y -f rawvideo"
    other = {"longest": "last", "shortest": "longest", "last": "shortest"}[chosen]
    loose = ("max(frame) > 15", "sum(frame) > 45 * size") if kind == "black" else ("> 30 * size", "> 130 * size")
    return Draft(
        family="scene_list",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"/work/film.mkv is a silent grey film, {WIDTH}x{HEIGHT}, lossless, {rate} frames per second. "
        f"Find its scenes. {RULES[kind]} Store them in /work/scenes.json, a list in the order of the film with one "
        "object per scene: `first` and `last` (numbers of its first and last frame; the film starts with frame 0), "
        "`in` and `out` (text, minutes:seconds:frames with two digits each, the frames counted from 00 within the "
        f"second; `in` is the time of the first frame, `out` that of the frame after the last one). The {chosen} scene "
        "also goes, pixel for pixel, into /work/clip.y4m: YUV4MPEG2 with W, H, F as in the film (F "
        f"{rate}:1), colour space Cmono, nothing else in the stream than its frames, each behind a line FRAME.",
        files=files,
        setup=(*setup, f"{making} -c:v ffv1 -pix_fmt gray /work/film.mkv", "rm /root/raw"),
        solution=(python(script),),
        right=(
            Variant(
                name="clip_by_ffmpeg",
                commands=(
                    python(altered(script, ("abs(a - b)", "max(a, b) - min(a, b)"))),
                    f"{clipped} -pix_fmt gray -s {WIDTH}x{HEIGHT} -r {rate} -i /tmp/clip -strict -1 "
                    "-f yuv4mpegpipe clip.y4m",
                ),
            ),
        ),
        weak=(
            Variant(name="loose_threshold", commands=(python(altered(script, loose)),)),
            Variant(name="out_is_the_last_frame", commands=(python(altered(script, ("code(b + 1)", "code(b)"))),)),
            Variant(name="another_scene", commands=(python(altered(script, ("[chosen]", f'["{other}"]'))),)),
            Variant(name="clip_one_frame_short", commands=(python(altered(script, ("last + 1]", "last]"))),)),
        ),
        verifier=filled(
            VERIFY_SCENES,
            scenes=listed,
            clip=(len(cut), hashlib.sha384(b"".join(cut)).hexdigest()[:40]),
            speed=f"F{rate}:1",
        ),
    )


def _code(frame: int, rate: int) -> str:
    return f"{frame // rate // 60:02d}:{frame // rate % 60:02d}:{frame % rate:02d}"
