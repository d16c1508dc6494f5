"""`make bench-curation`: images of repositories that no rule was written for. The last line is one JSON object.

The repositories and their commits are training/experiments/image_curation/repositories.jsonl; `--mirrors` names a
folder with a git clone of each as OWNER+NAME (or OWNER+NAME/repo), whose HEAD is that commit. Source packages of
Debian, which somebody patched so that they build, are in packages.json and counted apart. What was built stays built,
so a run may be ended and begun again. One line per repository goes to cells.jsonl beside the lists, the figures to
result.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from assets.progress import ProgressBars
from assets.resources import Workshop, open_workshop
from pipeline.batch import Retry
from pipeline.checkout import CheckoutConfig
from pipeline.image_report import image_report
from pipeline.schemas import to_rows
from pipeline.sources import Source
from pipeline.sources.local import LocalConfig, LocalPath, LocalSource
from pipeline.sources.registry import RegistryConfig, RegistrySource
from pipeline.stages.building import build
from pipeline.stages.fetching import fetch
from pipeline.stages.options import Options
from pipeline.stages.scoring import fetched, score
from pipeline.types import Repository

EXPERIMENT = Path(__file__).resolve().parents[2] / "training" / "experiments" / "image_curation"
# What a row of image_builds says of an attempt, without any text of the repository.
OUTCOME = (
    "strategy",
    "repairs",
    "status",
    "failure_class",
    "builder",
    "base_substituted",
    "seconds",
    "check_seconds",
    "size_bytes",
    "smoke_ok",
    "tests_ok",
)


@dataclass(frozen=True)
class Listed:
    """One line of the list."""

    full_name: str
    commit: str
    language: str
    has_dockerfile: bool

    @property
    def name(self) -> str:
        """Name on the rows: the owner's is left out, since a local repository has none."""
        return self.full_name.split("/")[1]

    def clone(self, mirrors: Path) -> Path:
        """Its folder. Raises SystemExit when it is not there, or at another commit."""
        folder = mirrors / self.full_name.replace("/", "+")
        folder = folder / "repo" if (folder / "repo").is_dir() else folder
        command = ["git", "-c", "safe.directory=*", "-C", str(folder), "rev-parse", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if found != self.commit:
            raise SystemExit(f"{folder} is at {found or 'no commit'}; {self.full_name} is listed at {self.commit}")
        return folder


def read_list(path: Path) -> list[Listed]:
    """The repositories of a list."""
    return [Listed(**json.loads(line)) for line in path.read_text().splitlines()]


def curate(shop: Workshop, chosen: Sequence[Listed], mirrors: Path, retry: Retry) -> dict[str, Repository]:
    """Fetch, score and build all of them, those under the threshold of the score too; the repositories by name."""
    paths = [
        LocalPath.model_validate(
            {"path": one.clone(mirrors).relative_to(mirrors), "language": one.language, "name": one.name}
        )
        for one in chosen
    ]
    clones = LocalSource(LocalConfig(paths=tuple(paths)), CheckoutConfig(), mirrors)
    fetcher = shop.bases().toolchain("fetch")
    packages = RegistryConfig(packages=EXPERIMENT / "packages.json")
    sources: list[Source] = [clones, RegistrySource(packages, CheckoutConfig(), shop.backend(), lambda: fetcher.digest)]
    repositories = [repository for source in sources for repository in source.repositories(None)]
    options = Options(workers=shop.settings.workers, retry=retry)
    fetch(shop.store(), repositories, sources, shop.trees, options)
    there = fetched(shop.store(), repositories)
    score(shop.store(), there, shop.trees, shop.scorer(), options)
    build(shop.store(), there, shop.trees, shop.workbench(), options)
    return {repository.full_name: repository for repository in repositories}


def cells(shop: Workshop, chosen: Iterable[Listed], repositories: Mapping[str, Repository]) -> list[dict[str, object]]:
    """One outcome per repository, packages last."""
    scores = {row["repository_id"]: row["score"] for row in to_rows(shop.store().current("scores"))}
    rows = to_rows(shop.store().current("image_builds"))
    known = {f"local/{one.name}": one for one in chosen}
    found = []
    for full_name, repository in repositories.items():
        one = known.get(full_name) or Listed(full_name, repository.commit, repository.language, has_dockerfile=False)
        repository_id = repository.repository_id
        tried = [row for row in rows if row["repository_id"] == repository_id]
        found.append(
            {
                **asdict(one),
                "score": scores.get(repository_id),
                "built": any(row["status"] == "built" for row in tried),
                "smoke_ok": any(row["smoke_ok"] for row in tried),
                "tests_ok": next((row["tests_ok"] for row in tried if row["smoke_ok"]), None),
                "attempts": [{name: _short(row[name]) for name in OUTCOME} for row in tried],
            }
        )
    return found


def _short(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value


def shares(found: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """How many of some cells were built and are usable."""
    built, usable = sum(bool(cell["built"]) for cell in found), sum(bool(cell["smoke_ok"]) for cell in found)
    return {
        "repositories": len(found),
        "built": built,
        "built_rate": round(built / len(found), 3) if found else None,
        "smoke_ok": usable,
        "smoke_ok_rate": round(usable / len(found), 3) if found else None,
    }


def own_dockerfiles(found: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Of the repositories with a Dockerfile: how many were built from it, by any of their own."""
    with_one = [cell for cell in found if cell["has_dockerfile"]]
    own = [
        [attempt for attempt in cell["attempts"] if attempt["strategy"] == "own_dockerfile"]  # type: ignore[attr-defined]
        for cell in with_one
    ]
    return {
        **shares(with_one),
        "built_from_their_own": sum(any(one["status"] == "built" for one in tried) for tried in own),
        "usable_from_their_own": sum(any(one["smoke_ok"] for one in tried) for tried in own),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git clones, OWNER+NAME each")
    parser.add_argument("--data", type=Path, default=None, help="data folder (default: that of the main job)")
    parser.add_argument("--first", type=int, default=None, help="only so many of the list; nothing is written then")
    parser.add_argument("--retry", type=Retry, choices=list(Retry), default=Retry.NONE)
    options = parser.parse_args()
    chosen = read_list(EXPERIMENT / "repositories.jsonl")[: options.first]
    shop = open_workshop(data=options.data)
    with ProgressBars(Console(stderr=True, log_path=False)):
        repositories = curate(shop, chosen, options.mirrors, options.retry)
    found = cells(shop, chosen, repositories)
    clones = [cell for cell in found if not str(cell["full_name"]).startswith("debian/")]
    packages = [cell for cell in found if cell not in clones]
    result = {**shares(clones), "with_dockerfile": own_dockerfiles(clones), "packages": shares(packages)}
    if options.first is None:
        report = image_report(shop.store()).model_dump()
        kept = ("by_language", "by_strategy", "by_failure_class", "build_seconds", "tests_run", "tests_ok")
        result |= {name: report[name] for name in kept}
        (EXPERIMENT / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in found))
        (EXPERIMENT / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
