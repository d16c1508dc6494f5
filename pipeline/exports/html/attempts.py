"""What the working tables know of each attempt, row by row, in the order in which the viewer shows them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from pipeline.errors import PipelineError
from pipeline.rows import instance_of, trajectory_of
from pipeline.schemas import Row, to_rows
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.terminal_environment import BATCH, Keystrokes
from pipeline.types import Step, TaskInstance, Trajectory

UNJUDGED = "unjudged"
"""Stands for the verdict of an attempt that has none yet; the other words are those of VerificationResult."""
_OF_REPOSITORY = ("source", "license", "license_sha256", "tree_sha256")
_NAMES = ("trajectory_id", "instance_id", "agent", "model", "sample")


class NothingToShow(PipelineError):
    """No trajectory is there, or none that was asked for."""


class Listed(NamedTuple):
    """One attempt as lists of attempts name it."""

    trajectory_id: str
    instance_id: str
    agent: str
    model: str | None
    sample: int
    verdict: str


@dataclass(frozen=True)
class ShownStep:
    """A step, with what came of it: a row has only what the agent saw before."""

    step: Step
    told: str | None
    keys: tuple[Keystrokes, ...]
    """The batch of keys of a terminal; empty where the action is a command, or keys that cannot be read."""
    answer: str | None
    """What it brought; None where that was not recorded."""

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The questions to a model behind it."""
        return list(self.step.extra.get("calls", ()))

    @property
    def status(self) -> str | None:
        """What the terminal was doing when the agent looked again."""
        return self.step.extra.get("terminal")

    @property
    def handed_in(self) -> bool:
        return not self.step.action and self.told is None


@dataclass(frozen=True)
class Shown:
    """All that a page tells."""

    listed: Listed
    trajectory: Trajectory
    row: Row
    instance: TaskInstance | None
    """None when its row is gone."""
    repository: Row
    verification: Row
    judgements: Sequence[Row]
    """What language models think of it; no verdicts."""
    replays: Sequence[Row]

    @property
    def steps(self) -> list[ShownStep]:
        recorded = self.trajectory.steps
        return [
            ShownStep(
                step=step,
                told=step.extra.get("told"),
                keys=_keys(step.action) if self.trajectory.interface == "terminal" else (),
                answer=recorded[place + 1].observation if place + 1 < len(recorded) else step.extra.get("after"),
            )
            for place, step in enumerate(recorded)
        ]

    @property
    def seconds(self) -> float:
        """Of commands and of questions to models."""
        calls = (call for step in self.steps for call in step.calls)
        return sum(step.seconds for step in self.trajectory.steps) + sum(float(one["seconds"]) for one in calls)

    @property
    def tests_not_run(self) -> list[str]:
        """Tests that a pass needs and of which the verdict says nothing."""
        told = {str(test["test_id"]) for test in _tests(self.verification)}
        needed = self.instance.verifier.passing_tests if self.instance and self.verification else ()
        return [test for test in needed if test not in told]

    @property
    def origin(self) -> Iterator[tuple[str, object]]:
        """Name and value of what tells where the attempt and its instance come from."""
        yield from ((f"Sampling: {name}", value) for name, value in self.trajectory.sampling.items())
        yield from self.trajectory.details.items()
        yield "Interface", self.trajectory.interface
        yield "Sandbox of the attempt", self.trajectory.backend
        yield "Sandbox of the verdict", self.verification.get("backend")
        yield "Recorded at", self.row["recorded_at"]
        yield "Attempt of the item", self.row["attempt"]
        if self.instance is not None:
            yield "Generator", self.instance.generator
            yield "Seed", self.instance.seed
            yield "Image", self.instance.image_digest
            yield "Limits", self.instance.limits
            yield "Contexts", ", ".join(self.instance.context_ids)
            yield from ((f"Provenance: {name}", value) for name, value in self.instance.provenance.items())
        yield from ((name.replace("_", " ").capitalize(), self.repository.get(name)) for name in _OF_REPOSITORY)


