"""How likely a repository is to give an image that works, before anything is built.

`static.py` judges by what the files say, `learned.py` by what became of repositories that were built, `llm_files.py`
asks a model; all are a `Scorer`. `exploration.py` keeps some of what they reject. Training is in training/methods.
"""

from __future__ import annotations

from pipeline.scoring.protocol import ScoreConfig, Scorer
from pipeline.scoring.static import WEIGHTS, StaticScorer, dockerfile_quality
from pipeline.types import Score

__all__ = ["WEIGHTS", "Score", "ScoreConfig", "Scorer", "StaticScorer", "dockerfile_quality"]
