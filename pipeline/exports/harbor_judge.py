"""Goes with every exported task as tests/judge.py: judges the state of a trial and writes Harbor's reward.

Runs in the trial's own container by the trusted interpreter that lies in its image, imports the standard library only,
and starts the same launcher, runner and guards that judge our own trials. What it writes is as safe as Harbor's shared
mode is: an agent with root may have replaced the shell that starts this. Labels of ours never come from here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NONCE_BYTES = 32
HEARD_ALL = (0, 1)


def judge(runtime: Path, tests: Path, out: Path) -> bool:
    """Whether exactly the recorded tests passed; what became of each is in `out`/tests.json."""
    expected = json.loads((tests / "expected.json").read_text(encoding="utf-8"))
    verdict = _verdict(runtime, tests / "verifier", expected)
    _write(out / "tests.json", verdict)
    outcomes = {test_id: outcome for test_id, outcome, _ in verdict["tests"]}
    passed = {test_id for test_id, outcome in outcomes.items() if outcome == "passed"}
    complete = verdict["complete"] and verdict["exit_code"] in HEARD_ALL
    return bool(complete and passed == set(outcomes) == set(expected["passing_tests"]))


def _verdict(runtime: Path, files: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """What the runner signed; without tests when it signed nothing."""
    scratch = _scratch()
    nonce = secrets.token_bytes(NONCE_BYTES)
    request = {
        "conditions": expected["conditions"],
        "environment": dict(os.environ),  # noqa: TID251 - it runs where tests run, not where settings are read
        "files": {str(path.relative_to(files)): _text(path) for path in sorted(files.rglob("*")) if path.is_file()},
        "scratch": str(scratch),
        "workdir": os.getcwd(),
    }
    body = json.dumps(request).encode()
    try:
        answer, fault = _run(runtime, nonce + len(body).to_bytes(8, "big") + body, float(expected["timeout_s"]))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    mac, _, signed = answer.removesuffix(b"\n").partition(b" ")
    if not hmac.compare_digest(mac, hmac.new(nonce, signed, hashlib.sha256).hexdigest().encode()):
        return {"complete": False, "exit_code": None, "fault": fault or "the verifier signed nothing", "tests": []}
    verdict: dict[str, Any] = json.loads(signed)
    return verdict


def _run(runtime: Path, request: bytes, timeout_s: float) -> tuple[bytes, str]:
    """Answer of the launcher, and what went wrong with it."""
    with subprocess.Popen(
        [str(runtime / "bin" / "launch")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            return process.communicate(request, timeout=timeout_s)[0], ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return b"", f"the verifier gave no verdict within {timeout_s:g} s"


def _text(path: Path) -> str:
    return path.read_bytes().decode()


def _scratch() -> Path:
    """An empty folder of a name that nobody can know. Programs under test may be copied there, so not /dev/shm."""
    try:
        return Path(tempfile.mkdtemp(prefix=secrets.token_hex(16), dir="/"))
    except OSError:
        return Path(tempfile.mkdtemp())


def _write(path: Path, value: object) -> None:
    """In one step: a reader sees all of it or the file that was there before."""
    part = path.with_name(f".{secrets.token_hex(16)}")
    part.write_text(json.dumps(value) + "\n", encoding="utf-8")
    part.replace(path)


def main(arguments: list[str]) -> int:
    """`RUNTIME TESTS OUT`: judge once. Harbor ignores the exit code."""
    runtime, tests, out = map(Path, arguments)
    _write(out / "reward.json", {"reward": 0})
    passed = judge(runtime, tests, out)
    _write(out / "reward.json", {"reward": int(passed)})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
