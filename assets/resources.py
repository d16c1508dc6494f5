"""Configuration and what is made from it. The only file that reads the environment.

`touchstone.toml` holds the settings; TOUCHSTONE_DATA (or `--data`) overrides where the data lie. A `Workshop` makes
the store, the backend and the sources from them, once each; `WorkshopResource` is its Dagster face.
"""

import functools
import getpass
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, SecretStr

from assets.machines import machines_of
from assets.run_launcher import stay_alive
from assets.served_model import served_model
from assets.settings import ScoringConfig, Settings, read_settings
from assets.storage import checked_address, connected, outlast_restarts
from assets.webhook_resource import WebhookResource
from pipeline.archive_cache import CONTEXTS, ArchiveCache
from pipeline.batch import Retry
from pipeline.errors import ConfigurationError, PipelineError
from pipeline.image_attempts import Workbench, sandbox_check
from pipeline.llm.choice import ModelConfig
from pipeline.llm.protocol import ChatModel
from pipeline.machines import Machines
from pipeline.model_repair import rewritten
from pipeline.scoring import Scorer, StaticScorer
from pipeline.scoring.exploration import ExploringScorer
from pipeline.scoring.learned import FOLDER, LearnedScorer, ScoreModel, newest
from pipeline.scoring.llm_files import LlmFileScorer
from pipeline.snapshots import SnapshotVersion, versions
from pipeline.sources import Source
from pipeline.sources.context import ContextSource
from pipeline.sources.github import GithubSource
from pipeline.sources.listing import ListingSource
from pipeline.sources.local import LocalSource
from pipeline.sources.registry import RegistrySource
from pipeline.sources.task_folders import TaskFolderSource
from pipeline.stages.building import needed_images
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import Language
from sandbox.backends.choice import choose
from sandbox.backends.pulling import PullingBackend
from sandbox.building.base_images import RECIPES, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.building.registry import Registry
from sandbox.building.room import Room
from sandbox.egress.egress import Egress
from sandbox.engine import connect
from sandbox.locks import exclusive
from sandbox.protocol import Backend
from sandbox.verifier.verifier_runtime import VerifierRuntime

if TYPE_CHECKING:
    from pipeline.curation.own_host import HostFacts

PROJECT = Path(__file__).resolve().parent.parent
DATA_VARIABLE = "TOUCHSTONE_DATA"
CONFIG_VARIABLE = "TOUCHSTONE_CONFIG"
MACHINE_VARIABLE = "TOUCHSTONE_MACHINE"
"""On a node of a cluster: folder of what belongs to that machine alone."""
MODEL_KEY_VARIABLE = "TOUCHSTONE_MODEL_KEY"
GITHUB_TOKENS_VARIABLE = "TOUCHSTONE_GITHUB_TOKENS"
WEBHOOK_VARIABLE = "TOUCHSTONE_WEBHOOK_URL"
UI_VARIABLE = "TOUCHSTONE_UI_URL"
POSTGRES_VARIABLE = "TOUCHSTONE_POSTGRES"
"""postgresql+psycopg2://USER@HOST:PORT/DATABASE for Dagster's storage; libpq reads the password from PGPASSWORD."""
_TOKENS_REMEDY = f"put tokens, separated by commas, into the environment variable {GITHUB_TOKENS_VARIABLE}"
CRAWL = "crawl"
"""Folder of the data folder that keeps what is known of hubs."""
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Where a machine behind a company's proxy usually names its certificates."""


