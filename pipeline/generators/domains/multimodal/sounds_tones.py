"""Messages that are heard as tones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pipeline.generators.domains.multimodal.sounds_files import DOMAIN, altered, python, sent, wav
from pipeline.generators.drafts import Context, Draft, chance, filled
from pipeline.types import Variant

RATE, SLOT = 8000, 80
"""Samples in a second and in 10 milliseconds."""
Sounds = list[tuple[tuple[int, ...], int]]
"""What is heard: frequencies at the same time (none in a pause), and for how many slots."""
WORDS = ("HARBOUR", "NINE", "COPPER", "OWL", "SIGNAL", "TIDE", "ROPE", "EAST", "CRANE", "KIOSK", "VELVET", "FJORD")
KEYS = "123A456B789C*0#D"
ROWS, COLUMNS = (697, 770, 852, 941), (1209, 1336, 1477, 1633)
SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
MORSE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", SIGNS.split(), strict=True))


@dataclass(frozen=True)
class Code:
    """How a text becomes tones."""

    name: str
    text: Callable[[Random], str]
    sounds: Callable[[str], Sounds]
    decode: str
    """How a solution gets `text` from `runs`, a list of (frequencies heard, slots)."""
    tones: tuple[int, ...]
    told: str


def _words(rng: Random) -> str:
    return " ".join(rng.sample(WORDS, 3))


def _keys(rng: Random) -> str:
    return "".join(rng.choice(KEYS) for _ in range(22))


def _dialled(text: str) -> Sounds:
    found: Sounds = []
    for place, key in enumerate(text):
        row, column = divmod(KEYS.index(key), 4)
        found += [((ROWS[row], COLUMNS[column]), 7 + place % 5), ((), 5 + place % 3)]
        if place % 6 == 2:
            found += [((ROWS[place % 4], COLUMNS[row]), 2), ((), 6)]
    return found


def _keyed(text: str) -> Sounds:
    found: Sounds = []
    for word in text.split():
        for letter in word:
            for sign in MORSE[letter]:
                found += [((620,), 18 if sign == "-" else 6), ((), 6)]
            found[-1] = ((), 18)
        found[-1] = ((), 42)
    return found


def _serial(text: str) -> Sounds:
    found: Sounds = [((1270,), 40)]
    for byte in text.encode():
        bits = [0, *(byte >> place & 1 for place in range(7)), byte.bit_count() % 2, 1, 1]
        found += [((1270 if bit else 1070,), 3) for bit in bits]
    return [*found, ((1270,), 25)]


def _chords(text: str) -> Sounds:
    found: Sounds = []
    for byte in text.encode():
        found += [(tuple(500 + 300 * place for place in range(7) if byte >> place & 1), 6), ((), 4)]
    return found


CODES = (
    Code(
        "DTMF",
        _keys,
        _dialled,
        """
keys = "123A456B789C*0#D"
text = ""
for tones, length in runs:
    if len(tones) == 2 and length >= 4:
        text += keys[heard.index(tones[0]) * 4 + heard.index(tones[1]) - 4]
""",
        (*ROWS, *COLUMNS),
        "The keys of a telephone with sixteen keys (0-9, A-D, * and #; rows 697, 770, 852, 941 Hz, columns 1209, "
        "1336, 1477, 1633 Hz) were pressed. Pairs shorter than 40 ms are crosstalk and not meant.",
    ),
    Code(
        "Morse",
        _words,
        _keyed,
        """
morse = @MORSE@
text = letter = ""
for tones, length in runs:
    if tones:
        letter += "-" if length > 12 else "."
    if not tones and length > 12 and letter:
        text, letter = text + morse[letter] + " " * (length > 30), ""
text = (text + morse.get(letter, "")).strip()
""",
        (620,),
        "It is international Morse code at 620 Hz with a dot of 60 ms and the usual proportions; capital letters, one "
        "blank between words.",
    ),
    Code(
        "FSK",
        _words,
        _serial,
        """
bits = []
for tones, length in runs:
    bits += [int(tones == [1270])] * length if tones else []
text, place = "", 0
while 0 in bits[place:]:
    place = bits.index(0, place)
    text += chr(sum(bits[place + 3 * (1 + n) + 1] << n for n in range(7)))
    place += 31
""",
        (1070, 1270),
        "It is a modem: 1270 Hz is a one (and rest), 1070 Hz a zero, each bit takes 30 ms, and a character is a start "
        "bit (zero), seven bits of ASCII with the lowest first, a parity bit (even) and two stop bits (ones).",
    ),
    Code(
        "chords",
        _words,
        _chords,
        """
