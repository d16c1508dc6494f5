"""touchstone.toml: every setting of the main job, nested by the component that it configures."""

import os
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from assets.environments_config import EnvironmentsConfig, HierarchyConfig
from pipeline.agents import NAMES
from pipeline.attempts import SamplesConfig
from pipeline.capacity.planning import PlanConfig
from pipeline.checkout import CheckoutConfig
from pipeline.cluster import ClusterConfig
from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.splits import SplitConfig
from pipeline.disk_use import CleaningConfig
from pipeline.errors import ConfigurationError
from pipeline.image_attempts import CurationConfig
from pipeline.instances import InstancesConfig
from pipeline.llm.choice import ModelConfig
from pipeline.rollout import RolloutConfig
from pipeline.scoring.exploration import ExplorationConfig
from pipeline.scoring.llm_files import LlmFilesConfig
from pipeline.snapshots.pushing import PublishConfig
from pipeline.snapshots.retention import RetentionConfig
from pipeline.sources.github import GithubConfig
from pipeline.sources.listing import ListingConfig
from pipeline.sources.local import LocalConfig
from pipeline.sources.registry import RegistryConfig
from pipeline.sources.task_folders import TaskFoldersConfig
from pipeline.stage_yields import YieldsConfig
from pipeline.stages.decontamination import DecontaminationConfig
from pipeline.stages.rating import QualityConfig
from pipeline.types import Record
from sandbox.backends.choice import Choice
from sandbox.building.base_images import BaseImageConfig
from sandbox.types import BuildLimits


class SourcesConfig(Record):
    """Where repositories come from."""

    use: tuple[Literal["registry", "local", "listing", "github", "context", "tasks"], ...] = (
        "registry",
        "local",
        "context",
        "tasks",
    )
    """Sources that are asked, in this order."""
    registry: RegistryConfig = RegistryConfig()
    local: LocalConfig = LocalConfig()
    listing: ListingConfig = ListingConfig()
    github: GithubConfig = GithubConfig()
    """Tokens: TOUCHSTONE_GITHUB_TOKENS, separated by commas."""
    tasks: TaskFoldersConfig = TaskFoldersConfig()
    checkout: CheckoutConfig = CheckoutConfig()


class AgentsConfig(RolloutConfig):
    """Who attempts each instance, within which budgets."""

    agents: tuple[str, ...] = Field(default=("oracle", "noop"), min_length=1)
    samples: SamplesConfig = SamplesConfig()
    judge: bool = False
    """Ask the model of [model] about each judged attempt of a model, to be compared with the verdict by execution."""

    @field_validator("agents")
    @classmethod
    def _known(cls, agents: tuple[str, ...]) -> tuple[str, ...]:
        # Here, since the stage that needs them comes when the images are built, hours later.
        if unknown := sorted(set(agents) - set(NAMES)):
            raise ValueError(f"there is no agent {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return agents


class SandboxConfig(Record):
    """What runs the commands of agents and verifiers."""

    backend: Choice = "auto"
    """`overlay` is fast and needs Linux and root, `docker` works with any engine, `auto` takes the first that can."""


class ImagesConfig(BaseImageConfig):
    """Base images, and where finished images go."""

    registry: str | None = Field(default=None, pattern=r"^[^\s/]+(/[^\s/]+)*$")
    """`host:port` or `host:port/path` of a registry that keeps usable images for other machines; None for none."""


class BuildsConfig(BuildLimits):
    """What one build may use, and what it may reach."""

    allowed_hosts: tuple[str, ...] = ()
    """Hosts (`name`, `*.name`, with `:port` where it is not 80 or 443) besides the package registries in use here."""
    egress: Literal["proxy", "open"] = "proxy"
    """`open` lets builds on an engine that is not ours reach everything that engine reaches."""

    @property
    def limits(self) -> BuildLimits:
        return BuildLimits.model_validate(self.model_dump(include=set(BuildLimits.model_fields)))


class ScoringConfig(ExplorationConfig):
    """Who judges repositories before they are built, and which of them are."""

    model: Literal["static", "learned", "llm"] = "static"
    """`learned` is the newest model of the asset score_model, `llm` asks the model of [model] about single files."""
    llm: LlmFilesConfig = LlmFilesConfig()


class TrainingConfig(Record):
    """What follows the publication of a version, and how a model is trained on it."""

    job: str = ""
    """A job that is started with each new version; empty for none."""
    sft: Path | None = None
    """File with a table [sft], relative to the configuration file: how the asset sft_model trains."""
    model: str = Field(default="sft", pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Name of the versions that it gives."""
    devices: int = Field(default=1, gt=0)
    """GPUs of this machine that one training takes."""


class Settings(Record):
    """touchstone.toml. Every setting has a default; an unknown one is an error."""

    data: Path = Path("data")
    """Data folder, relative to the configuration file."""
    snapshot: str = Field(default="terminal", pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Name of the published data set."""
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, gt=0)
    """Items that a stage works on at a time."""
    images: ImagesConfig = ImagesConfig()
    builds: BuildsConfig = BuildsConfig()
    curation: CurationConfig = CurationConfig()
    model: ModelConfig | None = None
    """Decides for the agents that need one, repairs Dockerfiles when no rule can, writes tasks; None for none. The key
    of a server: TOUCHSTONE_MODEL_KEY."""
    sandbox: SandboxConfig = SandboxConfig()
    sources: SourcesConfig = SourcesConfig()
    scoring: ScoringConfig = ScoringConfig()
    instances: InstancesConfig = InstancesConfig()
    decontamination: DecontaminationConfig = DecontaminationConfig()
    quality: QualityConfig = QualityConfig()
    dataset: DatasetConfig = DatasetConfig()
    splits: SplitConfig = SplitConfig()
    retention: RetentionConfig = RetentionConfig()
    publish: PublishConfig = PublishConfig()
    training: TrainingConfig = TrainingConfig()
    environments: EnvironmentsConfig = EnvironmentsConfig()
    hierarchy: HierarchyConfig = HierarchyConfig()
    cleaning: CleaningConfig = CleaningConfig()
    rollout: AgentsConfig = AgentsConfig()
    yields: YieldsConfig = YieldsConfig()
    cluster: ClusterConfig = ClusterConfig()
    plan: PlanConfig = PlanConfig()


def read_settings(path: Path, *, required: bool) -> Settings:
    """The settings of a file; the defaults when it is not there and not required.

    Raises ConfigurationError that names the file, the setting and what is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if required:
            raise ConfigurationError(f"{path} does not exist; leave --config out for the defaults") from error
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {error}") from error
    try:
        return Settings.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError(f"{path}: " + "; ".join(faults)) from error
