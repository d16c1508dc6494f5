"""All studies, by their names."""

from __future__ import annotations

from training.studies.domains import Domains
from training.studies.foreign import Foreign
from training.studies.pass_at_k import PassAtK
from training.studies.scores import Scores
from training.studies.small_sft import SmallSft
from training.studies.study import Study
from training.studies.verifiers import Verifiers

_ALL: tuple[type[Study], ...] = (SmallSft, Verifiers, Domains, Scores, PassAtK, Foreign)
STUDIES: dict[str, type[Study]] = {study.name: study for study in _ALL}
