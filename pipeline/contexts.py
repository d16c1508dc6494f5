"""External context of the domains: what it is, where it came from, under which licence, and how tasks refer to it.

The tree of a domain holds it below `context/`, described by `contexts.json`. Collecting it is sources/context.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pipeline.checkout import Tree
from pipeline.types import Domain, content_id

MANIFEST = "contexts.json"
_MAX_MANIFEST = 1 << 20


def context_ids(tree: Tree, domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Ids of the named contexts of a domain. Raises KeyError for a name that its manifest does not have."""
    described = json.loads(tree.read(MANIFEST, max_bytes=_MAX_MANIFEST)) if MANIFEST in tree.files else []
    found: dict[str, str] = {one["name"]: one["sha256"] for one in described}
    return tuple(context_id(domain, name, found[name]) for name in names)


def context_id(domain: Domain, name: str, sha256: str) -> str:
    return content_id("context", domain, name, sha256)
