"""What `touchstone evaluate` evaluates, and who answers: options and settings as training/evaluate.py takes them."""

import re
from pathlib import Path

from assets.attempting import AttemptsResource
from assets.resources import Workshop, code_commit
from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import ChatModel
from pipeline.stages.options import Options
from training.evaluate import EvaluationConfig, Policy, evaluate
from training.evaluation_folder import EvaluationFolder
from training.evaluation_tasks import Selection, chosen_tasks
from training.models import find_model


def run_evaluation(
    workshop: Workshop, name: str, selection: Selection, policy: Policy, config: EvaluationConfig
) -> EvaluationFolder:
    """Evaluate, or go on with an evaluation of that name; returns its folder. Raises ConfigurationError."""
    folder = EvaluationFolder(workshop.data, name)
    tasks = [] if folder.begun else chosen_tasks(workshop.store(), selection, workshop.settings.splits)
    options = Options(workers=workshop.settings.workers, machines=workshop.machines())
    evaluate(folder, tasks, selection, policy, config, workshop.backend(), options, code_commit=code_commit())
    return folder


def config_of(
    workshop: Workshop, agent: str, runs: int, temperature: float | None, max_steps: int | None
) -> EvaluationConfig:
    """The settings of [rollout], but for what was chosen."""
    usual = workshop.settings.rollout
    told = {"agent": agent, "runs": runs, **usual.samples.model_dump(include={"top_p", "max_tokens"})}
    if temperature is not None:
        told["temperature"] = temperature
    budgets = usual.model_dump(include={"max_seconds", "max_tokens", "max_cost_usd", "command_timeout_s"})
    return EvaluationConfig.model_validate(told | {"budgets": budgets | {"max_steps": max_steps or usual.max_steps}})


def policy_of(workshop: Workshop, trained_model: str | None, base: Path | None, local_model: str | None) -> Policy:
    """The model that answers, and what it was trained on where `trained_model` names a version of ours.

    With `base` the version answers in this process, on those weights; else a server or a local model does, which is
    taken at its word. Raises ConfigurationError where there is no model, and for a version that is not there;
    ModelDamaged.
    """
    if trained_model is None:
        return Policy(_served(workshop, local_model))
    version = find_model(workshop.data, trained_model)
    if base is None:
        return Policy(_served(workshop, local_model), version.reference, list(version.trained_on()))
    from training.evaluation_policy import answering  # torch and transformers take seconds

    return Policy(answering(version, base), version.reference, list(version.trained_on()))


def _served(workshop: Workshop, local_model: str | None) -> ChatModel:
    model = AttemptsResource(local_model=local_model or "").model(workshop)
    if model is None:
        raise ConfigurationError("an evaluation needs a model: name a server in [model], or give --local-model")
    return model


def name_of(policy: Policy, config: EvaluationConfig, selection: Selection) -> str:
    """The name of an evaluation that was given none: the same for the same model, agent and selection."""
    asked = [selection.split, selection.source, *selection.families]
    words = [policy.trained_model or policy.model.name, config.agent, *(word for word in asked if word)]
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(words).lower()).strip("-._")[:100]
