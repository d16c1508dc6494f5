"""Families of films."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.generators.domains.multimodal.films_order import frame_order
from pipeline.generators.domains.multimodal.films_scenes import scene_list
from pipeline.generators.domains.multimodal.films_stills import stills
from pipeline.generators.drafts import Make

FAMILIES: Mapping[str, Make] = {"stills": stills, "frame_order": frame_order, "scene_list": scene_list}
