"""Multimodal: pictures, sounds and films that tools of the command line make, take apart and mend."""

from __future__ import annotations

from pipeline.generators.domains.multimodal import films, pictures, sounds
from pipeline.generators.drafts import Pack

PACK = Pack(domain="multimodal", families={**pictures.FAMILIES, **sounds.FAMILIES, **films.FAMILIES})
