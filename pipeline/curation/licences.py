"""Which licence a tree is under, read from its own files at the fetched version; nobody is asked over the network.

The texts are recognised by `licenseclassifier` (the corpus of SPDX texts and the matcher are inside the package).
No licence, an unknown one or several that differ give None with the reason: such rows are quarantined, never guessed.
Which licences a dataset admits is not decided here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import HeaderParser

from licenseclassifier import identify_license

_TEXT = re.compile(r"(un)?licen[cs]e([-._].*)?|copying([-._].*)?", re.IGNORECASE)
_SOURCE_CODE = re.compile(r"\.(py|js|ts|go|c|h|cpp|hpp|java|php|sh|html|json|ya?ml|toml|cfg)$", re.IGNORECASE)
_METADATA = ("package.json", "pyproject.toml", "PKG-INFO", "debian/copyright")
"""Read when the tree has no licence text at its top, the first that says something counts."""

_MAX_TEXT = 200_000

_SHORT_NAMES = {
    "expat": "MIT",
    "mit": "MIT",
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "zlib": "Zlib",
    "zlib/libpng": "Zlib",
    "mpl-2.0": "MPL-2.0",
    "unlicense": "Unlicense",
    "cc0-1.0": "CC0-1.0",
    "gpl-2": "GPL-2.0",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0",
    "gpl-3+": "GPL-3.0-or-later",
    "lgpl-2.1": "LGPL-2.1",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3": "LGPL-3.0",
    "lgpl-3+": "LGPL-3.0-or-later",
    "agpl-3": "AGPL-3.0",
    "agpl-3+": "AGPL-3.0-or-later",
    "gpl-2.0-only": "GPL-2.0-only",
    "gpl-2.0-or-later": "GPL-2.0-or-later",
    "gpl-3.0-only": "GPL-3.0-only",
    "gpl-3.0-or-later": "GPL-3.0-or-later",
}
"""Names in package metadata -> SPDX id; a name that is not here is unknown."""


@dataclass(frozen=True)
class Licence:
    """What was found: an SPDX id with its proof, or the reason why there is none."""

    license: str | None
    path: str | None = None
    sha256: str | None = None
    warnings: tuple[str, ...] = ()


def is_licence_file(name: str) -> bool:
    """Whether `identify` wants to see this path: licence texts at the top, and package metadata."""
    if name in _METADATA:
        return True
    return "/" not in name and bool(_TEXT.fullmatch(name)) and not _SOURCE_CODE.search(name)


def identify(files: Mapping[str, bytes]) -> Licence:
    """The licence that these files (path -> content) name. Texts go before metadata."""
    texts = sorted(name for name in files if name not in _METADATA and is_licence_file(name))
    if texts:
        return _from_texts({name: files[name] for name in texts}, _named(files))
    for name, spdx in _named(files).items():
        sha256 = hashlib.sha256(files[name]).hexdigest()
        if spdx is None:
            return Licence(None, name, sha256, (f"{name} names no single licence that is known",))
        return Licence(spdx, name, sha256, (f"no licence text; {name} says {spdx}",))
    return Licence(None, warnings=("no licence file was found",))


def _from_texts(texts: Mapping[str, bytes], named: Mapping[str, str | None]) -> Licence:
    found = {name: _in_text(data) for name, data in texts.items()}
    ids = {spdx for spdxs in found.values() for spdx in spdxs}
    if ids == {"GPL-3.0", "LGPL-3.0"}:
        ids = {"LGPL-3.0"}  # the LGPL 3 is an addition to the GPL 3 and always comes with its text
    path = next((name for name, spdxs in found.items() if ids and spdxs >= ids), next(iter(texts)))
    sha256 = hashlib.sha256(texts[path]).hexdigest()
    unknown = [name for name, spdxs in found.items() if not spdxs]
    if len(ids) == 1 and not unknown:
        spdx = ids.pop()
        differ = [f"{name} says {other}" for name, other in named.items() if other and not other.startswith(spdx)]
        return Licence(spdx, path, sha256, tuple(f"{path} is {spdx}, but {text}" for text in differ))
    if unknown:
        return Licence(None, path, sha256, (f"the licence text in {', '.join(unknown)} is not known",))
    return Licence(None, path, sha256, (f"several licences: {', '.join(sorted(ids))}",))


def _in_text(data: bytes) -> frozenset[str]:
    return _identified(data[:_MAX_TEXT].decode("utf-8", "replace"))


@functools.lru_cache(maxsize=256)
def _identified(text: str) -> frozenset[str]:
    return frozenset(match.id for match in identify_license(text))


def _named(files: Mapping[str, bytes]) -> dict[str, str | None]:
    """Metadata file -> SPDX id, None for a name that is not known; files that say nothing are left out."""
    named: dict[str, str | None] = {}
    for name in _METADATA:
        said = _READERS[name](files[name].decode("utf-8", "replace")) if name in files else None
        if said:
            named[name] = _SHORT_NAMES.get(said.strip().lower())
    return named


def _package_json(text: str) -> str | None:
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        return None
    said = package.get("license") if isinstance(package, dict) else None
    return said if isinstance(said, str) else None


def _pyproject(text: str) -> str | None:
    try:
        said = tomllib.loads(text).get("project", {}).get("license")
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError):
        return None
    if isinstance(said, dict):
        said = said.get("text")
    return said if isinstance(said, str) else None


def _pkg_info(text: str) -> str | None:
    headers = HeaderParser().parsestr(text)
    said = headers.get("License-Expression") or headers.get("License")
    return None if said in (None, "UNKNOWN") else said


def _debian_copyright(text: str) -> str | None:
    """The licence of the paragraph `Files: *` of a machine-readable debian/copyright."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        if re.search(r"^Files:\s*\*\s*$", paragraph, re.MULTILINE):
            said = re.search(r"^License:[ \t]*(\S.*)$", paragraph, re.MULTILINE)
            return said.group(1) if said else None
    return None


_READERS = {
    "package.json": _package_json,
    "pyproject.toml": _pyproject,
    "PKG-INFO": _pkg_info,
    "debian/copyright": _debian_copyright,
}