text = ""
for tones, length in runs:
    if tones:
        text += chr(sum(1 << (tone - 500) // 300 for tone in tones))
""",
        tuple(range(500, 2400, 300)),
        "Each character is a chord of 60 ms, followed by 40 ms of rest: bit n of its ASCII code (n from 0 to 6) is "
        "set when the tone of 500 + 300 n Hz is in the chord.",
    ),
)
LISTEN = """
import array, json, math, wave
with wave.open("/work/message.wav") as given:
    s = array.array("h", given.readframes(given.getnframes()))[@CHANNEL@::2]
heard = @TONES@
def strength(tone, part):
    step = 2 * math.pi * tone / 8000
    real = sum(v * math.cos(step * n) for n, v in enumerate(part))
    return math.hypot(real, sum(v * math.sin(step * n) for n, v in enumerate(part))) / len(part)
runs = []
LOOK
for tones in slots:
    if runs and runs[-1][0] == tones:
        runs[-1][1] += 1
    else:
        runs.append([tones, 1])
@DECODE@
sounding = [n for n, tones in enumerate(slots) if tones]
found = {"text": text, "starts_ms": sounding[0] * 10, "ends_ms": sounding[-1] * 10 + 10}
json.dump(found, open("/work/message.json", "w"))
"""
ONE_TONE = """
slots = []
for n in range(0, len(s), 80):
    part = s[n : n + 80]
    tones = {tone: strength(tone, part) for tone in heard}
    best = max(tones, key=tones.get)
    slots.append([best] if tones[best] > 800 else [])
"""
MANY_TONES = """
loud = [sum(v * v for v in s[n : n + 80]) > 80 * 500 ** 2 for n in range(0, len(s), 80)]
slots, n = [], 0
while n < len(loud):
    end = n
    while end < len(loud) and loud[end] == loud[n]:
        end += 1
    part = s[n * 80 : end * 80]
    tones = {tone: strength(tone, part) for tone in heard} if loud[n] else {}
    slots += [[tone for tone in heard if tones and tones[tone] > 600]] * (end - n)
    n = end
"""
VERIFY_MESSAGE = """
import json

TEXT = __TEXT__
BOUNDS = __BOUNDS__


def found(box):
    return json.loads(box.text("/work/message.json"))


def test_text_was_understood(box):
    assert found(box)["text"] == TEXT


def test_bounds_of_the_transmission(box):
    told = [found(box)["starts_ms"], found(box)["ends_ms"]]
    assert all(abs(value - bound) <= 5 for value, bound in zip(told, BOUNDS))
"""


def _played(sounds: Sounds, rng: Random) -> list[int]:
    samples: list[int] = []
    for tones, slots in sounds:
        steps = [2 * math.pi * tone / RATE for tone in tones]
        samples += [
            round(sum(3000 * math.sin(step * n) for step in steps)) + rng.randint(-150, 150)
            for n in range(slots * SLOT)
        ]
    return samples


def tone_message(seed: int, context: Context) -> Draft:
    """A text out of one channel of a recording."""
    rng, code = chance(DOMAIN, "tone_message", seed), CODES[seed % len(CODES)]
    text, decoy = code.text(rng), code.text(rng)
    before = rng.randint(20, 60)
    sounds = [((), before), *code.sounds(text), ((), 40)]
    own = _played(sounds, rng)
    other = _played([((), 33), *code.sounds(decoy), ((), 40)], rng)
    other = [*other, *[0] * len(own)][: len(own)]
    channel = seed % 2
    pairs = zip(own, other, strict=True) if channel == 0 else zip(other, own, strict=True)
    files, setup = sent({"/work/message.wav": wav([sample for pair in pairs for sample in pair], RATE, 2)})
    last = max(place for place, (tones, _) in enumerate(sounds) if tones)
    bounds = (before * 10, sum(slots for _, slots in sounds[: last + 1]) * 10)
    script = altered(
        LISTEN.strip(),
        ("@CHANNEL@", str(channel)),
        ("@TONES@", str(list(code.tones))),
        ("LOOK", (ONE_TONE if len(code.tones) < 3 else MANY_TONES).strip()),
        ("@DECODE@", code.decode.strip().replace("@MORSE@", str({sign: key for key, sign in MORSE.items()}))),
    )
    side = ("left", "right")[channel]
    return Draft(
        family="tone_message",
        seed=seed,
        difficulty="hard",
        language="python",
        instruction=f"Please find out what is said in /work/message.wav ({RATE} samples a second, stereo). Only the "
        f"{side} channel counts; the other one has a message that I do not want. {code.told} There is a little noise "
        "all the time. Write /work/message.json: an object with `text` (the message, without blanks before or after "
        "it), `starts_ms` and `ends_ms`: the time of the recording, in whole milliseconds, at which the first tone "
        "begins and at which the last tone ends, resting tones included; up to 5 ms off will do for both.",
        files=files,
        setup=setup,
        solution=(python(script),),
        right=(Variant(name="mono_first", commands=(_by_sox(channel), python(_of_one(script, channel)))),),
        weak=(
            Variant(
                name="other_channel",
                commands=(python(altered(script, (f"[{channel}::2]", f"[{1 - channel}::2]"))),),
            ),
            Variant(
                name="seconds_for_milliseconds",
                commands=(python(altered(script, ("sounding[0] * 10", "sounding[0] / 100"))),),
            ),
            Variant(
                name="end_of_the_file", commands=(python(altered(script, ("sounding[-1] * 10 + 10", "len(s) // 8"))),)
            ),
            Variant(
                name="last_character_lost", commands=(python(altered(script, ('"text": text', '"text": text[:-1]'))),)
            ),
        ),
        verifier=filled(VERIFY_MESSAGE, text=text, bounds=bounds),
    )


def _by_sox(channel: int) -> str:
    return f"sox -D message.wav -t s16 /tmp/one.raw remix {channel + 1}"


def _of_one(script: str, channel: int) -> str:
    """The same over the raw samples of one channel, with sums of complex numbers."""
    head, _, rest = script.partition("with wave.open")
    _, _, rest = rest.partition(f"[{channel}::2]\n")
    before, _, after = rest.partition("    step = ")
    _, _, after = after.partition("/ len(part)\n")
    turn = (
        "    return abs(sum(v * cmath.exp(2j * cmath.pi * tone * n / 8000) for n, v in enumerate(part))) / len(part)\n"
    )
    return head + 'import cmath\ns = array.array("h", open("/tmp/one.raw", "rb").read())\n' + before + turn + after
