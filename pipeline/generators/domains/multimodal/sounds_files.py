"""Binary files of the beginning, commands of solutions, and the plain WAV that every family of sounds starts from."""

from __future__ import annotations

import base64
import io
import math
import wave
from array import array
from collections.abc import Mapping, Sequence
from random import Random

from pipeline.generators.drafts import TaskFile

DOMAIN = "multimodal"
_SENT = "/root/.sent"


def python(script: str) -> str:
    """The command that runs a script with Python."""
    return f"python3 - <<'END'\n{script.strip()}\nEND"


def altered(text: str, *changes: tuple[str, str]) -> str:
    """A solution with other words in some places. Raises ValueError for a place that is not there."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"no {old!r} to be changed")
        text = text.replace(old, new)
    return text


def sent(contents: Mapping[str, bytes]) -> tuple[tuple[TaskFile, ...], tuple[str, ...]]:
    """Binary files as texts, and the commands that make them what they are and leave nothing else."""
    files, setup = [], []
    for number, (path, content) in enumerate(contents.items()):
        text = base64.encodebytes(content).decode()
        files.append(TaskFile(path=f"{_SENT}/{number}", text=text))
        setup.append(f"mkdir -p $(dirname {path}) && base64 -d {_SENT}/{number} > {path}")
    return tuple(files), (*setup, f"rm -r {_SENT}")


def packed(samples: Sequence[int]) -> bytes:
    """Samples of 16 bits, low byte first."""
    return array("h", samples).tobytes()


def wav(samples: Sequence[int], rate: int, channels: int = 1) -> bytes:
    """A WAV of 16 bits; samples of several channels take turns."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(packed(samples))
    return out.getvalue()


def music(rng: Random, count: int) -> list[int]:
    """Samples that nothing else sounds like: two sines and some noise."""
    low, high = rng.uniform(0.01, 0.05), rng.uniform(0.1, 0.3)
    return [round(9000 * math.sin(low * n) + 3000 * math.sin(high * n)) + rng.randint(-400, 400) for n in range(count)]
