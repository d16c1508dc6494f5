"""Whether there is a Java for the games that need one."""

from __future__ import annotations

import shutil

from pipeline.errors import ConfigurationError


def need_java(game: str) -> None:
    """Raises ConfigurationError when there is no `java` on PATH."""
    if shutil.which("java") is None:
        raise ConfigurationError(
            f"{game} needs Java 17 or newer and there is no `java` on PATH: call infra/bootstrap.sh envs, or install "
            "the Debian package openjdk-17-jre-headless"
        )
