"""Multimodal: pictures, sounds and films that tools of the command line make, take apart and mend."""

from __future__ import annotations

from pipeline.generators.domains.multimodal import (
    films,
    pictures,
    pictures_loops,
    pictures_repair,
    pictures_sheets,
    sounds,
)
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="multimodal",
    families={
        **pictures.FAMILIES,
        **pictures_sheets.FAMILIES,
        **pictures_repair.FAMILIES,
        **pictures_loops.FAMILIES,
        **sounds.FAMILIES,
        **films.FAMILIES,
    },
)
