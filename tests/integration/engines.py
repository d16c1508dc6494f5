"""Engines of their own for tests, started and ended as a user does it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "infra" / "bootstrap.sh"


def bootstrap(data: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call bootstrap.sh for a data folder."""
    variables = {name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "TOUCHSTONE_DATA"}}
    arguments = [str(SCRIPT), "--data", str(data), command]
    return subprocess.run(
        arguments, env={**variables, **environment}, capture_output=True, text=True, timeout=90, check=False
    )
