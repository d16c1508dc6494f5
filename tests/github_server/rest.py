"""The REST part: search, repositories, trees, contents, commits, rate limit. Pure: a request in, an answer out."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tests.github_server.objects import objects
from tests.github_server.search import CAP, InvalidQuery, search
from tests.github_server.world import World, stamp

_TREE_LIMIT = 100_000


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(status: int, data: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(data).encode(), headers or {})


def refused(status: int, message: str) -> Answer:
    return answer(status, {"message": message, "documentation_url": "https://docs.example.org/rest"})


class Rest:
    """Answers about one world."""

    def __init__(self, world: World, address: str, prefix: str) -> None:
        self._world = world
        self._address = address
        self._prefix = prefix
        self.truncated: set[int] = set()
        """Repositories whose recursive tree is cut."""
        self.shifting = False
        """Every page of search but the first is shifted by three results when it is asked for the first time: something
        moved since the page before."""
        self._shifted: set[str] = set()
        self.phantoms = 0
        """So many results are counted in every question that has any, and never handed out."""
        self.incomplete = 0
        """So many pages of search to come lack half of their results, and say so."""

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """`path` without the prefix of the API."""
        if path == "/search/repositories":
            return self._search(query)
        if match := re.fullmatch(r"/repositories/(\d+)", path):
            return self._repository(int(match[1]), None)
        if match := re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path):
            repository_id = self._world.id_of(match[1])
            if repository_id is None:
                return refused(404, "Not Found")
            if match[1].lower() != self._world.full_name(repository_id).lower():
                return self._moved(repository_id, match[2] or "")
            return self._repository(repository_id, match[2], query)
        return refused(404, "Not Found")

    def _moved(self, repository_id: int, rest: str) -> Answer:
        location = f"{self._address}{self._prefix}/repositories/{repository_id}{rest}"
        body = {"message": "Moved Permanently", "url": location}
        return answer(301, body, {"Location": location})

    def _repository(self, repository_id: int, rest: str | None, query: Mapping[str, str] | None = None) -> Answer:
        world = self._world
        if not world.exists(repository_id):
            return refused(404, "Not Found")
        kind = world.kind_of(repository_id)
        if kind == "blocked_451":
            block = {"reason": "dmca", "created_at": stamp(world.now), "html_url": "https://docs.example.org/dmca"}
            return answer(451, {"message": "Repository access blocked", "block": block})
        if kind == "blocked_403":
            return answer(403, {"message": "Repository access blocked", "block": {"reason": "tos"}})
        if rest is None:
            return answer(200, self.item(repository_id, world.full_name(repository_id)))
        if rest == "/languages":
            return answer(200, {world.language_of(repository_id): int(world.size[repository_id - 1]) * 1000})
        if kind == "empty":
            return refused(409, "Git Repository is empty.")
        found = objects(world, repository_id)
        if match := re.fullmatch(r"/commits/(\w+)", rest):
            known = match[1] in (found.commit, "main", "HEAD")
            return answer(200, {"sha": found.commit}) if known else refused(422, "No commit found for SHA")
        if match := re.fullmatch(r"/git/trees/(\w+)", rest):
            return self._tree(repository_id, "recursive" in (query or {}))
        if match := re.fullmatch(r"/contents/(.+)", rest):
            data = found.blobs.get(match[1])
            if data is None:
                return refused(404, "Not Found")
            encoded = base64.b64encode(data).decode()
            return answer(200, {"type": "file", "path": match[1], "encoding": "base64", "content": encoded})
        return refused(404, "Not Found")

    def _tree(self, repository_id: int, recursive: bool) -> Answer:
        found = objects(self._world, repository_id)
        entries: list[dict[str, object]] = [
            {"path": path, "mode": "100644", "type": "blob", "size": len(data)}
            for path, data in found.blobs.items()
            if recursive or "/" not in path
        ]
        entries += [{"path": path, "mode": "160000", "type": "commit", "sha": c} for path, c in found.links.items()]
        size_kb = int(self._world.size[repository_id - 1])
        if size_kb > 1_000:  # what search calls large is large: one file holds the rest
            entries.append({"path": "data/large.bin", "mode": "100644", "type": "blob", "size": size_kb * 1024})
        truncated = repository_id in self.truncated or len(entries) > _TREE_LIMIT
        return answer(200, {"sha": found.root_tree, "tree": entries, "truncated": truncated})

    def _search(self, query: Mapping[str, str]) -> Answer:
        text = query.get("q", "")
        page, per_page = int(query.get("page", "1")), min(int(query.get("per_page", "30")), 100)
        try:
            found = search(self._world, text, page, per_page)
        except InvalidQuery as error:
            return answer(422, {"message": str(error), "errors": [{"code": "invalid", "field": "q"}]})
        ids, incomplete = found.ids, False
        if self.shifting and page > 1 and (place := f"{text} {page}") not in self._shifted:
            self._shifted.add(place)
            ids = search(self._world, text, page - 1, per_page).ids[-3:] + ids[:-3]
        if self.incomplete:
            self.incomplete -= 1
            ids, incomplete = ids[: len(ids) // 2], True
        items = [self.item(i, self._world.searched_name(i)) | {"score": 1.0} for i in ids]
        total = found.total + (self.phantoms if found.total else 0)
        data = {"total_count": total, "incomplete_results": incomplete, "items": items}
        last = max(1, math.ceil(min(found.total, CAP) / per_page))
        places = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        if page >= last:
            del places["next"], places["last"]
        if page == 1:
            del places["prev"], places["first"]
        base = f"{self._address}{self._prefix}/search/repositories"
        links = [
            f'<{base}?{urlencode({**query, "page": str(number)})}>; rel="{name}"' for name, number in places.items()
        ]
        return answer(200, data, {"Link": ", ".join(links)} if links else {})

    def item(self, repository_id: int, full_name: str) -> dict[str, object]:
        """A repository as REST describes it, with the fields that tell a crawler something and some that do not."""
        world, index = self._world, repository_id - 1
        kind = world.kind_of(repository_id)
        owner, name = full_name.split("/")
        url = f"{self._address}{self._prefix}/repos/{full_name}"
        licence = world.licence(repository_id)
        return {
            "id": repository_id,
            "node_id": node_id(repository_id),
            "name": name,
            "full_name": full_name,
            "private": False,
            "owner": {"login": owner, "id": repository_id * 7, "type": "User", "site_admin": False},
            "html_url": f"{self._address}/{full_name}",
            "description": f"A {name} — of the simulated hub.",
            "fork": kind == "fork",
            "url": url,
            "languages_url": f"{url}/languages",
            "trees_url": f"{url}/git/trees{{/sha}}",
            "contents_url": f"{url}/contents/{{+path}}",
            "commits_url": f"{url}/commits{{/sha}}",
            "created_at": stamp(int(world.created[index])),
            "updated_at": stamp(int(world.pushed[index])),
            "pushed_at": stamp(int(world.pushed[index])),
            "clone_url": f"{self._address}/{full_name}.git",
            "mirror_url": "https://elsewhere.example.org/x.git" if kind == "mirror" else None,
            "homepage": None,
            "size": int(world.size[index]),
            "stargazers_count": int(world.stars[index]),
            "watchers_count": int(world.stars[index]),
            "language": world.language_of(repository_id),
            "has_issues": True,
            "forks_count": int(world.stars[index]) // 5,
            "archived": kind == "archived",
            "disabled": False,
            "open_issues_count": 0,
            "license": None if licence is None else {"key": licence.lower(), "spdx_id": licence},
            "topics": ["cli"] if world.digest(repository_id)[7] % 8 == 0 else [],
            "visibility": "public",
            "default_branch": "main",
        }


def node_id(repository_id: int) -> str:
    return f"R_kgDO{repository_id:08x}"
