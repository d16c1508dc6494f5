"""Which rows the arms of each experiment learn from, and what is said of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.curation.splits import SplitConfig
from pipeline.errors import ConfigurationError
from pipeline.rows import trajectory_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import DOMAINS, Step, Trajectory
from tests.unit.recorded_evaluations import evaluated, fill, planned
from tests.unit.study_folders import StandInModels, bench, row, study_folder, task
from training.cells import Cells
from training.studies.domains import PAPER, Domains
from training.studies.figures import ArmResult, InstanceResult, arm_result
from training.studies.foreign import Foreign, within
from training.studies.material import Material, StudyRow, in_turn
from training.studies.pass_at_k import PassAtK
from training.studies.results import result_of
from training.studies.running import do_cells
from training.studies.scores import Scores
from training.studies.study import Study
from training.studies.verifiers import Verifiers

ATTEMPTS = 12


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Five rows of each domain and twenty general ones; those of every second repository have a high score."""
    rows = [
        row(f"{domain} {number} " + "x" * number, domain=domain, family=f"f{number % 3}")
        for domain, count in (*((domain, 5) for domain in DOMAINS), ("general", 20))
        for number in range(count)
    ]
    tasks = [task(name, family="checksum") for name in ("one", "two")]
    made = study_folder(tmp_path_factory.mktemp("data"), rows, tasks)
    scored: list[Row] = [
        {"repository_id": each["repository_id"], "scorer": "static", "score": 0.9 if number % 2 else 0.1}
        for number, each in enumerate(rows)
    ]
    append(made.store, "scores", scored)
    return made


def append(store: Store, table: str, rows: Sequence[Row]) -> None:
    batch = [one | {"attempt": 1, "reason": "", "item_key": f"{table}-{number}"} for number, one in enumerate(rows)]
    store.append(table, batch, app_id=f"{table}-more", sequence=1)


def told(material: Material, **fields: object) -> Mapping[str, object]:
    return {"learning": {"base": material.base}, **fields}


def rows_of(study: Study, material: Material, seed: int = 0) -> dict[str, tuple[StudyRow, ...]]:
    """The rows of the arms that learn something."""
    return {arm.name: arm.lesson.rows for arm in study.arms(seed, material) if arm.lesson is not None}


