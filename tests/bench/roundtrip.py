"""`make roundtrip-harbor`: export -> Harbor's own checks, oracle and nop -> import. The last line is one JSON object.

Harbor runs in the root that infra/peers.sh makes, on the engine of this machine; the folders are exported to the one
folder that has the same path inside and outside of it. What comes back is compared field by field.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
from rich.console import Console

from assets.export import harbor_export
from assets.resources import Workshop, open_workshop
from pipeline.checkout import CheckoutConfig
from pipeline.dockerfiles import candidates
from pipeline.exports.tasks import ExportedTask, selected_tasks
from pipeline.generators.protocol import GeneratorInput
from pipeline.generators.task_folders import TaskFolders
from pipeline.sources.task_folders import TaskFoldersConfig, TaskFolderSource, TaskFoldersPath
from pipeline.types import TaskInstance
from sandbox.building.images import ImageBuilder
from sandbox.engine import connect
from sandbox.protocol import Sandbox
from sandbox.types import BuildLimits
from tests.bench.harbor import PATIENCE_S, START_S, enter, run_harbor
from tests.bench.trials import TrialFailed

AGENTS = {"oracle": 1.0, "nop": 0.0}
"""Agents of Harbor and the reward that each must have for every task."""
FROM_ELSEWHERE = {"repository_id", "generator", "provenance", "image_digest"}
"""What an import says of itself; everything else comes back as it went. Of an image its content is compared."""
_VALIDATE = """
import sys
from pathlib import Path
from harbor.models.task.task import Task
for folder in sorted(Path(sys.argv[1]).iterdir()):
    Task(folder)
"""
# Compose before 2.27 cannot be asked for what this check wants to know, and Debian's is older; the trials show it.
_OLD_COMPOSE = "Docker Compose could not load this configuration"


def chosen(workshop: Workshop, count: int | None) -> list[ExportedTask]:
    """`count` admitted tasks, from as many families and domains as there are: one of each in turn."""
    groups: dict[tuple[str, str], list[ExportedTask]] = {}
    for task in selected_tasks(workshop.store()):
        groups.setdefault((task.instance.domain, task.instance.family), []).append(task)
    turns = range(max(map(len, groups.values())))
    order = [group[turn] for turn in turns for group in groups.values() if turn < len(group)]
    return order[:count]


def validate(folder: Path) -> None:
    """Harbor's own reading and lint of every folder. Raises TrialFailed."""
    code, said = enter("/opt/harbor/bin/python", "-c", _VALIDATE, str(folder), timeout_s=PATIENCE_S)
    if code != 0:
        raise TrialFailed(f"Harbor does not read a folder: {said[-2000:]}")
    names = [str(path) for path in sorted(folder.iterdir())]
    _, said = enter("harbor", "lint", "--json", *names, timeout_s=START_S + len(names))
    findings = [one for one in json.loads(said) if not str(one["message"]).startswith(_OLD_COMPOSE)]
    if findings:
        raise TrialFailed(f"harbor lint: {findings[:3]}")


def rewards(folder: Path, jobs: Path, agent: str, parallel: int, count: int) -> Mapping[str, object]:
    """Reward of each task by its id; what is wrong with a trial where there is none. Raises TrialFailed."""
    place = ("--path", str(folder), "--jobs-dir", str(jobs), "--job-name", agent)
    amount = ("--n-concurrent", str(parallel))
    run_harbor("run", "--yes", "--quiet", "--agent", agent, *place, *amount, timeout_s=START_S + PATIENCE_S * count)
    found: dict[str, object] = {}
    for path in (jobs / agent).glob("*/result.json"):
        result = json.loads(path.read_text())
        seen = result["verifier_result"]
        found[result["task_name"].rpartition("/")[2]] = seen["rewards"]["reward"] if seen else result["exception_info"]
    return found


