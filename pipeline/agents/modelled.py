"""What agents that ask a model have in common: who they are, and how their model's tokens are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.prompts import prompt


class ModelledAgent:
    """One model with one way of sampling."""

    prompts: tuple[str, ...] = ()
    """Names of the prompts that it uses; their hashes belong to the policy."""

    def __init__(self, model: ChatModel, sampling: Sampling) -> None:
        self._model = model
        self._sampling = sampling

    @property
    def model(self) -> str | None:
        return self._model.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        return self._sampling.model_dump(exclude_none=True, exclude={"token_details"})

    @property
    def details(self) -> Mapping[str, str]:
        return {**{f"{name}_sha256": prompt(name).sha256 for name in self.prompts}, **self._model.details}
