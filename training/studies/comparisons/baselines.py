"""The methods that others compare themselves with, each with the same backbone, tasks, seeds and budget.

Arms that learn have a small model from scratch, which a CPU trains; arms that are prompted need a model that reads
instructions, and stand in a table of their own. How an arm is done is in baseline_arms.py.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, JsonValue

from training.cells import Cell
from training.studies.comparisons.comparison import (
    GGUF,
    ArmFacts,
    Cited,
    Comparison,
    ComparisonConfig,
    ComparisonPlan,
    Tasks,
)
from training.studies.comparisons.figures import ArmFigures

TINY = "tiny"
"""Backbone of arms that learn: a Qwen2 of some million weights, from scratch."""


class BaselinesConfig(ComparisonConfig):
    """Sizes that suit a CPU."""

    environments: tuple[str, ...] = Field(default=("textcraft", "textworld_express_coin"), min_length=1)
    """Names of games, or GAME_TEMPLATE for one template of it."""
    budget: int = Field(default=1_500_000, gt=0)
    clone_share: float = Field(default=0.85, gt=0.0, lt=1.0)
    """Of the budget: what `bc` spends, from whose weights the others go on with the rest."""
    vocabulary: int = Field(default=1024, ge=300)
    hidden: int = Field(default=64, gt=0)
    layers: int = Field(default=3, gt=0)
    """Of the model from scratch: see training/from_scratch.py."""
    max_gold_steps: int = Field(default=12, gt=0)
    """Tasks whose reference solution is longer are left out."""
    judged: int = Field(default=20, gt=0)
    """Tasks of each split on which arms are judged."""
    max_steps: int = Field(default=16, gt=0)
    """Of an attempt."""
    answer_tokens: int = Field(default=32, gt=0)
    seats: int = Field(default=16, gt=0)
    """Attempts at a time, each with a process of the game."""

    def deciding(self) -> dict[str, JsonValue]:
        """See ComparisonConfig; with the settings of all methods, which are no options."""
        from training.studies.comparisons.baseline_arms import method_settings  # it imports torch

        return super().deciding() | {"methods": method_settings()}


def _tasks(config: ComparisonConfig, data: Path) -> Tasks:
    from training.studies.comparisons.baseline_arms import tasks_of

    return tasks_of(config, data)


def _run_cell(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
    from training.studies.comparisons.baseline_arms import run_cell  # it imports torch

    return run_cell(cell, plan, config, data)


PROMPTED_TASKS = 5
"""On which arms that are prompted are judged: the first ones of the held-out group, for their answers take long."""


def _arm(group: str, backbone: str, about: str) -> ArmFacts:
    judged = PROMPTED_TASKS if backbone == GGUF else None
    return ArmFacts.model_validate({"about": about, "group": group, "backbone": backbone, "judged": judged})


BASELINES = Comparison(
    name="baselines",
    about="methods that act in games, with the same backbone, tasks, seeds and budget of tokens",
    arms={
        "random": _arm("bound", TINY, "one of the actions that may be taken, by chance"),
        "oracle": _arm("bound", TINY, "the reference solution"),
        "bc": _arm("learned", TINY, "behaviour cloning of the reference solutions"),
        "more_bc": _arm("learned", TINY, "behaviour cloning of more of them: what the others have to beat"),
        "rft": _arm("learned", TINY, "behaviour cloning of reference solutions and own successes (Yuan et al. 2023)"),
        "best_of_n": _arm("learned", TINY, "the best of 4 attempts of bc, chosen by the verdict: an upper bound"),
        "best_of_n_value": _arm("learned", TINY, "the best of 4 attempts of bc, chosen by a learned value"),
        "eto": _arm("learned", TINY, "DPO on a reference solution over an own failure, again (Song et al. 2024)"),
        "dmpo": _arm("learned", TINY, "DPO of many turns with a discount by turn (Shi et al. 2024)"),
        "glider": _arm("learned", TINY, "planner and controller, cloned, then offline and online RL (Hu et al. 2025)"),
        "grpo": _arm("learned", TINY, "online, advantages within a group of attempts (Shao et al. 2024)"),
        "ppo": _arm("learned", TINY, "online, advantages of a value head (Schulman et al. 2017)"),
        "rloo": _arm("learned", TINY, "online, each attempt against the mean of the others (Ahmadian et al. 2024)"),
        "react": _arm("prompted", GGUF, "thought and action over the whole history (Yao et al. 2023)"),
        "reflexion": _arm("prompted", GGUF, "ReAct again, told what it made of its failure (Shinn et al. 2023)"),
        "adapt": _arm("prompted", GGUF, "act, and on failure decompose the task (Prasad et al. 2024)"),
    },
    compared_to="more_bc",
    cited=(
        Cited(
            name="QLASS",
            source="Lin et al. 2025, as told by Q-Evolve",
            figure="mean 74.5 of ALFWorld, WebShop and ScienceWorld with Llama-2-7B-Chat",
        ),
    ),
    config=BaselinesConfig,
    tasks=_tasks,
    run_cell=_run_cell,
)
