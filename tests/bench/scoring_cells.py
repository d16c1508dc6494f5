"""One listed repository -> one line: what its first attempt at an image became, and what is known without building.

The project's own stages fetch and build; only the first candidate is tried, unrepaired, and the tests of the project
are left out. Where image_curation committed an outcome of the same commit, its first attempt is taken over
(`from: image_curation`), unless that was the machine's fault. An image that was made for this is removed again.
No text of a repository and no path of this machine is in a line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from assets.resources import Workshop
from pipeline.batch import Retry
from pipeline.checkout import CheckoutConfig, Tree
from pipeline.image_attempts import CurationConfig, Workbench, sandbox_check
from pipeline.image_report import NOT_THE_REPOSITORY
from pipeline.schemas import Row, to_rows
from pipeline.sources import Source
from pipeline.sources.local import LocalConfig, LocalPath, LocalSource
from pipeline.sources.registry import RegistryConfig, RegistrySource
from pipeline.stages.building import build
from pipeline.stages.fetching import fetch
from pipeline.stages.options import Options
from pipeline.stages.scoring import Fetched, fetched
from sandbox.building.images import ImageBuilder
from sandbox.building.room import Room
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call
from sandbox.types import BuildLimits
from tests.bench.scoring_sample import EXPERIMENT, Listed, clone

logger = logging.getLogger(__name__)
CELLS = EXPERIMENT / "cells.jsonl"
CURATION = EXPERIMENT.parent / "image_curation" / "cells.jsonl"
LIMITS = BuildLimits(timeout_s=1800)
SMOKE_S = 120
"""Several times the usual limits: what a busy machine does to a build is no label."""
FREE_BYTES = 15 * 10**9
"""With less than this on the disk of the data folder nothing more is built."""
OUTCOME = ("strategy", "status", "failure_class", "builder", "base_substituted", "smoke_ok", "seconds")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SIGNED = re.compile(r"^ -- .*>  \w{3}, +(\d{1,2}) (\w{3}) (\d{4}) ", re.MULTILINE)
_LAYER = re.compile(r"^ ---> ([0-9a-f]{12})$", re.MULTILINE)


class DiskFull(Exception):
    """Too little is free to build more."""


def known_cells(path: Path = CELLS) -> dict[str, Row]:
    """The outcomes so far, by id."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {cell["id"]: cell for cell in map(json.loads, lines)}


def taken_over() -> dict[str, Mapping[str, object]]:
    """First attempts that image_curation committed and that say something, by id and commit."""
    found = {}
    for line in CURATION.read_text().splitlines():
        cell = json.loads(line)
        first = next(iter(cell["attempts"]), None)
        if first is not None and first["failure_class"] not in NOT_THE_REPOSITORY:
            found[f"github/{cell['full_name']}@{cell['commit']}"] = first
    return found


@dataclass(frozen=True)
class Bench:
    """What cells are made with."""

    shop: Workshop
    mirrors: Path
    workbench: Workbench
    client: docker.DockerClient
    former: Mapping[str, Mapping[str, object]]

    @classmethod
    def of(cls, shop: Workshop, mirrors: Path) -> Bench:
        """A workbench for first attempts. Its room keeps all images of others: the engine may be shared."""
        client = connect(shop.data)
        config = CurationConfig(max_attempts=1, smoke_timeout_s=SMOKE_S, tests_timeout_s=0)
        builder = ImageBuilder(client, shop.bases(), shop.egress(), Room(client, shop.data))
        workbench = replace(
            shop.workbench(),
            build=builder.build,
            config=config,
            limits=LIMITS,
            check=sandbox_check(shop.backend(), config),
            push=None,
            rewrite=None,
        )
        return cls(shop, mirrors, workbench, client, taken_over())

    def cell(self, one: Listed) -> Row:
        """Its outcome. Raises DiskFull, and nothing else for what a repository does."""
        item = self._fetched(one)
        if item is None:
            return _line(one, None, {"status": "not_fetched"}, "fetch", None)
        tree = self.shop.trees / f"{item.checkout.tree_sha256}.tar"
        former = self.former.get(f"{one.id}@{one.version}")
        if former is not None:
            return _line(one, item, former, "image_curation", one.date)
        if shutil.disk_usage(self.shop.data).free < FREE_BYTES:
            raise DiskFull
        build(self.shop.store(), [item], self.shop.trees, self.workbench, Options(retry=Retry.INFRASTRUCTURE))
        rows = to_rows(self.shop.store().current("image_builds"))
        row = next(row for row in rows if row["repository_id"] == item.repository.repository_id)
        if row["failure_class"] == "disk":
            raise DiskFull
        self._remove(row)
        return _line(one, item, row, "built", one.date or _changelog_date(tree))

    def _fetched(self, one: Listed) -> Fetched | None:
        if one.ecosystem == "github":
            path = LocalPath.model_validate(
                {
                    "path": clone(self.mirrors, one.name).relative_to(self.mirrors),
                    "language": one.language,
                    "name": one.name.partition("/")[2],
                }
            )
            source: Source = LocalSource(LocalConfig(paths=(path,)), CheckoutConfig(), self.mirrors)
        else:
            pinned = self.shop.data / "drawn.json"
            pinned.write_text(json.dumps({"packages": [one.package.model_dump()]}))
            config = RegistryConfig(packages=pinned)
            image = self.shop.bases().toolchain("fetch").digest
            source = RegistrySource(config, CheckoutConfig(), self.shop.backend(), lambda: image)
        repositories = list(source.repositories(None))
        fetch(self.shop.store(), repositories, [source], self.shop.trees, Options())
        return next(iter(fetched(self.shop.store(), repositories)), None)

    def _remove(self, row: Mapping[str, object]) -> None:
        """The image, or what a failed build left of it. One that was there before, or has other names, stays."""
        layers = _LAYER.findall(str(row["log_tail"] or ""))
        name = str(row["image_digest"] or (layers[-1] if layers else ""))
        if not name or row["cached"]:
            return
        try:
            with engine_call("removing an image"):
                tags = self.client.images.get(name).tags
                if len(tags) == bool(row["image_digest"]):
                    self.client.images.remove(name)
        except (ImageNotFound, APIError, SandboxUnavailable) as error:
            logger.warning("an image stays: %s", error)  # something else stands on it, or the engine is busy


def _line(one: Listed, item: Fetched | None, row: Mapping[str, object], origin: str, date: str | None) -> Row:
    seconds = row.get("seconds")
    return {
        "id": one.id,
        "version": one.version,
        "language": one.language,
        "owner": hashlib.sha256(one.owner.encode()).hexdigest()[:12],
        "date": date,
        "from": origin,
        **{name: row.get(name) for name in OUTCOME},
        "seconds": round(float(str(seconds)), 1) if seconds is not None else None,
        "n_files": item.checkout.n_files if item else None,
        "n_bytes": item.checkout.n_bytes if item else None,
    }


def _changelog_date(path: Path) -> str | None:
    """When a Debian package was last signed for."""
    tree = Tree(path)
    if "debian/changelog" not in tree.files:
        return None
    text = tree.read("debian/changelog", max_bytes=65_536).decode("utf-8", "replace")
    if (found := _SIGNED.search(text)) is None or found[2] not in _MONTHS:
        return None
    return f"{found[3]}-{_MONTHS.index(found[2]) + 1:02d}-{int(found[1]):02d}"