def result(passed: int, before: ArmResult | None = None, runs: int = 4, instances: int = 5) -> ArmResult:
    """An arm that passed so often at each of some instances, beside another."""

    def each(count: int) -> dict[int, list[InstanceResult]]:
        names = [str(number) for number in range(instances)]
        return {0: [InstanceResult(name=name, family="f", judged=runs, passed=count) for name in names]}

    compared = None if before is None else each(before.passed // instances)
    return arm_result(each(passed), [k for k in (1, 2, 4) if k <= runs], compared, {})


def test_without_each_domain_all_else_stays_and_the_general_rows_are_a_quarter(material: Material) -> None:
    arms = rows_of(Domains.of(told(material, rows_per_domain=4)), material)
    full = arms["full"]
    assert [sum(row.domain == domain for row in full) for domain in DOMAINS] == [4] * 8
    assert 4 * sum(row.domain == "general" for row in full) == sum(row.domain != "general" for row in full) == 32
    for domain in DOMAINS:
        assert arms[f"without-{domain}"] == tuple(row for row in full if row.domain != domain)


def test_sizes_whose_quarter_is_no_number_of_rows_are_refused(material: Material) -> None:
    with pytest.raises(ValidationError, match="multiple of 4"):
        Domains.of(told(material, rows_per_domain=3, domains=["sql", "qemu"]))
    with pytest.raises(ValidationError, match="there is no domain cooking"):
        Domains.of(told(material, domains=["cooking"]))


def test_points_that_are_lost_stand_beside_those_of_the_paper() -> None:
    full = result(3)
    arms = {"full": full, "without-qemu": result(2, full), "without-sql": result(3, full)}
    found = Domains.findings({"touchstone": arms})["touchstone: without a domain"]
    assert found == {
        "qemu": {"points": -25.0, "interval": [-25.0, -25.0], "paper": PAPER["qemu"]},
        "sql": {"points": 0.0, "interval": [0.0, 0.0], "paper": {}},
    }


def test_scored_and_random_rows_are_as_many_of_as_many_repositories_as_can_be(material: Material) -> None:
    arms = rows_of(Scores.of(told(material, rows=20, threshold=0.5)), material)
    assert [len(rows) for rows in arms.values()] == [20, 20]
    good = {row.repository_id for row in arms["scored"]}
    assert len(good) == 20 and not {row.repository_id for row in arms["random"]} <= good
    with pytest.raises(ConfigurationError, match=r"above 0\.05"):
        rows_of(Scores.of(told(material, threshold=0.05)), material)
    with pytest.raises(ConfigurationError, match="scored: 31 rows are asked for and 30 are there"):
        rows_of(Scores.of(told(material, rows=31, threshold=0.5)), material)


def test_pass_at_k_has_three_models_and_says_how_far_they_rise(material: Material) -> None:
    arms = PassAtK.of(told(material, rows=6)).arms(0, material)
    assert [(arm.name, arm.answered) for arm in arms] == [
        ("base", "trained"),
        ("trained", "trained"),
        ("teacher", "teacher"),
    ]
    found = PassAtK.findings({"x": {"base": result(0), "trained": result(2), "teacher": result(1)}})
    assert found == {
        "x: base, points from k = 1 to 4": 0.0,
        "x: trained, points from k = 1 to 4": 50.0,
        "x: teacher, points from k = 1 to 4": 75.0,
        "x: trained better than teacher at k": [1, 2],
    }


def test_a_whole_experiment_with_a_teacher_makes_curves(material: Material, tmp_path: Path) -> None:
    acting = {"instances": 2, "runs": 4, "instances_per_cell": 1}
    study = PassAtK.of(told(material, rows=4, seeds=[0, 1], acting=acting))
    solved = {"trained": frozenset({"one"}), "teacher": frozenset({"one", "two"})}
    models = StandInModels(tmp_path, solved, ["one", "two"])
    cells = Cells(tmp_path / "cells.jsonl")
    do_cells(study, bench(material, models), cells)
    found = result_of(PassAtK, cells)
    assert (found.cells_done, found.seeds, models.trained) == (14, (0, 1), [("trained", 0), ("trained", 1)])
    arms = found.arms["touchstone"]
    assert {name: {k: mean.mean for k, mean in arm.pass_at_k.items()} for name, arm in arms.items()} == {
        "base": {1: 0.0, 2: 0.0, 4: 0.0, 8: 0.0},
        "trained": {1: 0.5, 2: 0.5, 4: 0.5, 8: 0.5},
        "teacher": {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0},
    }
    assert arms["trained"].by_seed == {"0": 0.5, "1": 0.5}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, material: Material) -> Material:
    """Attempts: a verifier passed the even ones, a language model the first eight, and of the last it says nothing."""
    data = tmp_path_factory.mktemp("judged")
    instances = [planned(f"judged{number}", family=f"f{number % 2}") for number in range(ATTEMPTS)]
    store = fill(data, [evaluated(each, f"own/{number}") for number, each in enumerate(instances)])
    attempts = [
        Trajectory(
            instance_id=each.instance_id,
            agent="bash",
            model="small",
            steps=(Step(index=0, observation="", action=""),),
            messages=({"role": "user", "content": each.instruction}, {"role": "assistant", "content": "DONE"}),
            stop_reason="submitted",
            state_reference="",
        )
        for each in instances
    ]
    append(store, "trajectories", [trajectory_row(one) for one in attempts])
    verdicts = ["passed" if number % 2 == 0 else "failed" for number in range(ATTEMPTS)]
    opinions = ["passed" if number < 8 else "failed" for number in range(ATTEMPTS)]
    opinions[-1] = "error"
    ids = [one.trajectory_id for one in attempts]
    named: list[Row] = [{"trajectory_id": one} for one in ids]
    append(store, "verifications", [one | {"outcome": each} for one, each in zip(named, verdicts, strict=True)])
    by: Row = {"model": "judge", "prompt_sha256": "ab" * 32}
    append(store, "judgements", [one | by | {"outcome": each} for one, each in zip(named, opinions, strict=True)])
    return Material(data, store, SplitConfig(repositories=0.0, families=0.0), material.base, 512, "abc")


