"""The commit of each chosen repository, a hundred to a request of GraphQL, with the files of its root that matter.

The answer comes for all at once: what is gone or blocked is null there and gets a row as well, so that fetching it
gives the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.errors import InfrastructureFailure
from pipeline.sources.github_client import HubClient
from pipeline.sources.github_index import CrawlIndex, Pin
from pipeline.sources.github_metadata import execution_files
from pipeline.types import Language, content_id

BATCH = 100
"""Nodes that one request may name."""

REFUSED = "refused"
"""How the commit of a repository begins that has none."""

_QUERY = """
query($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on Repository {
      databaseId nameWithOwner url isArchived isFork isMirror isEmpty isDisabled
      defaultBranchRef { target { oid } }
      object(expression: "HEAD:") { ... on Tree { entries { name } } }
    }
  }
}
"""


def pin(client: HubClient, index: CrawlIndex, languages: Sequence[Language], most: int) -> int:
    """Commits for what was pushed to, and for the best of each language until it has `most`. Returns how many.

    Raises as HubClient.graphql does.
    """
    wanted = index.outdated()
    for language in languages:
        wanted += index.unpinned(language, most)
    with client.pool("pins") as pool:
        for pins in pool.map(lambda part: list(_asked(client, part)), _parts(wanted)):
            index.pin(pins)
    return len(wanted)


def _parts(wanted: Sequence[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
    for start in range(0, len(wanted), BATCH):
        yield wanted[start : start + BATCH]


def _asked(client: HubClient, wanted: Sequence[tuple[int, str]]) -> Iterator[Pin]:
    answer = client.graphql(_QUERY, {"ids": [node for _, node in wanted]})
    nodes = (answer.data.get("data") or {}).get("nodes") if isinstance(answer.data, Mapping) else None
    if not isinstance(nodes, list) or len(nodes) != len(wanted):
        errors = answer.data.get("errors") if isinstance(answer.data, Mapping) else None
        raise InfrastructureFailure(f"GraphQL answers with status {answer.status}: {str(errors)[:300]}")
    for (repository_id, _), node in zip(wanted, nodes, strict=True):
        yield _pin(repository_id, node)


def _pin(repository_id: int, node: Mapping[str, Any] | None) -> Pin:
    if not node:
        return Pin(repository_id, content_id(REFUSED, "missing", repository_id))
    try:
        branch = node["defaultBranchRef"]
        state = next((state for flag, state in _FLAGS if node[flag]), "usual")
        if branch is None:
            state, commit = ("empty" if state == "usual" else state), content_id(REFUSED, "empty", repository_id)
        else:
            commit = branch["target"]["oid"]
        names = [entry["name"] for entry in (node["object"] or {}).get("entries", ())]
        return Pin(
            repository_id,
            commit,
            node["nameWithOwner"],
            f"{node['url']}.git",
            state,
            json.dumps(execution_files(names)),
        )
    except (KeyError, TypeError) as error:
        raise InfrastructureFailure(f"GraphQL describes a repository without {error}") from error


_FLAGS = (("isDisabled", "disabled"), ("isArchived", "archived"), ("isFork", "fork"), ("isMirror", "mirror"))
