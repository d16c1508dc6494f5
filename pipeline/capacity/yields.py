"""What became of the items of each stage, repository by repository, from the working tables alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from pipeline.capacity.measures import Measure, Pair, mean_of
from pipeline.capacity.stages import Stage
from pipeline.schemas import Row, to_rows
from pipeline.stages.building import MACHINE
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE

_OF_REPOSITORIES = frozenset({"listing", "fetch", "score", "build", "instances"})
_OF_ATTEMPTS = frozenset({"rollout", "verification", "judgement", "curation"})


class Yields:
    """The current rows of one data folder, without their texts."""

    def __init__(self, store: Store, kept: Collection[str], agents: Sequence[str]) -> None:
        """`kept` are ids of trajectories that curation keeps. Raises TableDamaged."""
        self._rows = {table: to_rows(store.current(table, columns)) for table, columns in _COLUMNS.items()}
        self._instances = {
            str(row["instance_id"]): str(row["repository_id"]) for row in self._rows["instances"] if row["instance_id"]
        }
        self._attempts = _chosen(self._rows["trajectories"], agents)
        self._kept = frozenset(kept)

    @property
    def whose(self) -> str:
        """Whose attempts are counted, e.g. `bash / qwen@1`."""
        who = {
            f"{row['agent']} / {row['model']}" if row["model"] else str(row["agent"]) for row in self._attempts.values()
        }
        return ", ".join(sorted(who)) or "nobody"

    def counts(self, stage: Stage, entity: str) -> bool:
        """Whether an item of the journal is one of those that are looked at."""
        return stage not in _OF_ATTEMPTS or entity in self._attempts

    def repository(self, stage: Stage, entity: str) -> str:
        """Where an item comes from; the item itself where that is not known."""
        if stage in _OF_REPOSITORIES:
            return entity
        row = self._attempts.get(entity)
        instance = str(row["instance_id"]) if row else entity
        return self._instances.get(instance, instance)

    def by_repository(self, stage: Stage, figures: Mapping[str, float]) -> list[Pair]:
        """The sum over the items of each repository, and how many they are."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for entity, figure in sorted(figures.items()):
            pair = sums[self.repository(stage, entity)]
            pair[0] += figure
            pair[1] += 1
        return [(figure, count) for _, (figure, count) in sorted(sums.items())]

    def pairs(self, stage: Stage) -> list[Pair]:
        """What the items of each repository gave, and how many there were; none for a stage that all go through."""
        fates: dict[Stage, Mapping[str, float]] = {
            "fetch": self._fetched(),
            "score": self._scored(),
            "build": self._built(),
            "instances": self._admitted(),
            "selection": {str(row["instance_id"]): bool(row["selected"]) for row in self._rows["selections"]},
            "decontamination": self._far(),
            "sampling": Counter(str(row["instance_id"]) for row in self._attempts.values()),
            "rollout": {
                key: row["trajectory_id"] is not None
                for key, row in self._attempts.items()
                if row["failure_class"] != INFRASTRUCTURE
            },
            "verification": self._passed(),
            "curation": {key: key in self._kept for key in self._looked() if self._passed().get(key)},
        }
        return self.by_repository(stage, fates[stage]) if stage in fates else []

    def _fetched(self) -> dict[str, float]:
        return {
            str(row["repository_id"]): row["tree_sha256"] is not None
            for row in self._rows["repositories"]
            if row["failure_class"] != INFRASTRUCTURE
        }

    def _scored(self) -> dict[str, float]:
        """By the last score of each."""
        rows = sorted(self._rows["scores"], key=lambda row: str(row["recorded_at"]))
        return {str(row["repository_id"]): bool(row["kept"]) for row in rows if row["kept"] is not None}

    def _built(self) -> dict[str, float]:
        rows = self._rows["image_builds"]
        usable = {str(row["repository_id"]) for row in rows if row["smoke_ok"]}
        broken = {str(row["repository_id"]) for row in rows if row["failure_class"] in MACHINE}
        return {key: key in usable for row in rows if (key := str(row["repository_id"])) in usable or key not in broken}

    def _admitted(self) -> dict[str, float]:
        """Of each image: instances that passed every gate."""
        admitted = {
            str(row["instance_id"]): str(row["repository_id"]) for row in self._rows["instances"] if row["admitted"]
        }
        counts = Counter(admitted.values())
        return {str(row["repository_id"]): counts[str(row["repository_id"])] for row in self._rows["instances"]}

    def _far(self) -> dict[str, float]:
        rows = [row for row in self._rows["contaminations"] if row["decision"]]
        near = {str(row["instance_id"]) for row in rows if row["decision"] == "drop"}
        return {key: key not in near for row in rows if (key := str(row["instance_id"]))}

    def _passed(self) -> dict[str, float]:
        return {
            str(row["trajectory_id"]): row["outcome"] == "passed"
            for row in self._rows["verifications"]
            if row["trajectory_id"] in self._attempts and row["failure_class"] != INFRASTRUCTURE
        }

    def _looked(self) -> set[str]:
        return {str(row["trajectory_id"]) for row in self._rows["curations"] if row["failure_class"] is None}

    def kept_bytes(self, stage: Stage) -> list[Pair]:
        """Of trees and images, for each repository that came; layers that images share count each time."""
        sizes: dict[str, float] = {}
        if stage == "fetch":
            sizes = {str(row["repository_id"]): _number(row["n_bytes"]) for row in self._rows["repositories"]}
        if stage == "build":
            sizes = {str(row["repository_id"]): 0.0 for row in self._rows["image_builds"]}
            usable = [row for row in self._rows["image_builds"] if row["smoke_ok"]]
            sizes |= {str(row["repository_id"]): _number(row["size_bytes"]) for row in usable}
        return self.by_repository(stage, sizes)

    def judging(self) -> dict[str, float]:
        """Seconds in which a model was asked about each attempt."""
        seconds: dict[str, float] = defaultdict(float)
        for row in self._rows["judgements"]:
            seconds[str(row["trajectory_id"])] += _number(row["seconds"])
        return seconds

    def tokens(self, stage: Stage, cached: Mapping[str, int]) -> tuple[Measure | None, Measure | None, Measure | None]:
        """Prompt tokens, those of them that the server knew already, and written ones; None where nobody was asked."""
        rows: Iterable[Row] = ()
        if stage == "rollout":
            rows = [row for row in self._attempts.values() if row["model"] is not None]
        if stage == "judgement":
            rows, cached = self._rows["judgements"], {}
        asked = {
            str(row["trajectory_id"]): row
            for row in rows
            if row["n_prompt_tokens"] is not None and row["trajectory_id"] in self._attempts
        }
        if not asked:
            return None, None, None
        prompt = {key: _number(row["n_prompt_tokens"]) for key, row in asked.items()}
        written = {key: _number(row["n_tokens"]) for key, row in asked.items()}
        known = {key: float(cached.get(key, 0)) for key in asked}
        means = [mean_of(self.by_repository(stage, figures)) for figures in (prompt, known, written)]
        return means[0], means[1], means[2]

    def warning(self, stage: Stage) -> str:
        """What is known to be wrong with the figures of a stage, as the end of a sentence."""
        if stage == "build":
            rows = [row for row in self._rows["image_builds"] if row["status"] == "built"]
            if cached := sum(bool(row["cached"]) for row in rows):
                return f"; {cached} of {len(rows)} images were there already: new ones take longer"
        return ""


