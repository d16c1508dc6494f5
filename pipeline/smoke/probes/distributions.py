"""Lists what is installed in this interpreter, a JSON object per line. The argument is where the project lies."""

from __future__ import annotations

import json
import sys
from importlib.metadata import Distribution, distributions


def tops(files: list[str]) -> set[str]:
    """Top-level names that a list of installed files has."""
    found = set()
    for file in files:
        first, _, rest = file.partition("/")
        if rest and rest.endswith((".py", ".so")) and first.isidentifier():
            found.add(first)
        elif not rest and first.endswith((".py", ".so")) and first.partition(".")[0].isidentifier():
            found.add(first.partition(".")[0])
    return found


def described(one: Distribution, tree: str) -> dict[str, object]:
    """`local` says that it was installed from files of this machine and not from an index."""
    where = json.loads(one.read_text("direct_url.json") or "{}")
    files = [str(file) for file in one.files or ()]
    entries = [entry for entry in one.entry_points if entry.group == "console_scripts"]
    modules = (one.read_text("top_level.txt") or "").split() or sorted(tops(files))
    # An editable install lists no module: its programs say where they start.
    modules = modules or sorted({entry.value.partition(":")[0].partition(".")[0] for entry in entries})
    scripts = {entry.name for entry in entries}
    scripts |= {file.rpartition("/")[2] for file in files if file.startswith("../") and "/bin/" in file}
    local = str(where.get("url", "")).startswith("file:") or str(one.locate_file("")).startswith(tree)
    return {"name": one.metadata["Name"] or "", "local": local, "scripts": sorted(scripts), "modules": modules}


for found in distributions():
    sys.stdout.write(json.dumps(described(found, sys.argv[1])) + "\n")
