"""The draw of repositories for labels, and what becomes a line of outcomes."""

from __future__ import annotations

import pytest

from pipeline.scoring.labels import Labelled
from tests.bench import scoring_cells
from tests.bench.scoring_features import labels_of
from tests.bench.scoring_heldout import by_owner, by_time, judged
from tests.bench.scoring_sample import Listed, drawn, own_language, place, sources

CATALOGUE = ["name\tversion\tmonth\n", *(f"project{number}\t1.{number}\t2024-01\n" for number in range(50))]


def test_names_are_drawn_by_their_hash_and_not_by_their_place_in_the_catalogue() -> None:
    chosen = [name for name, _, _ in drawn("pypi", CATALOGUE, 10)]
    assert chosen == sorted(chosen, key=lambda name: place("pypi", name))
    backwards = [CATALOGUE[0], *reversed(CATALOGUE[1:])]
    assert [name for name, _, _ in drawn("pypi", backwards, 10)] == chosen


def test_the_draw_of_more_names_begins_with_that_of_fewer() -> None:
    assert drawn("npm", CATALOGUE, 20)[:5] == drawn("npm", CATALOGUE, 5)


def test_a_package_that_rules_were_written_with_is_not_drawn() -> None:
    catalogue = ["name\tversion\tmonth\n", "sqlite-utils\t4.2.1\t2024-01\n", "other\t1\t2024-01\n"]
    assert [name for name, _, _ in drawn("pypi", catalogue, 5)] == ["other"]


def test_names_below_types_are_not_drawn_from_npm() -> None:
    catalogue = ["name\tversion\tdownloads\n", "@types/node\t20.0.0\t9\n", "@scope/node\t1.0.0\t9\n"]
    assert [name for name, _, _ in drawn("npm", catalogue, 5)] == ["@scope/node"]


STANZA = """Package: thing
Version: 1.0-1
Build-Depends: debhelper-compat (= 13), {helper}
Files:
 0123 10 thing_1.0-1.dsc
Checksums-Sha256:
 aa 10 thing_1.0-1.dsc
 bb 2000 thing_1.0.orig.tar.gz
 cc 30 thing_1.0.orig.tar.gz.asc
"""


@pytest.mark.parametrize(
    ("helper", "languages"),
    [
        ("dh-golang, golang-any", ("go",)),
        ("javahelper, default-jdk", ("java",)),
        ("dh-sequence-python3, python3-all", ("python",)),
        ("pkg-php-tools", ("php",)),
        ("cmake, libpng-dev", ("c", "cpp")),
        ("ghc (>= 8), haskell-devscripts", ()),
        ("gem2deb", ()),
    ],
)
def test_what_a_package_builds_with_says_its_language(helper: str, languages: tuple[str, ...]) -> None:
    (source,) = sources(STANZA.format(helper=helper))
    assert source.helper == languages


def test_archives_of_a_source_package_are_pinned_without_their_signatures() -> None:
    (source,) = sources(STANZA.format(helper="cmake"))
    assert source.files == {"thing_1.0-1.dsc": "aa", "thing_1.0.orig.tar.gz": "bb"}
    assert source.size == 2040


def test_headers_are_of_the_language_of_the_sources_beside_them() -> None:
    assert own_language([("a.c", 50), ("a.h", 10)]) == "c"
    assert own_language([("a.cpp", 5), ("a.h", 100)]) == "cpp"


def test_packaging_and_other_languages_do_not_make_a_package_one_of_c() -> None:
    assert own_language([("debian/hook.py", 500), ("a.c", 10)]) == "c"
    assert own_language([("a.pm", 100), ("a.c", 10)]) == ".pm"
    assert own_language([("readme.txt", 10)]) is None


def test_a_clone_belongs_to_its_owner_and_a_package_to_itself() -> None:
    assert Listed("github", "someone/thing", "abc", "c").owner == "someone"
    assert Listed("npm", "@scope/thing", "1", "javascript").owner == "npm/@scope/thing"


def test_a_line_has_the_owner_as_a_hash_and_no_log() -> None:
    one = Listed("github", "someone/thing", "abc", "c", "2024-01-02")
    row = {"status": "failed", "failure_class": "compile_failed", "seconds": 1.26, "log_tail": "secret words"}
    line = scoring_cells._line(one, None, row, "built", one.date)
    assert line["seconds"] == 1.3
    assert line["owner"] != "someone"
    assert "secret words" not in str(line)


def _row(number: int, *, owner: str | None = None, time: str = "") -> Labelled:
    return Labelled(
        repository_id=f"x/{number}", owner=owner or f"owner{number}", label=number % 2 == 0, features={}, time=time
    )


def test_all_rows_of_an_owner_are_on_one_side_of_the_split() -> None:
    rows = [_row(number, owner=f"owner{number % 20}") for number in range(100)]
    training, held = by_owner(rows)
    assert len(training) + len(held) == 100
    assert training and held
    assert not {row.owner for row in training} & {row.owner for row in held}


def test_the_newest_half_is_held_out_by_time_and_its_owners_are_not_trained_on() -> None:
    rows = [_row(number, time=f"20{10 + number}-01") for number in range(8)]
    rows.append(_row(20, owner="owner7", time="2009-01"))
    training, held = by_time([*rows, _row(30)])
    assert {row.time for row in held} == {f"20{10 + number}-01" for number in range(3, 8)}
    assert [row.repository_id for row in training] == ["x/0", "x/1", "x/2"]


def _features(number: int, label: bool) -> dict[str, float]:
    return {"telling": float(label) + 0.1 * (number % 3), "noise": float(number % 7), "log_bytes": 5.0 + number % 4}


def test_a_feature_that_tells_everything_gives_the_best_lift_on_the_held_out_half() -> None:
    rows = [_row(number) for number in range(200)]
    rows = [row.model_copy(update={"features": _features(n, row.label)}) for n, row in enumerate(rows)]
    figures = judged(by_owner(rows), {row.repository_id: 0.5 for row in rows})
    assert figures["share_of_best_lift"]["value"] == pytest.approx(1.0)  # type: ignore[index]
    assert figures["auc"] == 1.0


def test_only_outcomes_with_a_label_and_features_are_rows() -> None:
    about = {"owner": "o", "date": None, "language": "c"}
    cells = {
        "a": {"status": "built", "smoke_ok": True, "failure_class": None, **about},
        "b": {"status": "failed", "smoke_ok": None, "failure_class": "infrastructure", **about},
        "c": {"status": "failed", "smoke_ok": None, "failure_class": "compile_failed", **about},
        "d": {"status": "built", "smoke_ok": False, "failure_class": "smoke_failed", **about},
    }
    features = {name: {"features": {"x": 1.0}} for name in "abd"}
    assert [(row.repository_id, row.label) for row in labels_of(cells, features)] == [("a", True), ("d", False)]
