"""A scorer that asks a language model about single files, as a drop-in for the others.

The model judges a few files of each signal; the best of a signal counts with the weight that the static score gives it.
What a file is asked is in prompts/score_file.md.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.checkout import Tree, printable
from pipeline.errors import ItemRejected
from pipeline.llm.answers import NoAnswer, object_of
from pipeline.llm.protocol import ChatModel, Message, PromptRefused, Sampling
from pipeline.prompts import fenced, prompt
from pipeline.scoring.protocol import ScoreConfig
from pipeline.scoring.signals import Signal, signals_of
from pipeline.scoring.static import WEIGHTS
from pipeline.types import TASKS, Checkout, Record, Repository, Score

PROMPT = "score_file"
NO_ANSWER = "no_answer"
"""Failure class of a repository about whose files the model gives no scores, asked twice."""
_TRIES = 2
_FULL = 10


class LlmFilesConfig(Record):
    """How much a model reads of each repository."""

    files_per_signal: int = Field(default=2, gt=0)
    """Files of each of the six signals, those near the root first."""
    characters: int = Field(default=6_000, gt=0)
    """Most of one file; longer ones are not asked about, for a cut one would be judged as such."""


class _Answer(Record):
    completeness: int = Field(ge=0, le=_FULL)
    executability: int = Field(ge=0, le=_FULL)


class LlmFileScorer:
    """Scores what a model says of the files. The same tree has the same score as far as the model answers alike."""

    def __init__(self, model: ChatModel, config: ScoreConfig, files: LlmFilesConfig) -> None:
        self._model = model
        self._config = config
        self._files = files

    @property
    def name(self) -> str:
        """With the model and the wording: another one of either scores anew."""
        return f"llm@{self._model.name}/{prompt(PROMPT).sha256[:8]}"

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        """As in `Scorer`; raises ModelUnavailable, ConfigurationError and ItemRejected (no_answer) too."""
        if repository.domain is not None or repository.source == TASKS:
            return self._config.scored(repository, self.name, 1.0, {"curated": 1.0})
        archive = Tree(tree)
        best: dict[Signal, float] = dict.fromkeys(WEIGHTS, 0.0)
        asked = 0
        for name, signals in self._chosen(archive, repository).items():
            quality = self._quality(name, archive.read(name, max_bytes=archive.files[name]).decode("utf-8", "replace"))
            asked += 1
            for signal in signals:
                best[signal] = max(best[signal], quality)
        score = min(1.0, sum(WEIGHTS[signal] * quality for signal, quality in best.items()))
        features = {f"best_{signal}": round(quality, 4) for signal, quality in best.items()}
        return self._config.scored(repository, self.name, score, features | {"files_asked": float(asked)})

    def _chosen(self, tree: Tree, repository: Repository) -> dict[str, list[Signal]]:
        taken: dict[Signal, int] = dict.fromkeys(WEIGHTS, 0)
        chosen: dict[str, list[Signal]] = {}
        for name in sorted(tree.files, key=lambda path: (path.count("/"), path)):
            if not 0 < tree.files[name] <= self._files.characters:
                continue
            for signal in signals_of(name, repository.language):
                if taken[signal] < self._files.files_per_signal:
                    taken[signal] += 1
                    chosen.setdefault(name, []).append(signal)
        return chosen

    def _quality(self, name: str, text: str) -> float:
        question = prompt(PROMPT).render(name=printable(name), content=fenced(text))
        sampling = Sampling(max_tokens=256, seed=0, answer_schema=_Answer.model_json_schema())
        messages, fault = [Message(role="user", content=question)], ""
        for _ in range(_TRIES):
            try:
                completion = self._model.complete(messages, sampling)
                answer = object_of(completion.text, _Answer)
            except NoAnswer as error:
                fault = str(error)
                complaint = f"That cannot be used: {error}. Answer with the JSON object alone."
                earlier = Message(role="assistant", content=completion.text or "(no answer)")
                messages = [*messages[:1], earlier, Message(role="user", content=complaint)]
            except PromptRefused as error:
                raise ItemRejected(NO_ANSWER, f"{printable(name)}: {error}") from error
            else:
                return answer.completeness * answer.executability / _FULL**2
        raise ItemRejected(NO_ANSWER, f"{printable(name)}: {fault}")
