"""Commands that write files and leave a server running; every family's solutions are put together from them."""

from __future__ import annotations

import re

_SLOT = re.compile(r"@([A-Z][A-Z0-9_]*)@")


def put_in(template: str, **values: object) -> str:
    """A configuration or program: `@NAME@` becomes the value as it is. Raises KeyError for one without."""
    return _SLOT.sub(lambda slot: str(values[slot[1].lower()]), template.strip("\n")) + "\n"


def written(path: str, text: str) -> str:
    """The command that writes a file."""
    return f"mkdir -p $(dirname {path}) && cat > {path} <<'END_OF_FILE'\n{text.strip()}\nEND_OF_FILE"


def answering(url: str) -> str:
    """The command that waits until something answers, and fails when nothing does."""
    return f"timeout 20 bash -c 'until curl -sk -m 2 -o /dev/null {url}; do sleep 0.1; done'"


def started(command: str, port: int) -> str:
    """The command that starts a server of HTTP which outlives its shell."""
    return f"(setsid nohup {command} > /dev/null 2>&1 < /dev/null &) && " + answering(f"http://127.0.0.1:{port}/")


def nginx(path: str, port: int, scheme: str = "http") -> str:
    """The command that starts nginx with a configuration."""
    return f"nginx -c {path} > /dev/null 2>&1 && " + answering(f"{scheme}://127.0.0.1:{port}/")
