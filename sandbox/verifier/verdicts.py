"""The driver's side of a verdict: what a verifier is told, and which part of its answer is believed.

The other side is verifier_runner.py. How a backend starts it and carries the bytes is in container/judging.py and
backends/overlay.py; what a verdict means for a task is not here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import TypeAdapter, ValidationError

from sandbox.container.containers import ENVIRONMENT, ImageFacts
from sandbox.errors import VerifierBroken
from sandbox.output import OutputBuffer
from sandbox.streams import Sink
from sandbox.types import USUAL, Conditions, Frozen, Judgement, Limits, TestOutcome
from sandbox.verifier.verifier_runtime import LAUNCHER

NONCE_BYTES = 32
LARGEST_VERDICT = 4 << 20
LOG_CHARACTERS = 4000
LARGEST_SCRATCH_MB = 256
# Runtimes look for a home that is not named in the accounts of the judged file system, which may say anything.
START_ENVIRONMENT = {"HOME": "/"}
# pytest's exit codes for: all passed, some failed. Any other one means that not every test could speak.
HEARD_ALL = (0, 1)


def scratch_options(limits: Limits) -> str:
    """How to mount the verifier's own file system; what lies there counts as memory of the sandbox."""
    return f"rw,exec,nosuid,nodev,size={min(LARGEST_SCRATCH_MB, limits.memory_mb // 4)}m,mode=1777"


class _Verdict(Frozen):
    complete: bool
    exit_code: int
    seconds: float
    tests: tuple[tuple[str, str, str], ...]


_OUTCOMES: TypeAdapter[tuple[TestOutcome, ...]] = TypeAdapter(tuple[TestOutcome, ...])


class Hearing:
    """One verdict that is asked for. Two folders of names that nobody can know are the verifier's own."""

    def __init__(self, files: Mapping[str, str], facts: ImageFacts, conditions: Conditions = USUAL) -> None:
        """`facts` are of the image that the judged state was made from.

        Raises ValueError for a file name that leaves its folder.
        """
        _check_names(files)
        self.place = f"/{secrets.token_hex(16)}"
        """Where the runtime has to be."""
        self.scratch = f"/{secrets.token_hex(16)}"
        """Where an empty file system in memory has to be."""
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        request = {
            "conditions": conditions.model_dump(),
            "environment": ENVIRONMENT | facts.environment,
            "files": dict(files),
            "scratch": self.scratch,
            "workdir": facts.workdir,
        }
        body = json.dumps(request).encode()
        self.request = self._nonce + len(body).to_bytes(8, "big") + body
        """What goes to the verifier's standard input."""
        self._answer = _Answer()
        self._log = OutputBuffer()

    @property
    def command(self) -> list[str]:
        """The program that empties its environment and becomes the verifier."""
        return [f"{self.place}/{LAUNCHER}"]

    @property
    def sinks(self) -> dict[int, Sink]:
        """Where the verifier's standard output (1) and error (2) go."""
        return {1: self._answer, 2: self._log}

    @property
    def answered(self) -> bool:
        """Whether it said anything that may be a verdict."""
        return bool(self._answer.content) or self._answer.too_large

    @property
    def log_tail(self) -> str:
        """The end of what it wrote beside its answer."""
        return self._log.last(LOG_CHARACTERS).strip()

    def judgement(self) -> Judgement:
        """What the verifier signed, after its end. Raises VerifierBroken."""
        verdict = self._signed()
        tests = _OUTCOMES.validate_python(
            [{"test_id": test_id, "outcome": outcome, "message": text} for test_id, outcome, text in verdict.tests]
        )
        if not verdict.complete or verdict.exit_code not in HEARD_ALL:
            reasons = "; ".join(f"{test.test_id}: {test.message}" for test in tests if test.message)
            raise self.broken(f"ran no test or not all (pytest's exit code {verdict.exit_code}): {reasons}")
        tail = self._log.last(LOG_CHARACTERS)
        return Judgement(tests=tests, exit_code=verdict.exit_code, seconds=verdict.seconds, log_tail=tail)

    def broken(self, what: str) -> VerifierBroken:
        """The error for a verifier that `what`, with what it wrote last."""
        return VerifierBroken(f"the verifier {what}" + (f"\n{self.log_tail}" if self.log_tail else ""))

    def _signed(self) -> _Verdict:
        if self._answer.too_large:
            raise self.broken(f"wrote a verdict of more than {LARGEST_VERDICT} bytes")
        if not self._answer.content:
            raise self.broken("ended without a verdict")
        mac, _, body = bytes(self._answer.content).removesuffix(b"\n").partition(b" ")
        if not hmac.compare_digest(mac, hmac.new(self._nonce, body, hashlib.sha256).hexdigest().encode()):
            raise self.broken("wrote something that it did not sign")
        try:
            return _Verdict.model_validate_json(body)
        except ValidationError as error:
            raise self.broken(f"signed a verdict that cannot be read ({error.error_count()} errors)") from error


class _Answer:
    """Standard output of the verifier, of bounded size."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.too_large = False

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.too_large = self.too_large or len(self.content) + len(chunk) > LARGEST_VERDICT
        if not self.too_large:
            self.content += chunk


def _check_names(files: Mapping[str, str]) -> None:
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"{name!r} cannot name a file of a verifier")
