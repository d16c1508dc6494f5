"""The terminal as the sixth environment: tasks from real images, their reference solutions played, judged, timed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from pipeline.agents import FIXED, MODELLED
from pipeline.curation.splits import SplitConfig
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory
from sandbox.backends.choice import choose
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.integration.projects import FRUIT, Project, ledger, word_tools
from training.environments.terminal import TerminalSuite

pytestmark = pytest.mark.docker

SAMPLED = 30


def by_a_model(name: str, suite: TerminalSuite, task: TaskInstance) -> Trajectory:
    """An attempt of an agent whose model was told the reference solution beforehand."""
    commands = list(task.solution)
    answers = [f"Thought: This is next.\nAction:\n```bash\n{command}\n```" for command in commands]
    answers.append("Thought: It is as wanted.\nAction: DONE")
    model = ScriptedModel(commands if name == "act" else answers)
    budgets = RolloutConfig(max_steps=len(commands) + (name != "act"))
    with suite.opened(task, "shell") as environment:
        return rollout(task, MODELLED[name](model, Sampling()), environment, budgets)


def test_reference_solutions_reach_the_full_score(
    make_project: Callable[[str], Project], record_property: Callable[[str, object], None]
) -> None:
    project = make_project("terminal")
    project.add("fruit", word_tools("fruit", FRUIT))
    project.add("ledger", ledger("ledger"))
    project.touchstone("run", "--streams", "python", "--instances-only")

    client = connect(project.data)
    bases = BaseImages(client, BaseImageConfig(), project.data)
    backend = choose("auto", client, VerifierRuntime(client, bases), project.data, bases.base().digest)
    try:
        suite = TerminalSuite(Store(project.data), backend, SplitConfig(families=0.3), command_timeout_s=60.0)
        tasks = suite.instances()[:SAMPLED]
        assert len(tasks) >= 8 and len({split for _, split in tasks}) >= 2
        steps, seconds, passed = 0, 0.0, 0
        for instance, _ in tasks:
            begun = time.monotonic()
            with suite.opened(instance, "shell") as environment:
                trajectory = rollout(instance, FIXED["oracle"], environment, RolloutConfig())
            seconds += time.monotonic() - begun
            steps += sum(step.action is not None for step in trajectory.steps)
            passed += suite.judged(instance, trajectory).outcome == "passed"
        idle, _ = tasks[0]
        with suite.opened(idle, "shell") as environment:
            nothing = rollout(idle, FIXED["noop"], environment, RolloutConfig())
        assert suite.judged(idle, nothing).outcome == "failed"
        for name in ("act", "react", "reflexion", "adapt"):
            acted = by_a_model(name, suite, idle)
            assert suite.judged(idle, acted).outcome == "passed", (name, acted.steps)
    finally:
        if isinstance(backend, OverlayBackend):
            backend.close()
        client.close()
    told = {"tasks": len(tasks), "gold_full_score": passed, "steps": steps, "steps_per_s": round(steps / seconds, 1)}
    record_property("environment", f"terminal: {json.dumps(told)}")
    assert passed >= 0.95 * len(tasks)