_COLUMNS = {
    "repositories": ["repository_id", "tree_sha256", "n_bytes", "failure_class"],
    "scores": ["repository_id", "kept", "recorded_at"],
    "image_builds": ["repository_id", "status", "cached", "smoke_ok", "size_bytes", "failure_class"],
    "instances": ["instance_id", "repository_id", "admitted"],
    "selections": ["instance_id", "selected"],
    "contaminations": ["instance_id", "decision"],
    "trajectories": [
        "item_key", "trajectory_id", "instance_id", "agent", "model", "failure_class", "n_prompt_tokens", "n_tokens",
    ],
    "verifications": ["trajectory_id", "outcome", "failure_class"],
    "judgements": ["trajectory_id", "n_prompt_tokens", "n_tokens", "seconds"],
    "curations": ["trajectory_id", "failure_class"],
}  # fmt: skip


def _chosen(rows: Sequence[Row], agents: Sequence[str]) -> dict[str, Row]:
    """The attempts that are looked at, by their ids."""
    if agents:
        rows = [row for row in rows if row["agent"] in agents]
    elif modelled := [row for row in rows if row["model"] is not None]:
        rows = modelled
    else:
        rows = [row for row in rows if row["agent"] != "noop"]
    return {str(row["item_key"]): row for row in rows}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
