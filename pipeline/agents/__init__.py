"""Agents by name; each file of this folder is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.agents.act import ActAgent
from pipeline.agents.adapt import AdaptAgent
from pipeline.agents.bash import BashAgent
from pipeline.agents.noop import NoopAgent
from pipeline.agents.oracle import OracleAgent
from pipeline.agents.planner_executor import PlannerExecutorAgent
from pipeline.agents.protocol import Agent
from pipeline.agents.react import ReactAgent
from pipeline.agents.reflexion import ReflexionAgent
from pipeline.agents.step_hrl import StepHRLAgent
from pipeline.agents.terminus import TerminusAgent
from pipeline.agents.wander import WanderingAgent
from pipeline.llm.protocol import ChatModel, Sampling

FIXED: Mapping[str, Agent] = {agent.name: agent for agent in (OracleAgent(), NoopAgent())}
"""Agents that ask no model, and so act alike in every sample."""

SEEDED: Mapping[str, Callable[[int], Agent]] = {WanderingAgent.name: WanderingAgent}
"""Agents that ask no model and act differently with each seed."""

MODELLED: Mapping[str, Callable[[ChatModel, Sampling], Agent]] = {
    ActAgent.name: ActAgent,
    BashAgent.name: BashAgent,
    TerminusAgent.name: TerminusAgent,
    PlannerExecutorAgent.name: PlannerExecutorAgent,
    StepHRLAgent.name: StepHRLAgent,
    ReactAgent.name: ReactAgent,
    ReflexionAgent.name: ReflexionAgent,
    AdaptAgent.name: AdaptAgent,
}
"""Agents that a model decides for."""

NAMES = tuple(sorted({*FIXED, *SEEDED, *MODELLED}))
