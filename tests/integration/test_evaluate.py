"""An evaluation of both agents with a model behind a server, in real sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.stages.options import Options
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from tests.integration.chaos import backend_of, instances, model_at
from tests.integration.faulty_server import FaultyServer
from tests.unit.recorded_evaluations import evaluated
from training.evaluate import EvaluationConfig, Policy, evaluate
from training.evaluation_compare import compare
from training.evaluation_folder import EvaluationFolder
from training.evaluation_report import evaluation_report
from training.evaluation_tasks import Selection

pytestmark = pytest.mark.docker


def test_both_agents_are_evaluated_and_compared_instance_by_instance(data_folder: Path, tmp_path: Path) -> None:
    client = connect(data_folder)
    image = BaseImages(client, BaseImageConfig(), data_folder).base().digest
    client.close()
    backend = backend_of(data_folder, image)
    # The script solves the second task at this temperature, and never the first.
    tasks = [evaluated(instance, f"own/{number}") for number, instance in enumerate(instances(image, 2))]
    try:
        with FaultyServer() as server:
            asked: list[int] = []
            for agent in ("bash", "terminus"):
                config = EvaluationConfig.model_validate({"agent": agent, "runs": 2, "temperature": 0.0})
                folder, policy = EvaluationFolder(tmp_path, agent), Policy(model_at(server.url))
                for _ in range(2):  # the second call finds everything done
                    evaluate(folder, tasks, Selection(), policy, config, backend, Options(workers=2), code_commit=None)
                    asked.append(server.asked)
    finally:
        if isinstance(backend, OverlayBackend):
            backend.close()
    assert 0 < asked[0] == asked[1] < asked[2] == asked[3]
    for agent, turns in (("bash", 4.0), ("terminus", 5.0)):  # terminus is asked whether it is sure
        (found,) = evaluation_report(EvaluationFolder(tmp_path, agent)).benchmarks
        assert (found.begun, found.judged, found.passed, found.mean_turns) == (4, 4, 2, turns)
        assert found.failures == {"agent": {"wrong_result": 2}, "environment": {}, "infrastructure": {}}
        assert {k: mean.mean for k, mean in found.pass_at_k.items()} == {1: 0.5, 2: 0.5}
    compared = compare(EvaluationFolder(tmp_path, "bash"), EvaluationFolder(tmp_path, "terminus"))
    assert (compared.compared, compared.benchmarks[0].overall.difference) == (2, 0.0)
    assert "agent: bash and terminus" in compared.policies