def test_code_and_judge_give_as_many_rows_at_every_size_the_smaller_within_the_larger(judged: Material) -> None:
    arms = rows_of(Verifiers.of(told(judged, sizes=[2, 4, 6])), judged)
    assert {name: len(rows) for name, rows in arms.items()} == {
        "code-2": 2,
        "judge-2": 2,
        "code-4": 4,
        "judge-4": 4,
        "code-6": 6,
        "judge-6": 6,
    }
    for kind, accepted in (("code", range(0, ATTEMPTS, 2)), ("judge", range(8))):
        assert set(arms[f"{kind}-2"]) < set(arms[f"{kind}-4"]) < set(arms[f"{kind}-6"])
        assert {row.instruction for row in arms[f"{kind}-6"]} <= {f"Plan judged{number}." for number in accepted}
    assert {row.family for row in arms["judge-2"]} == {"f0", "f1"}
    with pytest.raises(ConfigurationError, match="rows that code accepts: 7 rows are asked for and 6 are there"):
        rows_of(Verifiers.of(told(judged, sizes=[7])), judged)


def test_opinions_of_nobody_are_no_experiment(judged: Material) -> None:
    with pytest.raises(ConfigurationError, match=r"there are none; `\[rollout\] judge`"):
        rows_of(Verifiers.of(told(judged, judge="another")), judged)


def test_code_less_judge_is_told_for_each_size() -> None:
    arms = {"base": result(0), "code-2": result(3), "judge-2": result(2), "code-4": result(3)}
    assert Verifiers.findings({"x": arms}) == {"x: code - judge, points": {"2": 25.0, "4": None}}


def sharegpt(folder: Path, count: int, words: int) -> Path:
    file = folder / "theirs.jsonl"
    talks = [
        f'{{"conversations": [{{"from": "human", "value": "{number} {"ask " * words}"}}, '
        f'{{"from": "gpt", "value": "{number}"}}]}}\n'
        for number in range(count)
    ]
    file.write_text("".join(talks))
    return file


def test_ours_and_theirs_have_equal_rows_and_equal_tokens(material: Material, tmp_path: Path) -> None:
    study = Foreign.of(told(material, theirs=sharegpt(tmp_path, 40, 5), rows=10))
    arms = rows_of(study, material)
    assert (len(arms["ours-rows"]), len(arms["theirs-rows"])) == (10, 10)
    tokens = {name: sum(row.n_tokens for row in rows) for name, rows in arms.items()}
    budget = min(tokens["ours-rows"], tokens["theirs-rows"])
    everything = {
        "ours": material.rows(material.version("terminal")),
        "theirs": [*arms["theirs-rows"], *arms["theirs-tokens"]],
    }
    for side in ("ours", "theirs"):
        left = budget - tokens[f"{side}-tokens"]
        others = [row.n_tokens for row in everything[side] if row not in arms[f"{side}-tokens"]]
        assert 0 <= left < min(others, default=budget)
    assert not {row.trajectory_id for row in arms["theirs-rows"]} & {row.trajectory_id for row in arms["ours-rows"]}


def test_rows_that_fit_are_taken_in_their_order() -> None:
    rows = [StudyRow(str(n), "", "", "", "", "", "", "", n) for n in (5, 9, 3, 2)]
    assert [row.n_tokens for row in within(rows, 10)] == [5, 3, 2]


def test_gains_are_told_beside_each_other() -> None:
    arms = {"base": result(1), "ours-rows": result(3), "theirs-rows": result(2), "ours-tokens": result(2)}
    arms["theirs-tokens"] = result(1)
    assert Foreign.findings({"x": arms}) == {
        "x: gain at equal rows, points": {"ours": 50.0, "theirs": 25.0, "ours / theirs": 2.0},
        "x: gain at equal tokens, points": {"ours": 25.0, "theirs": 0.0, "ours / theirs": None},
    }


def test_a_second_row_of_an_instance_comes_when_each_had_its_first() -> None:
    rows = [
        StudyRow(f"{number}-{which}", str(number), "", "", "", "f", "", "", 1) for number in range(3) for which in "ab"
    ]
    order = in_turn(rows, 0, lambda row: row.family)
    assert {row.instance_id for row in order[:3]} == {"0", "1", "2"}
