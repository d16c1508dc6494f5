"""Families of sounds."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.generators.domains.multimodal.sounds_cutting import cut_list
from pipeline.generators.domains.multimodal.sounds_levels import levels
from pipeline.generators.domains.multimodal.sounds_repair import mended_tapes
from pipeline.generators.domains.multimodal.sounds_tones import tone_message
from pipeline.generators.drafts import Make

FAMILIES: Mapping[str, Make] = {
    "cut_list": cut_list,
    "mended_tapes": mended_tapes,
    "levels": levels,
    "tone_message": tone_message,
}
