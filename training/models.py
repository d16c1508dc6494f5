"""Versions of trained models: what was learned, with all that it came from, written once and never changed.

    data/models/NAME/v0001/  model.json         what it is, and the sha256 of each file
                             README.md          the same to read
                             adapter/           as peft's save_pretrained writes it, or
                             weights/           as transformers' does
                             tokenizer.json …   what turns its conversations into tokens
                             trained_on.parquet the rows it was trained on, for whoever evaluates it
                             metrics.jsonl      a line for each logged step

Not here: how a model is trained (training/methods) and served.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pipeline.disk import sync
from pipeline.errors import ConfigurationError, PipelineError
from pipeline.exports.folders import new_folder
from pipeline.snapshots.manifest import file_sha256
from pipeline.snapshots.reading import LATEST, NAME, VERSION
from pipeline.types import Record
from sandbox.locks import exclusive
from training.model_card import card
from training.run import METRICS, read_metrics
from training.trained_on import TrainedRow, read_trained_on, write_trained_on

MODELS = "models"
"""Below the data folder."""
FILE = "model.json"
Kind = Literal["adapter", "weights"]
"""What a version holds, and the name of its folder."""


class ModelDamaged(PipelineError):
    """A version is not what its model.json says."""


class Training(Record):
    """What a model came from, and how its training went."""

    method: str
    base: str
    """Name of the folder of the weights that it began with."""
    base_sha256: str
    """See training/weight_files.py."""
    snapshot: str
    """`NAME@VERSION`."""
    snapshot_sha256: str
    """Content hash of the rows of that version."""
    rows: int
    """Trajectories that were learned from."""
    left_out: int
    """Others of the split `train`: not asked for, or refused as tokens."""
    windows: int
    packs: int
    padding_share: float
    n_tokens: int
    n_target_tokens: int
    """Tokens that carry loss."""
    tokenizer_id: str
    chat_template_sha256: str
    parameters: int
    trainable_parameters: int
    steps: int
    first_loss: float
    last_loss: float
    """Mean over the first and the last tenth of the steps, nats a token."""
    validation_loss: float | None
    """The lowest one; that of the weights kept."""
    seconds: float
    """Of its last part, for one that was ended and went on."""
    device: str
    run: str
    """Name of the folder of the run."""
    config: dict[str, object]
    code_commit: str | None
    packages: dict[str, str]
    """Versions of what trained it."""


class ModelFile(Record):
    """model.json."""

    name: str
    version: str
    kind: Kind
    created_at: str
    training: Training
    files: dict[str, str]
    """Path -> sha256, of all others."""


class TrainedModel:
    """A version on disk."""

    def __init__(self, folder: Path) -> None:
        """Raises ModelDamaged when model.json cannot be read."""
        self.folder = folder
        try:
            self.file = ModelFile.model_validate_json((folder / FILE).read_bytes())
        except (OSError, ValidationError) as error:
            raise ModelDamaged(f"{folder / FILE} cannot be read: {error}") from error

    @property
    def reference(self) -> str:
        return f"{self.file.name}@{self.file.version}"

    @property
    def learned(self) -> Path:
        """The folder with the adapter or the weights."""
        return self.folder / self.file.kind

    def trained_on(self) -> Iterator[TrainedRow]:
        """The rows it was trained on."""
        return read_trained_on(self.folder)

    def metrics(self) -> Iterator[dict[str, float]]:
        """The logged steps, in order."""
        return read_metrics(self.folder / METRICS)

    def faults(self) -> list[str]:
        """The files that are not those of the version; none when all is well."""
        paths = {name: self.folder / name for name in self.file.files}
        wrong = [
            name for name, path in paths.items() if not path.is_file() or file_sha256(path) != self.file.files[name]
        ]
        return [f"{self.folder}: {name} is not what was written" for name in wrong]


def publish_model(
    data: Path, name: str, learned: Path, kind: Kind, beside: Iterable[Path], rows: Iterable[TrainedRow], told: Training
) -> TrainedModel:
    """Write the next version: what lies in `learned`, the files `beside` it, model.json and the card.

    A run's version is written once: asked again, the one that there is comes back. Raises ConfigurationError.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(f"model name {name!r} may hold lower-case letters, digits, '-' and '_' only")
    with exclusive(data.resolve() / "locks" / f"model-{name}.lock", f"model {name}"):
        present = models(data, name)
        if made := next((one for one in present if one.file.training.run == told.run), None):
            return made
        version = f"v{max((int(one.file.version[1:]) for one in present), default=0) + 1:04d}"
        with new_folder(data.resolve() / MODELS / name / version) as part:
            shutil.copytree(learned, part / kind)
            for file in beside:
                shutil.copy(file, part / file.name)
            write_trained_on(part, rows)
            model = ModelFile(
                name=name,
                version=version,
                kind=kind,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                training=told,
                files=_hashes(part),
            )
            (part / "README.md").write_text(card(model.model_dump(mode="json")), encoding="utf-8")
            (part / FILE).write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
            for path in [*part.rglob("*"), part]:
                sync(path)
        return TrainedModel(data.resolve() / MODELS / name / version)


def models(data: Path, name: str) -> list[TrainedModel]:
    """The versions of a name, oldest first. Raises ModelDamaged."""
    folder = data.resolve() / MODELS / name
    if not NAME.fullmatch(name) or not folder.is_dir():
        return []
    return [TrainedModel(path) for path in sorted(folder.iterdir()) if VERSION.fullmatch(path.name)]


def model_names(data: Path) -> list[str]:
    """Names that have versions, sorted."""
    folder = data.resolve() / MODELS
    return sorted(path.name for path in folder.iterdir() if models(data, path.name)) if folder.is_dir() else []


def find_model(data: Path, reference: str) -> TrainedModel:
    """The version that NAME or NAME@VERSION names, its files being those that were written.

    Raises ConfigurationError, naming what there is, and ModelDamaged.
    """
    name, _, version = reference.partition("@")
    present = models(data, name)
    found = next((one for one in reversed(present) if version in ("", LATEST, one.file.version)), None)
    if found is None:
        known = ", ".join(one.file.version for one in present) or "no version"
        raise ConfigurationError(f"there is no model {reference!r}; {name!r} has {known}")
    if faults := found.faults():
        raise ModelDamaged("; ".join(faults))
    return found


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_sha256(path) for path in files}
