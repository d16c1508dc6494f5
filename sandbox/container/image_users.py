"""Who an image says its programs run as, by number: a judged state may have renamed or removed its accounts."""

from __future__ import annotations

from sandbox.container.containers import Containers, ImageFacts, Role
from sandbox.container.files import get_file
from sandbox.types import Limits

_MOST_BYTES = 1 << 20


def user_by_number(containers: Containers, facts: ImageFacts) -> str:
    """`UID:GID` of the image's user in the accounts of the image itself; empty for root, or for an unknown name.

    Raises SandboxUnavailable.
    """
    name, _, group = facts.user.partition(":")
    if not name or (name.isdigit() and group.isdigit()):
        return facts.user
    container = containers.create(facts.digest, Limits(lifetime_s=600), Role(command=["true"]))
    try:
        accounts = _lines(containers, container, "/etc/passwd")
        groups = _lines(containers, container, "/etc/group")
    finally:
        containers.remove(container)
    account = next((one for one in accounts if len(one) > 3 and name in (one[0], one[2])), None)
    if account is None:
        return name if name.isdigit() else ""
    number = next((one[2] for one in groups if len(one) > 2 and group in (one[0], one[2])), account[3])
    return f"{account[2]}:{number}"


def _lines(containers: Containers, container: str, path: str) -> list[list[str]]:
    content = get_file(containers, container, path, _MOST_BYTES) or b""
    return [line.split(":") for line in content.decode("utf-8", "replace").splitlines()]
