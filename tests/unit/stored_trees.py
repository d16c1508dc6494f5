"""Small trees for the tests of scorers: a repository, what was found in it, and its tar."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.checkout import CheckoutConfig, Member, collect, store
from pipeline.types import Checkout, Language, Repository


def stored(
    folder: Path, files: Mapping[str, str], language: Language = "python", full_name: str = "local/x"
) -> tuple[Repository, Checkout, Path]:
    repository = Repository(source="local", full_name=full_name, commit="1", language=language, locator="x")
    members = [
        Member(name, "file", size=len(text.encode()), read=lambda text=text: text.encode())  # type: ignore[misc]
        for name, text in files.items()
    ]
    checkout = store(repository, collect(members, CheckoutConfig()), folder)
    return repository, checkout, folder / f"{checkout.tree_sha256}.tar"
