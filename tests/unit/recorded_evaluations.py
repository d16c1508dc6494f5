"""What evaluations need in place of a server and an engine: planned answers, and states that are lists of commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pipeline.llm.protocol import Completion, Message, Sampling
from pipeline.rows import instance_row, repository_row
from pipeline.schemas import Row, table_schema, to_arrow, to_rows
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import Repository, TaskInstance, Verifier, VerifierFile
from sandbox.protocol import Backend
from sandbox.terminals.terminal import Terminal
from sandbox.types import USUAL, Conditions, ExecResult, FileChange, FrozenState, Judgement, Limits, TestOutcome
from tests.unit.recorded_clients import answer, said
from training.evaluate import EvaluationConfig, Policy, evaluate
from training.evaluation_folder import Evaluation, EvaluationFolder
from training.evaluation_tasks import EvaluatedTask, Selection

RIGHT, WRONG = "right", "wrong"
TEST = "test_state.py::test_it"
OPTIONS = Options(workers=1)


def planned(name: str, **fields: object) -> TaskInstance:
    """A task that the command `right` solves, of a repository of its own."""
    repository = Repository(source="local", full_name=f"own/{name}", commit="1", language="go", locator=".")
    usual: dict[str, object] = {
        "repository_id": repository.repository_id,
        "image_digest": "sha256:1",
        "instruction": f"Plan {name}.",
        "solution": (RIGHT,),
        "verifier": Verifier(files=(VerifierFile(path="test_state.py", content=name),), passing_tests=(TEST,)),
        "generator": "test",
        "language": "go",
        "family": "created_file",
        "difficulty": "easy",
        "provenance": {},
    }
    return TaskInstance.model_validate(usual | fields)


def evaluated(instance: TaskInstance, full_name: str = "own/tool", source: str = "local") -> EvaluatedTask:
    """The instance as tables hold it."""
    repository = Repository(source=source, full_name=full_name, commit="1", language="go", locator=".")
    batch: Row = {"attempt": 1, "reason": ""}
    row = instance_row(instance) | {"admitted": True, "item_key": instance.instance_id, **batch}
    return EvaluatedTask(
        to_rows(to_arrow(table_schema("instances"), [row]))[0],
        repository_row(repository)
        | {"repository_id": instance.repository_id, "item_key": instance.repository_id, **batch},
    )


def fill(data: Path, tasks: Iterable[EvaluatedTask], selected: bool = True) -> Store:
    """A data folder with these admitted instances."""
    store, given = Store(data), list(tasks)
    store.append("instances", [task.row for task in given], app_id="test", sequence=1)
    repositories = {task.row["repository_id"]: task.repository for task in given}
    store.append("repositories", list(repositories.values()), app_id="test", sequence=1)
    chosen = [{name: task.row[name] for name in ("instance_id", "item_key", "attempt", "reason")} for task in given]
    store.append("selections", [row | {"selected": selected} for row in chosen], app_id="test", sequence=1)
    return store


class PlannedModel:
    """Begins each conversation about a plan with its next planned command, or fails; then it hands in."""

    def __init__(
        self, plans: Mapping[str, Sequence[str | Exception]], details: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._plans = {name: list(plan) for name, plan in plans.items()}
        self.name = "planned"
        self.details = {"weights": "sha256:1", **details}
        self.seeds: list[int | None] = []
        """Of the first question of each conversation."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        if len(messages) > 1:
            return said("DONE", cost_usd=0.25)
        self.seeds.append(sampling.seed)
        (plan,) = [plan for name, plan in self._plans.items() if f"Plan {name}." in messages[0].content]
        planned = plan.pop(0)
        if isinstance(planned, Exception):
            raise planned
        return said(f"```bash\n{planned}\n```", cost_usd=0.25)


class _Sandbox:
    image_digest = "sha256:1"

    def __init__(self, states: dict[str, list[str]]) -> None:
        self._states = states
        self._commands: list[str] = []

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        self._commands.append(command)
        return answer(0)

    def terminal(self, *, rows: int = 24, columns: int = 80) -> Terminal:
        raise NotImplementedError("the agent of these tests types no keys")

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        raise NotImplementedError("attempts put nothing")

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        return None

    def changes(self) -> list[FileChange]:
        return []

    def freeze(self, reference: str, *, keep: bool = True) -> FrozenState:
        self._states[reference] = list(self._commands)
        return FrozenState(reference=reference, image_digest=self.image_digest)

    def close(self) -> None:
        pass


class PlannedBackend:
    """A state is the list of commands that made it, and passes when `right` is one of them."""

    name = "planned"

    def __init__(self, *judging: Exception) -> None:
        """`judging` is raised by as many first judgements."""
        self._states: dict[str, list[str]] = {}
        self._judging = list(judging)
        self.started = 0

    def start(self, image_digest: str, limits: Limits) -> _Sandbox:
        self.started += 1
        return _Sandbox(self._states)

    def restore(self, state: FrozenState, limits: Limits) -> _Sandbox:
        raise NotImplementedError("nothing is restored")

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        if self._judging:
            raise self._judging.pop(0)
        outcome = "passed" if RIGHT in self._states[state.reference] else "failed"
        tests = (TestOutcome.model_validate({"test_id": TEST, "outcome": outcome}),)
        return Judgement(tests=tests, exit_code=0, seconds=0.1)

    def judge_live(
        self,
        sandbox: object,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        raise NotImplementedError("no task of these tests has services")

    def has_state(self, reference: str) -> bool:
        return reference in self._states

    def states(self) -> set[str]:
        return set(self._states)

    def discard(self, reference: str) -> None:
        self._states.pop(reference, None)

    def reap(self) -> int:
        return 0


def run(
    data: Path,
    tasks: Sequence[EvaluatedTask],
    policy: Policy | PlannedModel,
    *,
    runs: int = 1,
    name: str = "one",
    backend: Backend | None = None,
    selection: Selection | None = None,
    code_commit: str = "abc",
    **config: object,
) -> Evaluation:
    """Evaluate."""
    return evaluate(
        EvaluationFolder(data, name),
        tasks,
        selection or Selection(),
        policy if isinstance(policy, Policy) else Policy(policy),
        EvaluationConfig.model_validate({"runs": runs, **config}),
        backend or PlannedBackend(),
        OPTIONS,
        code_commit=code_commit,
    )
