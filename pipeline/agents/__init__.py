"""Agents by name; each file of this folder is one."""

from __future__ import annotations

from pipeline.agents.noop import NoopAgent
from pipeline.agents.oracle import OracleAgent
from pipeline.agents.protocol import Agent

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (OracleAgent(), NoopAgent())}
