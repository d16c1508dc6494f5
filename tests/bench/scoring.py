"""`make experiment-scoring`: labels for the ScoreModel, each from a first attempt at an image that is really built.

    python -m tests.bench.scoring --list --catalogues FOLDER --mirrors FOLDER   # draws; before anything is built
    python -m tests.bench.scoring --mirrors FOLDER [--minutes 60]               # builds what has no outcome yet

The rule of the draw is in scoring_sample.py, one build in scoring_cells.py. Everything lies in
training/experiments/score_model: list.jsonl (what was drawn), cells.jsonl (one outcome a line). A run may be ended and
begun again; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from pathlib import Path

from assets.resources import Workshop, open_workshop
from tests.bench.scoring_sample import LIST, Listed, clones, debian_packages, packages_of, read_list, write_list


def draw(shop: Workshop, catalogues: Path, mirrors: Path) -> list[Listed]:
    """The whole list, in the order of the ecosystems."""
    backend, image = shop.backend(), lambda: shop.bases().toolchain("fetch").digest
    found = list(clones(mirrors))
    found += packages_of("pypi", catalogues / "pypi.tsv", backend, image)
    found += packages_of("npm", catalogues / "npm.tsv", backend, image)
    return [*found, *debian_packages(backend, image)]


def counted(found: list[Listed]) -> dict[str, object]:
    """How many of each there are to build."""
    there = [one for one in found if one.left_out is None]
    return {
        "listed": len(found),
        "to_build": len(there),
        "ecosystems": dict(Counter(one.ecosystem for one in there)),
        "languages": dict(Counter(one.language for one in there)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git clones, OWNER+NAME each")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: that of the main job)")
    parser.add_argument("--list", action="store_true", help="draw and write the list; refused where there is one")
    parser.add_argument("--catalogues", type=Path, help="folder of pypi.tsv and npm.tsv, for --list")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    shop = open_workshop(data=options.data)
    if options.list:
        if LIST.exists():
            raise SystemExit(f"{LIST.name} is there already, and labels hang on it")
        write_list(draw(shop, options.catalogues, options.mirrors))
    print(json.dumps(counted(read_list())))


if __name__ == "__main__":
    main()
