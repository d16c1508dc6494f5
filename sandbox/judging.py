"""The driver's side of a verdict: starts the trusted interpreter over a frozen state and believes only what it signed.

The other side is verifier_runner.py. What a verdict means for a task is not here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from pathlib import PurePosixPath

from pydantic import TypeAdapter, ValidationError

from sandbox.containers import ENVIRONMENT, Containers, ImageFacts, Role
from sandbox.errors import VerifierBroken
from sandbox.output import OutputBuffer
from sandbox.streams import Deadline, HijackedStream, engine_call
from sandbox.types import Frozen, Judgement, Limits, TestOutcome
from sandbox.verifier_runtime import VerifierRuntime

logger = logging.getLogger(__name__)

NONCE_BYTES = 32
LARGEST_VERDICT = 4 << 20
LOG_CHARACTERS = 4000
SCRATCH_OPTIONS = "rw,exec,nosuid,nodev,size=256m,mode=1777"
# The loader that starts our interpreter obeys these; set to nothing they cannot come from the image.
LOADER_ENVIRONMENT = dict.fromkeys(("LD_AUDIT", "LD_PRELOAD", "GLIBC_TUNABLES"), "")
# pytest's exit codes for: all passed, some failed. Any other one means that not every test could speak.
HEARD_ALL = (0, 1)


class _Verdict(Frozen):
    complete: bool
    exit_code: int
    seconds: float
    tests: tuple[tuple[str, str, str], ...]


_OUTCOMES: TypeAdapter[tuple[TestOutcome, ...]] = TypeAdapter(tuple[TestOutcome, ...])


def judge(
    containers: Containers,
    runtime: VerifierRuntime,
    image: str,
    facts: ImageFacts,
    files: dict[str, str],
    *,
    limits: Limits,
    timeout_s: float,
) -> Judgement:
    """Run pytest files over a fresh container of `image`; `facts` are of the image that it was made from.

    Raises VerifierBroken, ImageMissing or SandboxUnavailable, ValueError for a file name that leaves its folder.
    """
    _check_names(files)
    place, scratch = f"/{secrets.token_hex(16)}", f"/{secrets.token_hex(16)}"
    role = Role(
        command=_command(place),
        environment=LOADER_ENVIRONMENT,
        volumes=(f"{runtime.volume()}:{place}:ro",),
        tmpfs={scratch: SCRATCH_OPTIONS},
        reads_input=True,
        # As PID 1 it outlives whatever a program under test kills.
        init=False,
    )
    nonce = secrets.token_bytes(NONCE_BYTES)
    request = {
        "environment": ENVIRONMENT | facts.environment,
        "files": files,
        "scratch": scratch,
        "workdir": facts.workdir,
    }
    body = json.dumps(request).encode()
    answer, log = _Answer(), OutputBuffer()
    container = containers.create(image, limits.model_copy(update={"network": "none"}), role)
    try:
        late = _talk(containers, container, nonce + len(body).to_bytes(8, "big") + body, answer, log, timeout_s)
    finally:
        containers.remove(container)
    if late:
        raise _broken(f"gave no verdict within {timeout_s:g} s", log)
    return _judgement(_signed(answer, nonce, log), log)


def _command(place: str) -> list[str]:
    loader = [f"{place}/lib/ld.so", "--inhibit-cache", "--library-path", f"{place}/lib"]
    return [*loader, f"{place}/bin/python3", "-I", "-S", "-B", "-X", "utf8", f"{place}/runner.py"]


def _talk(
    containers: Containers, container: str, request: bytes, answer: _Answer, log: OutputBuffer, timeout_s: float
) -> bool:
    """Start the verifier, hand it the request and listen until it ends; True when it was still running at the end."""
    with engine_call("starting a verifier"):
        # Listening before it starts: nothing it says can be missed.
        stream = HijackedStream(
            containers.client, f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1", None
        )
        with stream:
            containers.start(container)
            clock = Deadline(timeout_s)
            stream.send(request)
            while not stream.ended and clock.left > 0:
                stream.read({1: answer, 2: log}, clock.left)
            return not stream.ended


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


def _signed(answer: _Answer, nonce: bytes, log: OutputBuffer) -> _Verdict:
    """The verdict, once its signature is right."""
    if answer.too_large:
        raise _broken(f"wrote a verdict of more than {LARGEST_VERDICT} bytes", log)
    if not answer.content:
        raise _broken("ended without a verdict", log)
    mac, _, body = bytes(answer.content).removesuffix(b"\n").partition(b" ")
    if not hmac.compare_digest(mac, hmac.new(nonce, body, hashlib.sha256).hexdigest().encode()):
        raise _broken("wrote something that it did not sign", log)
    try:
        return _Verdict.model_validate_json(body)
    except ValidationError as error:
        raise _broken(f"signed a verdict that cannot be read ({error.error_count()} errors)", log) from error


def _judgement(verdict: _Verdict, log: OutputBuffer) -> Judgement:
    tests = _OUTCOMES.validate_python(
        [{"test_id": test_id, "outcome": outcome, "message": text} for test_id, outcome, text in verdict.tests]
    )
    if not verdict.complete or verdict.exit_code not in HEARD_ALL:
        reasons = "; ".join(f"{test.test_id}: {test.message}" for test in tests if test.message)
        raise _broken(f"ran no test or not all (pytest's exit code {verdict.exit_code}): {reasons}", log)
    return Judgement(
        tests=tests, exit_code=verdict.exit_code, seconds=verdict.seconds, log_tail=log.last(LOG_CHARACTERS)
    )


def _check_names(files: dict[str, str]) -> None:
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"{name!r} cannot name a file of a verifier")


def _broken(what: str, log: OutputBuffer) -> VerifierBroken:
    tail = log.last(LOG_CHARACTERS).strip()
    return VerifierBroken(f"the verifier {what}" + (f"\n{tail}" if tail else ""))
