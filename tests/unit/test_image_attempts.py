"""Which candidates are tried, and what their rows say. Builds and checks here are scripted; real ones are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.batch import Retry
from pipeline.checkout import CheckoutConfig, Member, Tree, collect, store
from pipeline.dockerfiles import Candidate
from pipeline.image_attempts import Attempt, CurationConfig, Workbench, attempts
from pipeline.llm.protocol import ModelUnavailable
from pipeline.schemas import to_rows
from pipeline.stages.building import build, built, needed_images
from pipeline.stages.options import Options
from pipeline.stages.scoring import Fetched
from pipeline.tables import Store
from pipeline.types import Checkout, ImageCheck, Repository
from sandbox.building.room import OutOfSpace
from sandbox.errors import SandboxUnavailable
from sandbox.types import BuildLimits, ImageBuild, ImageSpec

REPOSITORY = Repository(source="local", full_name="owner/thing", commit="1", language="python", locator="thing")
FILES = {"Dockerfile": "FROM example/own\n", "setup.py": "from setuptools import setup\n", "thing.py": ""}
GOOD = ImageCheck(smoke_ok=True, smoke_command="python -c 'import thing'")
BAD = ImageCheck(smoke_ok=False, smoke_command="python -c 'import thing'", smoke_log="ImportError: no such thing")
NOT_FOUND = "sh: 1: pg_config: not found"


class Script:
    """Answers builds and checks by the kind of the Dockerfile: `own`, `template` or whatever a rewrite wrote."""

    def __init__(self, **answers: ImageBuild | ImageCheck | Exception) -> None:
        self.answers = answers
        self.seen: list[str] = []

    def kind(self, spec: ImageSpec) -> str:
        if "example/own" in spec.dockerfile:
            return "own"
        if "libpq-dev" in spec.dockerfile:
            return "repaired"
        return "rewritten" if "example/rewritten" in spec.dockerfile else "template"

    def build(self, spec: ImageSpec, limits: BuildLimits) -> ImageBuild:
        kind = self.kind(spec)
        self.seen.append(kind)
        answer = self.answers.get(kind, failed("build_failed"))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ImageBuild) else ImageBuild(status="built", digest=f"sha256:{kind}")

    def check(self, repository: Repository, tree: Tree, image_id: str) -> ImageCheck:
        answer = self.answers[image_id.removeprefix("sha256:")]
        assert isinstance(answer, ImageCheck)
        return answer


def failed(failure_class: str, log: str = "") -> ImageBuild:
    return ImageBuild.model_validate(
        {"status": "failed", "failure_class": failure_class, "reason": f"{failure_class}!", "log_tail": log}
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    members = [
        Member(name, "file", len(text), read=lambda text=text: text.encode())  # type: ignore[misc]
        for name, text in FILES.items()
    ]
    return store(REPOSITORY, collect(members, CheckoutConfig()), tmp_path)


def bench(script: Script, **settings: int) -> Workbench:
    def toolchain(language: str, version: str | None = None) -> str:
        return f"toolchain/{language}"

    limits = BuildLimits()
    config = CurationConfig.model_validate(settings)
    return Workbench(script.build, toolchain, limits, script.check, config)


Try = Callable[[Workbench], list[Attempt]]


@pytest.fixture
def tried(checkout: Checkout, tmp_path: Path) -> Try:
    return lambda table: list(attempts(REPOSITORY, tmp_path / f"{checkout.tree_sha256}.tar", table))


def test_the_own_dockerfile_comes_first_and_a_usable_image_ends_the_search(tried: Try) -> None:
    script = Script(own=GOOD)
    [attempt] = tried(bench(script))
    assert attempt.usable
    assert script.seen == ["own"]


def test_an_image_that_does_not_work_is_not_the_last_word(tried: Try) -> None:
    script = Script(own=BAD, template=GOOD)
    assert [attempt.usable for attempt in tried(bench(script))] == [False, True]
    assert script.seen == ["own", "template"]


def test_a_failed_build_is_repaired_by_what_its_log_says(tried: Try) -> None:
    script = Script(template=failed("missing_dependency", NOT_FOUND), repaired=GOOD)
    found = tried(bench(script))
    assert script.seen == ["own", "template", "repaired"]
    assert (found[-1].candidate.strategy, len(found[-1].candidate.repairs)) == ("repaired", 1)


def test_what_a_program_said_when_it_did_not_work_is_evidence_too(tried: Try) -> None:
    script = Script(template=BAD.model_copy(update={"smoke_log": NOT_FOUND}), repaired=GOOD)
    assert tried(bench(script))[-1].usable
    assert script.seen[-1] == "repaired"


def test_there_are_no_more_attempts_than_allowed(tried: Try) -> None:
    script = Script()
    assert len(tried(bench(script, max_attempts=1))) == 1


def test_a_full_disk_ends_the_attempts(tried: Try) -> None:
    script = Script(own=failed("disk"))
    assert len(tried(bench(script))) == 1


def test_a_model_is_asked_when_no_rule_and_no_candidate_is_left_and_only_once(tried: Try) -> None:
    script = Script()

    def rewrite(candidate: Candidate, evidence: ImageBuild, tree: Tree) -> Candidate:
        spec = candidate.spec.model_copy(update={"dockerfile": "FROM example/rewritten\n"})
        return replace(candidate, strategy="model", spec=spec)

    *others, last = [attempt.candidate.strategy for attempt in tried(replace(bench(script), rewrite=rewrite))]
    assert last == "model"
    assert others == [attempt.candidate.strategy for attempt in tried(bench(script))]


def test_the_same_dockerfile_is_not_built_twice(tried: Try) -> None:
    script = Script()
    found = tried(replace(bench(script), rewrite=lambda candidate, evidence, tree: candidate))
    assert len(found) == len(tried(bench(script)))


class Stage:
    """The stage over one repository."""

    def __init__(self, checkout: Checkout, folder: Path) -> None:
        self.items = [Fetched(REPOSITORY, checkout)]
        self.trees = folder
        self.store = Store(folder / "data")

    def run(self, table: Workbench, retry: Retry = Retry.NONE) -> dict[str, int]:
        return dict(build(self.store, self.items, self.trees, table, Options(retry=retry)).failed)

    def rows(self) -> list[dict[str, object]]:
        return to_rows(self.store.current("image_builds"))


@pytest.fixture
def stage(checkout: Checkout, tmp_path: Path) -> Stage:
    return Stage(checkout, tmp_path)


def test_every_attempt_is_a_row_and_only_a_usable_image_is_given_on(stage: Stage) -> None:
    assert stage.run(bench(Script(own=BAD, template=GOOD))) == {}
    assert [(row["strategy"], row["status"], row["smoke_ok"], row["failure_class"]) for row in stage.rows()] == [
        ("own_dockerfile", "built", False, "smoke_failed"),
        ("template", "built", True, None),
    ]
    assert [one.image_digest for one in built(stage.store, stage.items)] == ["sha256:template"]


def test_an_image_that_does_not_work_makes_no_instances(stage: Stage) -> None:
    assert stage.run(bench(Script(own=BAD))) == {"smoke_failed": 1}
    assert built(stage.store, stage.items) == []
    assert "ImportError: no such thing" in str(stage.rows()[0]["reason"])


def test_a_success_after_a_fault_of_the_network_counts_and_the_fault_stays_on_its_row(stage: Stage) -> None:
    assert stage.run(bench(Script(own=failed("infrastructure"), template=GOOD))) == {}
    assert [row["failure_class"] for row in stage.rows()] == ["infrastructure", None]


def test_where_the_network_had_a_part_in_it_another_run_may_try_again(stage: Stage) -> None:
    assert stage.run(bench(Script(own=failed("infrastructure")))) == {"infrastructure": 1}
    assert stage.run(bench(Script(own=GOOD)), Retry.INFRASTRUCTURE) == {}
    assert [one.image_digest for one in built(stage.store, stage.items)] == ["sha256:own"]


def test_what_was_tried_before_the_engine_went_away_is_kept(stage: Stage) -> None:
    script = Script(own=failed("base_missing"), template=SandboxUnavailable("the engine is gone"))
    assert stage.run(bench(script)) == {"infrastructure": 1}
    assert [(row["failure_class"], row["reason"]) for row in stage.rows()] == [
        ("base_missing", "base_missing!"),
        ("infrastructure", "the engine is gone"),
    ]


def test_a_model_that_does_not_answer_is_no_fault_of_the_repository(stage: Stage) -> None:
    def rewrite(candidate: Candidate, evidence: ImageBuild, tree: Tree) -> Candidate | None:
        raise ModelUnavailable("no answer")

    assert stage.run(replace(bench(Script()), rewrite=rewrite)) == {"infrastructure": 1}
    *others, last = [row["failure_class"] for row in stage.rows()]
    assert (set(others), last) == ({"build_failed"}, "infrastructure")


def test_a_full_disk_has_its_own_class_and_is_tried_again(stage: Stage) -> None:
    assert stage.run(bench(Script(own=OutOfSpace("10 MB are free")))) == {"infrastructure": 1}
    assert [row["failure_class"] for row in stage.rows()] == ["disk"]


def test_a_usable_image_is_pushed_and_then_nobody_needs_the_engines_copy(stage: Stage) -> None:
    assert stage.run(bench(Script(own=GOOD))) == {}
    assert needed_images(stage.store) == {"sha256:own"}


def test_a_pushed_image_has_its_reference_on_its_row(stage: Stage) -> None:
    table = replace(bench(Script(own=BAD, template=GOOD)), push=lambda image_id: f"registry/touchstone@{image_id}")
    assert stage.run(table) == {}
    assert [row["registry_reference"] for row in stage.rows()] == [None, "registry/touchstone@sha256:template"]
    assert needed_images(stage.store) == set()
