"""The GraphQL part: `nodes(ids: …)` over at most 100 repositories, with the errors of those that are not there."""

from __future__ import annotations

import re

from tests.github_server.objects import objects
from tests.github_server.rest import Answer, answer, refused
from tests.github_server.world import World, stamp

_IDS = 100


def graphql(world: World, request: object) -> Answer:
    """The answer to one POST."""
    if not isinstance(request, dict) or "query" not in request:
        return refused(400, "A query attribute must be specified and must be a string.")
    text = str(request["query"])
    ids = (request.get("variables") or {}).get("ids")
    if not re.search(r"nodes\s*\(\s*ids\s*:\s*\$ids\s*\)", text) or not isinstance(ids, list):
        return answer(200, {"errors": [{"type": "undefinedField", "message": "only nodes(ids: $ids) is simulated"}]})
    if len(ids) > _IDS:
        message = f"You may not provide more than {_IDS} node ids; you provided {len(ids)}."
        return answer(200, {"data": None, "errors": [{"type": "ARGUMENT_LIMIT", "message": message}]})
    nodes: list[dict[str, object] | None] = []
    errors = []
    for index, node in enumerate(ids):
        found = _node(world, str(node))
        nodes.append(found if found is None else {name: value for name, value in found.items() if name in text})
        if found is None:
            message = f"Could not resolve to a node with the global id of '{node}'."
            errors.append({"type": "NOT_FOUND", "path": ["nodes", index], "message": message})
    return answer(200, {"data": {"nodes": nodes}} | ({"errors": errors} if errors else {}))


def _node(world: World, node: str) -> dict[str, object] | None:
    match = re.fullmatch(r"R_kgDO([0-9a-f]{8})", node)
    repository_id = int(match[1], 16) if match else 0
    if not world.exists(repository_id) or world.kind_of(repository_id).startswith("blocked"):
        return None
    kind = world.kind_of(repository_id)
    branch: dict[str, object] | None = None
    entries: dict[str, object] | None = None
    if kind != "empty":
        found = objects(world, repository_id)
        branch = {"name": "main", "target": {"oid": found.commit}}
        names = dict.fromkeys(path.split("/")[0] for path in (*found.blobs, *found.links))
        entries = {
            "entries": [{"name": name, "type": "blob" if name in found.blobs else "tree"} for name in sorted(names)]
        }
    licence = world.licence(repository_id)
    return {
        "databaseId": repository_id,
        "nameWithOwner": world.full_name(repository_id),
        "url": f"{world.address}/{world.full_name(repository_id)}",
        "isArchived": kind == "archived",
        "isFork": kind == "fork",
        "isMirror": kind == "mirror",
        "isEmpty": kind == "empty",
        "isDisabled": False,
        "isLocked": False,
        "diskUsage": int(world.size[repository_id - 1]),
        "pushedAt": stamp(int(world.pushed[repository_id - 1])),
        "licenseInfo": None if licence is None else {"spdxId": licence},
        "defaultBranchRef": branch,
        "object": entries,
    }
