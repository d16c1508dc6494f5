"""`make experiment-scoring`: labels for the ScoreModel, each from a first attempt at an image that is really built.

    python -m tests.bench.scoring --mirrors FOLDER --list pypi --catalogues FOLDER   # draws; before any is built
    python -m tests.bench.scoring --mirrors FOLDER [--minutes 60]                    # builds what has no outcome yet
    python -m tests.bench.scoring --report [--features]                              # fits one half, judges the other

The rule of the draw is in scoring_sample.py, one build in scoring_cells.py. Everything lies in
training/experiments/score_model: list.jsonl (what was drawn), cells.jsonl (one outcome a line), features.jsonl
(computed from the trees of the data folder with --features), result.json (the figures). A run may be ended and begun
again: it goes on in the order of the ids' hashes, those first whose outcome is known. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from assets.resources import Workshop, open_workshop
from pipeline.scoring.features import VERSION
from pipeline.scoring.labels import Labelled, label_of
from tests.bench.scoring_cells import CELLS, Bench, DiskFull, known_cells
from tests.bench.scoring_features import compute, known_features, labels_of
from tests.bench.scoring_heldout import by_owner, by_time, judged
from tests.bench.scoring_sample import (
    DRAWN,
    EXPERIMENT,
    LIST,
    Listed,
    clones,
    debian_packages,
    extend_list,
    packages_of,
    place,
    read_list,
)

RESULT = EXPERIMENT / "result.json"
logger = logging.getLogger(__name__)


def draw(shop: Workshop, ecosystem: str, catalogues: Path, mirrors: Path) -> list[Listed]:
    """What one ecosystem adds to the list."""
    backend, image = shop.backend(), lambda: shop.bases().toolchain("fetch").digest
    if ecosystem == "github":
        return list(clones(mirrors))
    if ecosystem == "debian":
        return list(debian_packages(backend, image))
    listed = {one.id for one in read_list()}
    return list(packages_of(ecosystem, catalogues / f"{ecosystem}.tsv", listed, backend, image))


def waiting(found: Sequence[Listed], known: Container[str]) -> list[Listed]:
    """What has no outcome yet, in the order in which it is built; `known` are ids at versions that need no build."""
    done = known_cells()
    there = [one for one in found if one.left_out is None and one.id not in done]
    return sorted(there, key=lambda one: (f"{one.id}@{one.version}" not in known, place("order", one.id)))


def go_on(bench: Bench, found: Sequence[Listed], minutes: float) -> None:
    """One after another until all are done or the time is over. Raises SystemExit when the disk is nearly full."""
    end = time.monotonic() + 60 * minutes
    for one in waiting(found, bench.former):
        if time.monotonic() > end:
            return
        try:
            cell = bench.cell(one)
        except DiskFull:
            raise SystemExit("too little disk is free; make room and go on") from None
        with CELLS.open("a") as sink:
            sink.write(json.dumps(cell) + "\n")
        logger.warning("%s: %s %s", one.id, cell["status"], cell["failure_class"] or "")


def report() -> dict[str, object]:
    """All figures, from the committed files alone."""
    cells, features = known_cells(), known_features()
    rows = labels_of(cells, features)
    static = {name: float(line["static"]) for name, line in features.items()}
    without = [cell for cell in cells.values() if label_of(cell) is None]
    return {
        "features": VERSION,
        "labelled_builds": len(rows),
        "base_rate": round(sum(row.label for row in rows) / len(rows), 4),
        "successes_and_labels_by_language": _rates(rows, lambda row: row.language),
        "successes_and_labels_by_ecosystem": _rates(rows, lambda row: row.repository_id.partition("/")[0]),
        "without_a_label": dict(Counter(str(cell["failure_class"] or cell["status"]) for cell in without)),
        "failures": dict(Counter(str(cells[row.repository_id]["failure_class"]) for row in rows if not row.label)),
        "taken_over": sum(cells[row.repository_id]["from"] != "built" for row in rows),
        "heldout": judged(by_owner(rows), static),
        "heldout_by_time": judged(by_time(rows), static),
    }


def _rates(rows: Sequence[Labelled], key: Callable[[Labelled], str]) -> dict[str, list[int]]:
    names = sorted({key(row) for row in rows})
    of = {name: [row.label for row in rows if key(row) == name] for name in names}
    return {name: [sum(labels), len(labels)] for name, labels in of.items()}


def counted(found: Sequence[Listed]) -> dict[str, object]:
    """How many there are of each kind, and what became of them."""
    there = [one for one in found if one.left_out is None]
    cells = known_cells().values()
    return {
        "listed": len(found),
        "to_build": len(there),
        "ecosystems": dict(Counter(one.ecosystem for one in there)),
        "languages": dict(Counter(one.language for one in there)),
        "outcomes": len(cells),
        "classes": dict(Counter(str(cell["failure_class"] or cell["status"]) for cell in cells)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, help="folder of git clones, OWNER+NAME each")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: that of the main job)")
    parser.add_argument(
        "--list", choices=("github", "pypi", "npm", "debian"), help="draw; PyPI and npm go on where their draw ended"
    )
    parser.add_argument("--catalogues", type=Path, help="folder of pypi.tsv and npm.tsv, for --list")
    parser.add_argument("--minutes", type=float, default=600.0, help="no build begins later than this")
    parser.add_argument("--report", action="store_true", help="write result.json")
    parser.add_argument("--features", action="store_true", help="compute those that are missing before the report")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    shop = open_workshop(data=options.data)
    if options.features:
        compute(shop, read_list(), known_cells())
    if options.report:
        result = report()
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps(result))
        return
    if options.mirrors is None:
        parser.error("--mirrors is needed to draw and to build")
    if options.list:
        if options.list not in DRAWN and any(one.ecosystem == options.list for one in read_list()):
            raise SystemExit(f"{options.list} is in {LIST.name} already, and labels hang on it")
        extend_list(draw(shop, options.list, options.catalogues, options.mirrors))
    else:
        go_on(Bench.of(shop, options.mirrors), read_list(), options.minutes)
    print(json.dumps(counted(read_list())))


if __name__ == "__main__":
    main()
