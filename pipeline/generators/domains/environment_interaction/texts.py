"""How programs of the tasks become texts; shared by the families, knows none of them."""

from __future__ import annotations

import base64
import json
import random
import zlib

DOMAIN = "environment_interaction"


def placed(text: str, **values: object) -> str:
    """The text with `@NAME@` replaced."""
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    return text


def python(code: str) -> str:
    """A command that runs a Python program of the image's interpreter."""
    return f"python3 - <<'CODE'\n{code.strip()}\nCODE"


def typed(program: str, lines: list[str]) -> str:
    """A command that types lines into a program."""
    return f"{program} <<'KEYS'\n" + "\n".join(lines) + "\nKEYS"


def packed(world: object) -> str:
    """A world as a program carries it: nothing that one reads in passing."""
    return base64.b64encode(zlib.compress(json.dumps(world).encode())).decode()


def key_of(rng: random.Random) -> str:
    """A key of one task's program."""
    return f"{rng.getrandbits(128):032x}"