def imported(workshop: Workshop, folder: Path, trees: Path) -> Iterator[tuple[str, TaskInstance]]:
    """The tasks of the folders, in the images that are built of them, by the names of the folders."""
    config = TaskFoldersConfig(paths=(TaskFoldersPath(path=folder),))
    source = TaskFolderSource(config, CheckoutConfig(), folder.parent)
    builder = ImageBuilder(connect(workshop.data), workshop.bases())
    for repository in source.repositories(None):
        checkout = source.fetch(repository, trees)
        tree = trees / f"{checkout.tree_sha256}.tar"
        build = builder.build(candidates(repository, tree, workshop.toolchain)[0].spec, BuildLimits())
        if build.digest is None:
            raise TrialFailed(f"the image of {repository.full_name} was not built: {build.reason}")
        given = GeneratorInput(repository=repository, tree=tree, image_digest=build.digest)
        for candidate in TaskFolders().instances(given, _no_sandbox):
            if candidate.instance is None:
                raise TrialFailed(f"{repository.full_name} gives no task: {candidate.reason}")
            yield repository.full_name.rpartition("/")[2], candidate.instance


def _no_sandbox() -> Sandbox:
    raise TrialFailed("an import starts no sandbox")


def differences(client: docker.DockerClient, before: TaskInstance, after: TaskInstance) -> list[str]:
    """Names of the fields that did not come back."""
    found = [
        name
        for name in TaskInstance.model_fields
        if name not in FROM_ELSEWHERE and getattr(before, name) != getattr(after, name)
    ]
    same = _content(client, before.image) == _content(client, after.image)
    return found if same else [*found, "image"]


def _content(client: docker.DockerClient, image: str) -> tuple[object, ...]:
    """What a sandbox has of an image: its layers, its variables, where it starts and as whom."""
    found = client.api.inspect_image(image)
    config = found["Config"]
    return found["RootFS"], config["Env"], config["WorkingDir"], config["User"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make roundtrip-harbor", description=__doc__)
    parser.add_argument("--data", type=Path, help="data folder with the instances (default: that of the peers)")
    parser.add_argument("--count", type=int, help="how many of them (default: all)")
    parser.add_argument("--parallel", type=int, default=2, help="trials of Harbor at a time")
    options = parser.parse_args()
    peers, console, started = open_workshop(), Console(width=110), time.monotonic()
    workshop = Workshop(peers.settings, peers.folder, options.data.absolute()) if options.data else peers
    work = peers.data / "peers" / "work" / "roundtrip"
    shutil.rmtree(work, ignore_errors=True)
    tasks = {task.instance.instance_id: task.instance for task in chosen(workshop, options.count)}
    folder = work / "tasks"
    work.mkdir(parents=True)
    harbor_export(workshop, folder, tuple(tasks))
    validate(folder)
    console.print(f"{len(tasks)} tasks exported and read by Harbor, {time.monotonic() - started:.0f} s")
    right = dict.fromkeys(AGENTS, 0)
    for agent, wanted in AGENTS.items():
        found = rewards(folder, work / "jobs", agent, options.parallel, len(tasks))
        right[agent] = sum(found.get(task) == wanted for task in tasks)
        for task in sorted(set(tasks) - {task for task in tasks if found.get(task) == wanted}):
            console.print(f"{agent}: {task}: {found.get(task, 'no trial')}"[:400], markup=False)
        console.print(f"{agent}: {right[agent]} of {len(tasks)} as expected, {time.monotonic() - started:.0f} s")
    back = dict(imported(workshop, folder, work / "trees"))
    client = connect(workshop.data)
    wrong = {task: differences(client, tasks[task], back[task]) for task in tasks if task in back}
    for task, names in wrong.items():
        if names:
            console.print(f"{task} came back with another {', '.join(names)}")
    summary = {
        "instances": len(tasks),
        "oracle_reward_1": right["oracle"],
        "nop_reward_0": right["nop"],
        "imported": len(back),
        "equal": sum(not names for names in wrong.values()),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary))
    return 0 if len(set(list(summary.values())[:5])) == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