class Workshop:
    """What the stages work with, made from the settings when first asked for."""

    def __init__(self, settings: Settings, folder: Path, data: Path, machine: Path | None = None) -> None:
        self.settings = settings
        self.folder = folder
        """Where the configuration file lies; paths in it are relative to this."""
        self.data = data
        self.machine = machine or data
        """Folder of what belongs to this machine alone: its engine, frozen states, room for builds."""
        self.trees = data / "sources"
        self.models: dict[int, ModelConfig] = {}
        """What each model was made from, by the identity of the model."""

    @functools.cache  # noqa: B019 - a workshop lives as long as its process
    def store(self) -> Store:
        return Store(self.data)

    @functools.cache  # noqa: B019
    def bases(self) -> BaseImages:
        images = self.settings.images
        bundle = images.ca_bundle or _certificates_of_this_machine()
        if bundle is not None:
            images = images.model_copy(update={"ca_bundle": self.folder / bundle})
        return BaseImages(connect(self.machine), images, self.machine)

    @functools.cache  # noqa: B019
    def backend(self) -> Backend:
        client = connect(self.machine)
        runtime = VerifierRuntime(client, self.bases())
        backend = choose(self.settings.sandbox.backend, client, runtime, self.machine, self.bases().base().digest)
        backend.reap()
        return PullingBackend(backend, self.registry(), self.room().touch)

    @functools.cache  # noqa: B019
    def egress(self) -> Egress:
        """Raises ConfigurationError for an engine whose builds would reach our network, unless that is accepted."""
        builds = self.settings.builds
        egress = Egress.of(self.machine, connect(self.machine))
        if not egress.restricted and builds.egress != "open":
            raise ConfigurationError(
                "this Docker engine is not ours, so what repositories run while they are built would reach everything "
                "that it reaches; call infra/bootstrap.sh as root without DOCKER_HOST for an engine of our own, or set "
                'egress = "open" in [builds] to accept it'
            )
        egress.allow(builds.allowed_hosts)
        return egress

    @functools.cache  # noqa: B019
    def room(self) -> Room:
        return Room(connect(self.machine), self.machine, keep=lambda: needed_images(self.store()))

    @functools.cache  # noqa: B019
    def registry(self) -> Registry:
        return Registry(connect(self.machine), self.settings.images.registry)

    @functools.cache  # noqa: B019
    def builder(self) -> ImageBuilder:
        return ImageBuilder(connect(self.machine), self.bases(), self.egress(), self.room())

    @functools.cache  # noqa: B019
    def workbench(self) -> Workbench:
        """What images of repositories are made with."""
        settings = self.settings
        # It speaks to every package registry, which makes them those that builds may reach.
        self.bases().toolchain("fetch")
        return Workbench(
            build=self.builder().build,
            toolchain=self.toolchain,
            limits=settings.builds.limits,
            check=sandbox_check(self.backend(), settings.curation),
            config=settings.curation,
            push=self.registry().push if settings.images.registry else None,
            rewrite=functools.partial(rewritten, model) if (model := self.model()) is not None else None,
        )

    def model(self) -> ChatModel | None:
        """The model of the settings, None without one. Raises ConfigurationError as `chosen_model` does."""
        config = self.settings.model
        return self.model_of(config) if config is not None else None

    @functools.cache  # noqa: B019
    def model_of(self, config: ModelConfig) -> ChatModel:
        """A model of a run's own choice; one object for each, since it may have a process behind it."""
        model = served_model(config, os.environ.get(MODEL_KEY_VARIABLE), self.data, self.folder)
        self.models[id(model)] = config
        return model

    @functools.cache  # noqa: B019
    def machines(self) -> Machines | None:
        """Those of [cluster]; None for this one alone. Raises ConfigurationError where they have no registry."""
        return machines_of(self)

    def toolchain(self, language: Language, version: str | None = None) -> str:
        """Tag of the toolchain image of a language, built when first asked for; ValueError for an unknown version."""
        return self.bases().toolchain(language, version).tag

    @functools.cache  # noqa: B019
    def sources(self) -> tuple[Source, ...]:
        """Raises ConfigurationError for a mistake in their settings."""
        config = self.settings.sources
        made: list[Source] = []
        for name in config.use:
            if name == "registry":
                packages = config.registry.model_copy(update={"packages": self.folder / config.registry.packages})
                made.append(RegistrySource(packages, config.checkout, self.backend(), self._fetch_image))
            elif name == "local":
                made.append(LocalSource(config.local, config.checkout, self.folder))
            elif name == "listing":
                clones = self.data / CRAWL / "clones"
                made.append(ListingSource(config.listing, config.checkout, self.folder, clones))
            elif name == "github":
                made.append(
                    GithubSource(config.github, config.checkout, self.data / CRAWL, _github_tokens(), _TOKENS_REMEDY)
                )
            elif name == "tasks":
                made.append(TaskFolderSource(config.tasks, config.checkout, self.folder))
            else:
                archives = ArchiveCache(self.data / CONTEXTS)
                made.append(
                    ContextSource(
                        RECIPES / "domains",
                        PROJECT / "LICENSE",
                        config.checkout,
                        archives,
                        self.backend(),
                        self._fetch_image,
                    )
                )
        return tuple(made)

    @functools.cache  # noqa: B019
    def scorer(self) -> Scorer:
        """Raises ConfigurationError for a model that is named in [scoring] and is not there, or cannot be used."""
        config = self.settings.scoring
        return ExploringScorer(self._plain_scorer(config), config)

    def _plain_scorer(self, config: ScoringConfig) -> Scorer:
        if config.model == "static":
            return StaticScorer(config)
        if config.model == "llm":
            if (model := self.model()) is None:
                raise ConfigurationError('[scoring] model = "llm" asks the model of [model], and none is named there')
            return LlmFileScorer(model, config, config.llm)
        path = newest(self.data / FOLDER)
        if path is None:
            raise ConfigurationError(
                f'[scoring] model = "learned": there is no score model in {self.data / FOLDER} yet; build repositories '
                'with model = "static", then materialize the asset score_model'
            )
        return LearnedScorer(ScoreModel.read(path), config)

    def host(self) -> "HostFacts":
        """What this machine is known by, which no published row may say."""
        from pipeline.curation.own_host import host_facts  # its tables of telephone numbers take a while to load

        images, server = self.settings.images, getattr(self.settings.model, "base_url", None)
        hub = self.settings.sources.github.base_url
        named = [*images.mirrors.values(), images.debian_mirror, images.registry, server, hub]
        return host_facts(
            os.environ,
            user=getpass.getuser(),
            host=socket.gethostname(),
            paths=[str(self.data), str(self.folder), str(PROJECT), str(Path.home())],
            addresses=[address for address in named if address],
        )

    def latest_snapshot(self) -> SnapshotVersion | None:
        published = versions(self.data, self.settings.snapshot)
        return published[-1] if published else None

    def dagster_instance(self) -> dg.DagsterInstance:
        """The instance that the UI shows too; its home is prepared when it is not there yet.

        Its storage is the PostgreSQL of TOUCHSTONE_POSTGRES, else files in its home. Raises ConfigurationError for a
        data folder that cannot be written to, for a PostgreSQL that does not answer, and for a home that Dagster cannot
        open.
        """
        home = self.data / "dagster"
        os.environ["DAGSTER_HOME"] = str(home)
        remedy = "it holds the history of runs only: move it away and run again"
        names = ["dagster.yaml"]
        if address := postgres_address():
            with connected(address):  # Dagster would try for a while, and not say why
                remedy = f"mend or empty the database of {POSTGRES_VARIABLE}"
                names.append("dagster.postgres.yaml")
        try:
            home.mkdir(parents=True, exist_ok=True)
            # Two processes that create its databases at once leave them unusable for ever.
            with exclusive(self.store().lock("dagster"), "Dagster's home"):
                text = "".join((PROJECT / "infra" / name).read_text() for name in names)
                (home / "dagster.yaml").write_text(text)
                return dg.DagsterInstance.get()
        except OSError as error:
            raise ConfigurationError(f"the data folder {self.data} cannot be written to: {error}") from error
        except PipelineError:
            raise
        except Exception as error:  # Dagster and its database layer have no common one
            fault = str(error).partition("\n")[0]
            raise ConfigurationError(f"Dagster cannot open {home} ({fault}); {remedy}") from error

    def _fetch_image(self) -> str:
        return self.bases().toolchain("fetch").digest


