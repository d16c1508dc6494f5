"""Films without loss, as texts of the beginning: raw pictures that ffmpeg makes a film of."""

from __future__ import annotations

from random import Random


def y4m(frames: list[bytes], width: int, height: int, rate: int) -> bytes:
    """A grey film."""
    head = f"YUV4MPEG2 W{width} H{height} F{rate}:1 Ip A1:1 Cmono\n".encode()
    return head + b"".join(b"FRAME\n" + frame for frame in frames)


def scenery(rng: Random, width: int, height: int, number: int, planes: int = 1) -> bytes:
    """A picture that changes a little with its number."""
    steps = [rng.randint(1, 5) for _ in range(3 * planes)]
    return bytes(
        (40 + steps[3 * p] * x + steps[3 * p + 1] * y + steps[3 * p + 2] * number) % 200
        for y in range(height)
        for x in range(width)
        for p in range(planes)
    )
