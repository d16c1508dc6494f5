"""Numbers that are measured in recordings."""

from __future__ import annotations

import io
import itertools
import math
import wave
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

TAKES = ("c", "e", "g", "left_right", "notes_2_16_44")


@dataclass(frozen=True)
class Gauge:
    """A number that a channel has."""

    name: str
    measure: Callable[[list[int]], int]
    code: str
    """The same as an expression over the samples `s`, for solutions."""
    near: str
    """Tempting and wrong."""
    told: str


PEAK = Gauge(
    "peak", lambda s: max(map(abs, s)), "max(max(s), -min(s))", "max(s)", "the largest absolute value of a sample"
)
ENERGY = Gauge(
    "rms",
    lambda s: math.isqrt(sum(x * x for x in s) // len(s)),
    "int((sum(v ** 2 for v in s) // len(s)) ** 0.5)",
    "sum(abs(v) for v in s) // len(s)",
    "the whole part of the square root of the whole part of the mean of the squared samples",
)
CROSSINGS = Gauge(
    "crossings",
    lambda s: sum((a < 0) != (b < 0) for a, b in itertools.pairwise(s)),
    "sum((s[n] < 0) != (s[n - 1] < 0) for n in range(1, len(s)))",
    "sum(s[n] * s[n - 1] < 0 for n in range(1, len(s)))",
    "how often a sample below 0 stands next to one that is not (0 is not below 0), in either direction",
)
RANGE = Gauge(
    "range", lambda s: max(s) - min(s), "max(s) - min(s)", "2 * max(s)", "the highest sample minus the lowest one"
)
TABLES = (
    ((PEAK, ENERGY), "peak", ","),
    ((CROSSINGS, PEAK), "crossings", ";"),
    ((ENERGY, RANGE), "rms", "\t"),
    ((RANGE, CROSSINGS), "range", "|"),
)
MEASURE = """
import array, glob, os, wave
rows = []
for path in glob.glob("/srv/notes/*.wav"):
    name = os.path.basename(path)[:-4]
    if name not in @NAMES@:
        continue
    with wave.open(path) as given:
        both = array.array("h", given.readframes(given.getnframes()))
    for channel, s in (("left", both[0::2]), ("right", both[1::2])):
        rows.append((name, channel, @FIRST@, @SECOND@))
rows.sort(key=lambda row: (-row[2], row[0], row[1]))
with open("/work/levels.txt", "w") as out:
    for row in [@HEAD@, *rows]:
        print(*row, sep=@SEPARATOR@, file=out)
"""
VERIFY_LEVELS = """
ROWS = __ROWS__


def table(box):
    return [line.split(__SEPARATOR__) for line in box.text("/work/levels.txt").splitlines()]


def test_columns(box):
    assert table(box)[0] == __HEAD__


def test_each_channel_was_measured(box):
    assert {(name, channel): values for name, channel, *values in table(box)[1:]} == {
        (name, channel): values for name, channel, *values in ROWS
    }


def test_loudest_comes_first(box):
    assert [row[:2] for row in table(box)[1:]] == [row[:2] for row in ROWS]
"""


def levels(seed: int, context: Context) -> Draft:
    """A table of two measures per channel."""
    (first, second), key, separator = TABLES[seed % len(TABLES)]
    names = sorted(chance(DOMAIN, "levels", seed).sample(TAKES, 3))
    rows = []
    for name in names:
        with wave.open(io.BytesIO(context.read(f"notes/{name}.wav"))) as given:
            both = array("h", given.readframes(given.getnframes())).tolist()
        for channel, samples in (("left", both[0::2]), ("right", both[1::2])):
            rows.append((name, channel, first.measure(samples), second.measure(samples)))
    rows.sort(key=lambda row: (-row[2], row[0], row[1]))
    head = ["take", "channel", first.name, second.name]
    script = altered(
        MEASURE.strip(),
        ("@NAMES@", str(names)),
        ("@FIRST@", first.code),
        ("@SECOND@", second.code),
        ("@HEAD@", str(head)),
        ("@SEPARATOR@", repr(separator)),
    )
    spoken = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}[separator]
    by_sox = altered(
        script,
        ("import array", "import subprocess, array"),
        ("    with wave.open(path) as given:\n", '    raw = ["sox", "-D", path, "-t", "s16", "-"]\n'),
        (
            'array.array("h", given.readframes(given.getnframes()))',
            'array.array("h", subprocess.run(raw, capture_output=True, check=True).stdout)',
        ),
        ("        both =", "    both ="),
    )
    return Draft(
        family="levels",
        seed=seed,
        difficulty="easy",
        language="python",
        instruction=f"Measure the stereo recordings {', '.join(names[:-1])} and {names[-1]} (/srv/notes/NAME.wav, "
        "16 bits) "
        f"for me and put the table into /work/levels.txt. Its first line names the columns: "
        f"{separator.join(head) if separator != chr(9) else ' '.join(head)}, here and below separated by {spoken} "
        "and without blanks around it. Then one line per recording and channel; channel is left or right. "
        f"`{first.name}` is {first.told}; `{second.name}` is {second.told}. Samples count as whole numbers from -32768 "
        f"to 32767, all of the channel. Sort by `{key}` from high to low; equal ones by take, then channel, "
        "alphabetically.",
        solution=(python(script),),
        right=(Variant(name="read_by_sox", commands=(python(by_sox),)),),
        weak=(
            Variant(name="near_measures", commands=(python(_near(script, first, second)),)),
            Variant(
                name="channels_exchanged",
                commands=(
                    python(
                        altered(
                            script,
                            ("both[0::2]", "both[2::2]"),
                            ("both[1::2]", "both[0::2]"),
                            ("both[2::2]", "both[1::2]"),
                        )
                    ),
                ),
            ),
            Variant(name="quiet_first", commands=(python(altered(script, ("(-row[2]", "(row[2]"))),)),
            Variant(name="no_head", commands=(python(script), "sed -i 1d levels.txt")),
        ),
        verifier=filled(VERIFY_LEVELS, rows=[list(map(str, row)) for row in rows], head=head, separator=separator),
        contexts=("notes",),
    )


def _near(script: str, *gauges: Gauge) -> str:
    """With what is mistaken for the measures."""
    return altered(script, *((gauge.code, gauge.near) for gauge in gauges))
