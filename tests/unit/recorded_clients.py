"""A backend whose sandbox gives recorded answers of the registries' clients; what they mean is tested elsewhere."""

from __future__ import annotations

import io
import tarfile

from sandbox.errors import SandboxUnavailable
from sandbox.types import USUAL, Conditions, ExecResult, FileChange, FrozenState, Judgement, Limits


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class RecordedSandbox:
    """Gives recorded answers in turn, and recorded files."""

    image_digest = "sha256:recorded"

    def __init__(self, answers: list[ExecResult], files: dict[str, bytes]) -> None:
        self.answers = list(answers)
        self.files = files
        self.commands: list[str] = []
        self.closed = False

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        self.commands.append(command)
        return self.answers.pop(0)

    def get(self, path: str, *, max_bytes: int) -> bytes | None:
        data = self.files.get(path.rpartition("/")[2])
        if data is not None and len(data) > max_bytes:
            raise ValueError(path)
        return data

    def close(self) -> None:
        self.closed = True

    def put(self, files: dict[str, bytes], *, mode: int = 0o644) -> None:
        raise NotImplementedError("fetching puts nothing")

    def changes(self) -> list[FileChange]:
        raise NotImplementedError("fetching compares nothing")

    def freeze(self, reference: str) -> FrozenState:
        raise NotImplementedError("fetching freezes nothing")


class RecordedBackend:
    """Starts the one recorded sandbox, or is unreachable."""

    name = "recorded"

    def __init__(self, sandbox: RecordedSandbox | None) -> None:
        self.sandbox = sandbox
        self.started: list[tuple[str, Limits]] = []

    def start(self, image_digest: str, limits: Limits) -> RecordedSandbox:
        if self.sandbox is None:
            raise SandboxUnavailable("the engine is gone")
        self.started.append((image_digest, limits))
        return self.sandbox

    def restore(self, state: FrozenState, limits: Limits) -> RecordedSandbox:
        raise NotImplementedError("fetching restores nothing")

    def judge(
        self,
        state: FrozenState,
        files: dict[str, str],
        *,
        limits: Limits,
        timeout_s: float,
        conditions: Conditions = USUAL,
    ) -> Judgement:
        raise NotImplementedError("fetching judges nothing")

    def has_state(self, reference: str) -> bool:
        return False

    def discard(self, reference: str) -> None:
        raise NotImplementedError("fetching keeps no state")

    def reap(self) -> int:
        return 0


def answer(exit_code: int | None, output: str = "") -> ExecResult:
    return ExecResult(
        exit_code=exit_code,
        output=output,
        output_bytes=len(output),
        truncated=False,
        timed_out=exit_code is None,
        seconds=0.1,
    )
