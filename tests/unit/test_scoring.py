"""The static score: projects are kept, heaps of notes are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Member, Tree, collect, store
from pipeline.scoring import WEIGHTS, ScoreConfig, StaticScorer, dockerfile_quality
from pipeline.types import Checkout, Language, Repository, Score

CODE = "int line;\n" * 60
README = "# x\n\n```sh\n$ make\n$ ./x --help\n```\n"
MAKEFILE = "all: x\n\nx: x.c\n\tcc -o x x.c\n"


def stored(folder: Path, files: dict[str, str], language: Language) -> tuple[Repository, Checkout, Path]:
    repository = Repository(source="local", full_name="local/x", commit="1", language=language, locator="x")
    members = [
        Member(name, "file", size=len(text.encode()), read=lambda text=text: text.encode())  # type: ignore[misc]
        for name, text in files.items()
    ]
    checkout = store(repository, collect(members, CheckoutConfig()), folder)
    return repository, checkout, folder / f"{checkout.tree_sha256}.tar"


def scored(folder: Path, files: dict[str, str], language: Language = "c", threshold: float = 0.2) -> Score:
    return StaticScorer(ScoreConfig(threshold=threshold)).score(*stored(folder, files, language))


def test_the_weights_add_up_to_one() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


def test_a_small_real_project_is_kept_and_its_features_explain_the_score(tmp_path: Path) -> None:
    score = scored(tmp_path, {"x.c": CODE, "README.md": README, "Makefile": MAKEFILE})
    assert score.kept and score.scorer == "static@2"
    best = {name: score.features[f"best_{name}"] for name in WEIGHTS}
    assert best == {"build": 1.0, "sources": 1.0, "documentation": 0.75, "tests": 0, "automation": 0, "scripts": 0}
    assert score.score == pytest.approx(0.35 + 0.25 + 0.2 * 0.75)


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "buy milk\n" * 50, "ideas.md": "# Ideas\n\nWrite more.\n"},
        {"README.md": "# Nothing yet\n"},
        {"Makefile": "", "x.c": "\n", "README.md": ""},
        {"data.csv": "1,2\n" * 1000},
    ],
)
def test_notes_data_and_empty_files_are_not_kept(tmp_path: Path, files: dict[str, str]) -> None:
    assert not scored(tmp_path, files).kept


def test_the_material_of_a_domain_is_kept_whatever_is_in_it(tmp_path: Path) -> None:
    files = {"Dockerfile": "FROM scratch\n", "check.sh": "true\n", "context/penguins/penguins.csv": "1,2\n"}
    repository, checkout, tree = stored(tmp_path, files, "python")
    ours = repository.model_copy(update={"source": "context", "full_name": "context/sql"})
    score = StaticScorer(ScoreConfig(threshold=1.0)).score(ours, checkout, tree)
    assert score.kept and score.score == 1.0
    assert score.features == {"curated": 1.0, "n_files": 3.0, "n_bytes": float(checkout.n_bytes)}
    assert not StaticScorer(ScoreConfig()).score(repository, checkout, tree).kept


def test_the_threshold_decides(tmp_path: Path) -> None:
    files = {"x.c": CODE}
    assert scored(tmp_path, files, threshold=0.25).kept
    assert not scored(tmp_path, files, threshold=0.26).kept


def test_code_in_another_language_is_no_source(tmp_path: Path) -> None:
    assert scored(tmp_path, {"x.c": CODE}, "python").features["best_sources"] == 0


def test_more_signals_never_lower_the_score(tmp_path: Path) -> None:
    files = {"x.c": CODE}
    before = scored(tmp_path, files).score
    for name, text in (
        ("README.md", README),
        ("Makefile", MAKEFILE),
        ("tests/test_x.c", CODE),
        (".github/workflows/ci.yml", "on: push\n"),
        ("run.sh", "#!/bin/sh\nset -e\nmake\n"),
        ("docs/poor.md", "poor"),
    ):
        files[name] = text
        after = scored(tmp_path, files).score
        assert after >= before, name
        before = after


def test_a_build_file_that_builds_nothing_or_lies_deep_is_worth_less(tmp_path: Path) -> None:
    full = scored(tmp_path, {"Makefile": MAKEFILE}).features["best_build"]
    hollow = scored(tmp_path, {"Makefile": "# to do\n"}).features["best_build"]
    deep = scored(tmp_path, {"a/b/c/Makefile": MAKEFILE}).features["best_build"]
    assert full == 1.0 and hollow < full and deep < full
    assert scored(tmp_path, {"package.json": "{broken"}, "javascript").features["best_build"] == pytest.approx(0.1)


def test_the_same_tree_has_the_same_score(tmp_path: Path) -> None:
    files = {"x.c": CODE, "Makefile": MAKEFILE}
    assert scored(tmp_path, files) == scored(tmp_path, dict(reversed(files.items())))


@pytest.mark.parametrize(
    "line",
    [
        "FROM registry.example.com/own:1",
        "FROM debian:latest",
        "FROM debian",
        "RUN wget -q -O- https://example.com/install | sh",
        "RUN --mount=type=secret,id=x cat /run/secrets/x",
        "ARG TOKEN",
        "RUN git clone https://example.com/x",
        "COPY missing.txt /",
    ],
)
def test_each_known_fault_of_a_dockerfile_lowers_its_quality(tmp_path: Path, line: str) -> None:
    sound = (
        "FROM debian:12 AS build\nARG JOBS=2\nCOPY . /src\nCOPY x.c src/ /d/\nFROM scratch\nCOPY --from=build /a /a\n"
    )
    tree = Tree(stored(tmp_path, {"x.c": CODE, "src/y.c": CODE}, "c")[2])
    assert dockerfile_quality("Dockerfile", sound, tree) == 1.0
    assert dockerfile_quality("Dockerfile", sound + line + "\n", tree) == pytest.approx(0.8)


def test_a_file_called_dockerfile_without_a_base_is_worth_nothing(tmp_path: Path) -> None:
    tree = Tree(stored(tmp_path, {"x.c": CODE}, "c")[2])
    assert dockerfile_quality("Dockerfile", "to do\n", tree) == 0.0
