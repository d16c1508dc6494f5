"""Rounds of attempts: each instance is attempted once more until it is solved often enough."""

from collections.abc import Sequence

from assets.resources import Workshop
from assets.settings import AgentsConfig
from pipeline.attempts import rounds, wanted
from pipeline.batch import StageReport, together
from pipeline.llm.protocol import ChatModel
from pipeline.stages.options import Options
from pipeline.stages.rollouts import passed_so_far, roll_out
from pipeline.stages.verifications import verify_all
from pipeline.types import TaskInstance


def sample_all(
    workshop: Workshop, tasks: Sequence[TaskInstance], config: AgentsConfig, model: ChatModel | None, options: Options
) -> StageReport:
    """All samples of all agents; with `enough` set, each round is judged before the next one begins."""
    store, backend = workshop.store(), workshop.backend()
    reports: list[StageReport] = []
    for attempts in rounds(tasks, config.agents, model, config.samples):
        if reports and config.samples.enough is not None:
            verify_all(store, tasks, backend, options, command_timeout_s=config.command_timeout_s)
        chosen = wanted(attempts, passed_so_far(store), config.samples)
        reports.append(roll_out(store, chosen, backend, config, options))
    return together(reports)