def open_on_node(settings: Settings, folder: Path, data: Path) -> Workshop:
    """The workshop of a node of a cluster. Raises ConfigurationError where it was not made ready."""
    host = socket.gethostname()
    if not (machine := os.environ.get(MACHINE_VARIABLE)):
        raise ConfigurationError(
            f"{host} joined the cluster without {MACHINE_VARIABLE}: a folder of that machine alone, for which "
            "`infra/bootstrap.sh --data FOLDER engine` started an engine"
        )
    if not (data / "tables").is_dir():
        raise ConfigurationError(f"{host} does not see the data folder {data}; share it under the same path")
    return Workshop(settings, folder, data, Path(machine))


@functools.cache
def open_workshop(*, data: Path | None = None, config: Path | None = None) -> Workshop:
    """The workshop of this process: `data` before TOUCHSTONE_DATA before the file; `config` before TOUCHSTONE_CONFIG.

    What was chosen is put into the environment, so that Dagster's code locations and the processes of runs agree.
    Raises ConfigurationError.
    """
    chosen = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    path = (chosen or PROJECT / "touchstone.toml").absolute()
    settings = read_settings(path, required=chosen is not None)
    named = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else path.parent / settings.data)
    standing = next(place for place in (named.absolute(), *named.absolute().parents) if place.exists())
    if not standing.is_dir():
        raise ConfigurationError(f"the data folder {named} cannot be: {standing} is no folder")
    os.environ[CONFIG_VARIABLE] = str(path)
    os.environ[DATA_VARIABLE] = str(named.absolute())
    return Workshop(settings, path.parent, named.absolute())


