"""What an untouched sandbox of an image leaves, kept while tasks of that image are looked at."""

from __future__ import annotations

import secrets
from contextlib import closing

from sandbox.protocol import Backend
from sandbox.types import FrozenState, Limits

PWD_TIMEOUT_S = 30


class Pristine:
    """The untouched state of one image, made when first asked for."""

    def __init__(self, backend: Backend, image_digest: str) -> None:
        self._backend = backend
        self.image_digest = image_digest
        self._made: tuple[FrozenState, str] | None = None

    @property
    def state(self) -> FrozenState:
        """Raises SandboxUnavailable, ImageMissing."""
        return self._make()[0]

    @property
    def workdir(self) -> str:
        """Where commands start. Raises SandboxUnavailable, ImageMissing."""
        return self._make()[1]

    def contents(self, paths: tuple[str, ...], *, max_bytes: int) -> dict[str, bytes]:
        """Those of the paths that are regular files of at most so many bytes. Raises SandboxUnavailable."""
        found: dict[str, bytes] = {}
        with closing(self._backend.start(self.image_digest, Limits())) as sandbox:
            for path in paths:
                try:
                    content = sandbox.get(path, max_bytes=max_bytes)
                except ValueError:
                    continue
                if content is not None:
                    found[path] = content
        return found

    def close(self) -> None:
        """Forget the state; safe to call twice."""
        if self._made is not None:
            self._backend.discard(self._made[0].reference)
            self._made = None

    def _make(self) -> tuple[FrozenState, str]:
        if self._made is None:
            with closing(self._backend.start(self.image_digest, Limits())) as sandbox:
                place = sandbox.execute("pwd", timeout_s=PWD_TIMEOUT_S).output.strip() or "/"
                self._made = sandbox.freeze(f"admission-noop-{secrets.token_hex(8)}", keep=False), place
        return self._made