class Attempts:
    """The attempts whose id, instance, repository or repository's name begins with `only`."""

    def __init__(self, store: Store, only: str = "") -> None:
        """Raises NothingToShow."""
        recorded = [row for row in to_rows(store.current("verifications")) if row["trajectory_id"]]
        recorded.sort(key=lambda row: str(row["recorded_at"]))
        # A retried attempt is judged again under another key: the later verdict is the one that counts.
        self._verifications = {row["trajectory_id"]: row for row in recorded}
        self._repositories = {row["repository_id"]: row for row in to_rows(store.current("repositories"))}
        self._instances = {row["instance_id"]: row for row in to_rows(store.current("instances"))}
        self._judgements, self._replays = (_by_trajectory(store, table) for table in ("judgements", "replays"))
        self._stored = StoredRows(store, "trajectories", [*_NAMES, "failure_class"])
        light = to_rows(self._stored.light)
        self._numbers = [number for number, row in enumerate(light) if not only or self._begins(row, only)]
        rows = [light[number] for number in self._numbers]
        self.listed = sorted((self._listed(row) for row in rows if row["trajectory_id"]), key=_place)
        self.lost = Counter(str(row["failure_class"]) for row in rows if not row["trajectory_id"])
        """Attempts that left no trajectory, by the class of what went wrong."""
        if not self.listed:
            raise NothingToShow(
                f"no trajectory has an id, an instance or a repository that begins with {only!r}"
                if only
                else "no trajectory is recorded yet; `touchstone run` makes them"
            )

    def __iter__(self) -> Iterator[Shown]:
        """In no particular order, one in memory at a time."""
        listed = {one.trajectory_id: one for one in self.listed}
        for number in self._numbers:
            row = self._stored.row(number)
            if row["trajectory_id"]:
                yield self._shown(listed[str(row["trajectory_id"])], row)

    def _shown(self, listed: Listed, row: Row) -> Shown:
        instance = self._instances.get(listed.instance_id)
        return Shown(
            listed=listed,
            trajectory=trajectory_of(row),
            row=row,
            instance=instance_of(instance) if instance else None,
            repository=self._repository(listed.instance_id),
            verification=self._verifications.get(listed.trajectory_id, {}),
            judgements=self._judgements[listed.trajectory_id],
            replays=self._replays[listed.trajectory_id],
        )

    def _listed(self, row: Row) -> Listed:
        verdict = self._verifications.get(row["trajectory_id"], {}).get("outcome") or UNJUDGED
        return Listed(
            trajectory_id=str(row["trajectory_id"]),
            instance_id=str(row["instance_id"]),
            agent=str(row["agent"]),
            model=None if row["model"] is None else str(row["model"]),
            sample=int(str(row["sample"] or 0)),
            verdict=str(verdict),
        )

    def _repository(self, instance_id: object) -> Row:
        instance = self._instances.get(instance_id, {})
        return self._repositories.get(instance.get("repository_id"), {})

    def _begins(self, row: Row, only: str) -> bool:
        repository = self._repository(row["instance_id"])
        names = (row["trajectory_id"], row["instance_id"], repository.get("repository_id"), repository.get("full_name"))
        return any(isinstance(name, str) and name.startswith(only) for name in names)


def _tests(verification: Row) -> list[Mapping[str, Any]]:
    tests = verification.get("tests")
    return tests if isinstance(tests, list) else []


def _by_trajectory(store: Store, table: str) -> Mapping[str, Sequence[Row]]:
    """The rows of a table, the newest of a trajectory last."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in sorted(to_rows(store.current(table)), key=lambda row: str(row["recorded_at"])):
        found[str(row["trajectory_id"])].append(row)
    return found


def _place(one: Listed) -> tuple[str, str, str, int, str]:
    return one.instance_id, one.agent, one.model or "", one.sample, one.trajectory_id


def _keys(action: str) -> tuple[Keystrokes, ...]:
    try:
        return BATCH.validate_json(action) if action else ()
    except ValidationError:
        return ()