class WorkshopResource(dg.ConfigurableResource):
    """The workshop as Dagster resource; its two addresses come from the environment or from the launchpad."""

    config: str = Field(default_factory=lambda: os.environ.get(CONFIG_VARIABLE, ""))
    """Path of touchstone.toml; empty for the project's own."""
    data: str = Field(default_factory=lambda: os.environ.get(DATA_VARIABLE, ""))
    """Data folder; empty for the one named in the configuration."""

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """From now on the daemon sees whether the process of this run lives, and the storage may restart."""
        if postgres_address() is not None:
            outlast_restarts()
        if context.run is not None and context.instance is not None:
            stay_alive(Path(context.instance.root_directory), context.run.run_id)

    def open(self) -> Workshop:
        return open_workshop(
            data=Path(self.data) if self.data else None, config=Path(self.config) if self.config else None
        )


class RetryResource(dg.ConfigurableResource):
    """Which failed items a run tries again; set it in the launchpad, or with `touchstone run --retry`."""

    retry: str = "none"
    """none, infrastructure or all."""
    only: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Beginnings of the keys of items; empty for all that `retry` covers."""

    def options(self, workshop: Workshop) -> Options:
        """Raises ConfigurationError for a word that is none of the three, and for `only` that cannot choose."""
        if self.retry not in set(Retry):
            raise ConfigurationError(f"retry: {self.retry!r} is none of {', '.join(Retry)}")
        if self.only and Retry(self.retry) is Retry.NONE:
            raise ConfigurationError("only: it names items to retry; set retry to infrastructure or all too")
        if "" in self.only:
            raise ConfigurationError("only: an empty text names no item; leave `only` out for all")
        return Options(
            workers=workshop.settings.workers,
            retry=Retry(self.retry),
            only=tuple(self.only),
            machines=workshop.machines(),
        )


def secrets_of_environment() -> tuple[str, ...]:
    """Values that nobody else may read."""
    from pipeline.curation.own_host import host_facts

    found = host_facts(os.environ, user="", host="", paths=()).secrets
    return (*found, *(token.get_secret_value() for token in _github_tokens()))


def webhook_of_environment() -> WebhookResource:
    """Its addresses by the names of their variables, so that the UI does not show them."""
    url, ui_url = (dg.EnvVar(name) if os.environ.get(name) else "" for name in (WEBHOOK_VARIABLE, UI_VARIABLE))
    return WebhookResource(url=url, ui_url=ui_url)


def postgres_address() -> str | None:
    """Where PostgreSQL keeps what Dagster remembers; None where files in its home do. Raises ConfigurationError."""
    address = os.environ.get(POSTGRES_VARIABLE)
    return checked_address(address) if address else None


def code_commit() -> str | None:
    """The commit of this code, with `-dirty` where files differ from it; None outside of a git repository."""
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None


def _github_tokens() -> tuple[SecretStr, ...]:
    named = os.environ.get(GITHUB_TOKENS_VARIABLE, "").split(",")
    return tuple(SecretStr(token) for token in dict.fromkeys(name.strip() for name in named) if token)


def _certificates_of_this_machine() -> Path | None:
    named = [Path(os.environ[variable]) for variable in _CERTIFICATE_VARIABLES if os.environ.get(variable)]
    return next((path for path in named if path.is_file()), None)
