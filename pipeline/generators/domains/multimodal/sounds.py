"""Families of sounds."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.generators.drafts import Make

FAMILIES: Mapping[str, Make] = {}
