"""An agent that thinks aloud before each action and reads all that it thought, did and saw: ReAct.

Yao et al. 2023, "ReAct: Synergizing Reasoning and Acting in Language Models". An answer without an action is told so
and costs a turn. At the command line the action DONE hands in; games end by themselves. Other than in the paper
the prompt shows the form of an answer and no worked example: a small model (0.5B) copied such ones instead of acting.
"""

from __future__ import annotations

from pipeline.agents.react_chat import PROMPTS
from pipeline.agents.reacting import ReactingAgent


class ReactAgent(ReactingAgent):
    """One model with one way of sampling."""

    name = "react"
    prompts = PROMPTS
