"""All studies, by their names."""

from __future__ import annotations

from training.studies.small_sft import SmallSft
from training.studies.study import Study

STUDIES: dict[str, type[Study]] = {study.name: study for study in (SmallSft,)}
