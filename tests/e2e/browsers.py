"""Which real browser the tests look at pages with: infra/bootstrap.sh looks for the same names."""

from __future__ import annotations

import shutil

PROGRAMS = ("chromium", "chromium-headless-shell", "google-chrome")


def chromium() -> str | None:
    """Path of the first that is installed; None where none is."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)
