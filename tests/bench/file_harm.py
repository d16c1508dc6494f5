"""How often harm to a file lowers its quality, over files of the repositories of the ScoreModel's list.

    python -m tests.bench.file_harm --data DIR [--per-language 6]

The trees are those that `make experiment-scoring` stored in the data folder. Of each tree the files of a language with
the lowest hashes are taken, so the choice depends on names alone. The figures go to
training/experiments/score_model/harm.json; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from assets.resources import open_workshop
from pipeline.checkout import Tree
from pipeline.scoring.corruptions import KINDS, corrupted
from pipeline.scoring.file_quality import VERSION, judge, language_of
from tests.bench.scoring_sample import EXPERIMENT, place

RESULT = EXPERIMENT / "harm.json"
SHORTEST, LONGEST = 200, 30_000
"""Characters of the files that are harmed."""


def chosen(tree: Tree, per_language: int) -> Iterator[tuple[str, str, str]]:
    """Name, language and text of some files of a known language."""
    taken: Counter[str] = Counter()
    for name in sorted(tree.files, key=lambda name: place("harm", name)):
        language = language_of(name)
        if language == "text" or taken[language] >= per_language or not SHORTEST <= tree.files[name] <= LONGEST * 4:
            continue
        try:
            text = tree.read(name, max_bytes=LONGEST * 4).decode()
        except UnicodeDecodeError:
            continue
        if SHORTEST <= len(text) <= LONGEST:
            taken[language] += 1
            yield name, language, text


def figures(trees: Path, per_language: int) -> dict[str, object]:
    """Files that were harmed, and those of them whose quality fell, by kind of harm and by language."""
    fell: defaultdict[str, Counter[str]] = defaultdict(Counter)
    cases: defaultdict[str, Counter[str]] = defaultdict(Counter)
    files: Counter[str] = Counter()
    for path in sorted(trees.glob("*.tar")):
        for name, language, text in chosen(Tree(path), per_language):
            files[language] += 1
            quality = judge(name, text).quality
            for kind in KINDS:
                if (harmed := corrupted(text, language, kind, files.total())) is not None:
                    cases[kind][language] += 1
                    fell[kind][language] += judge(name, harmed).quality < quality
    return {
        "version": VERSION,
        "files": files.total(),
        "files_by_language": dict(files.most_common()),
        "kinds": {
            kind: {
                "cases": cases[kind].total(),
                "lowered": round(fell[kind].total() / cases[kind].total(), 4),
                "by_language": {
                    language: [fell[kind][language], count] for language, count in cases[kind].most_common()
                },
            }
            for kind in KINDS
            if cases[kind].total()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the data folder with the trees; that of touchstone.toml without it")
    parser.add_argument("--per-language", type=int, default=6, help="files of each language and tree")
    options = parser.parse_args()
    found = figures(open_workshop(data=options.data).trees, options.per_language)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({"files": found["files"], "kinds": found["kinds"]}))


if __name__ == "__main__":
    main()
