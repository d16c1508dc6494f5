"""Files into a container and out of it, through the engine's archive calls. Works in a container without programs."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time

from docker.errors import NotFound

from sandbox.container.containers import Containers
from sandbox.streams import engine_call


def put_files(containers: Containers, container: str, files: dict[str, bytes], mode: int) -> None:
    """Write files (absolute path -> content), parents created.

    Raises SandboxUnavailable, ValueError for a path that is not absolute.
    """
    archive = _archive(files, mode)
    with engine_call("writing files into a sandbox"):
        containers.client.api.put_archive(container, "/", archive)


def get_file(containers: Containers, container: str, path: str, max_bytes: int) -> bytes | None:
    """Content of one regular file, None when there is none.

    Raises ValueError when it is larger than `max_bytes`, SandboxUnavailable when the engine is gone.
    """
    api = containers.client.api
    with engine_call(f"reading {path!r} from a sandbox"):
        response = api.get(
            f"{api.base_url}/v{api.api_version}/containers/{container}/archive",
            params={"path": path},
            headers={"Accept-Encoding": "identity"},
            stream=True,
            timeout=api.timeout,
        )
        try:
            api._raise_for_status(response)
            size = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))["size"]
            return _only_file(response.raw, path, size, max_bytes)
        except NotFound as error:
            if "no such container" in str(error.explanation).lower():
                raise
            return None
        finally:
            response.close()


def _archive(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    now = int(time.time())
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            if not path.startswith("/") or path.endswith("/"):
                raise ValueError(f"{path!r} is not the absolute path of a file")
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode, entry.mtime = len(content), mode, now
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _only_file(raw: io.BufferedIOBase, path: str, size: int, max_bytes: int) -> bytes | None:
    """Content of the one regular file in an archive, None when it holds anything else."""
    with tarfile.open(fileobj=raw, mode="r|") as archive:
        member = archive.next()
        if member is None or not member.isreg():
            return None
        if size > max_bytes:
            raise ValueError(f"{path} has {size} bytes, more than {max_bytes}")
        content = archive.extractfile(member)
        return None if content is None else content.read()
