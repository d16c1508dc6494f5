"""Families of films."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.generators.domains.multimodal.films_stills import stills
from pipeline.generators.drafts import Make

FAMILIES: Mapping[str, Make] = {"stills": stills}
