"""The gate `no_answer_in_image`: neither the solution's text nor its result lies where the task begins.

The search itself, image_probe.py, runs over the untouched state in the trusted interpreter: so it works in every image.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pipeline.admission.outputs import Outputs
from pipeline.admission.pristine import Pristine
from pipeline.admission.records import Gate
from pipeline.types import TaskInstance
from sandbox.errors import VerifierBroken
from sandbox.protocol import Backend
from sandbox.types import Limits

GATE = "no_answer_in_image"
PROBE = Path(__file__).with_name("image_probe.py")
TIMEOUT_S = 120
MIN_ANSWER_BYTES = 16
MIN_COMMAND_CHARACTERS = 20
MIN_LINE_CHARACTERS = 60
MEMORY_MB = 2048
ABOUT_GIT = re.compile(r"\b(?:git|commits?|committed|branch(?:es)?|repository|repo)\b", re.IGNORECASE)


def image_gate(instance: TaskInstance, outputs: Outputs, named: set[str], pristine: Pristine, backend: Backend) -> Gate:
    """Search the untouched state. Raises SandboxUnavailable, ImageMissing.

    The commands of tasks of the world's repositories are documented there, for whoever looks: of these only results
    are searched. What a task about a repository of git asks for may be in that repository.
    """
    answers = _answers(outputs)
    lines = [file.content.strip() for file in instance.verifier.files]
    if instance.domain != "general":
        lines += _lines(instance.solution)
    about_git = ABOUT_GIT.search(instance.instruction) is not None
    wanted = {
        "answers": {path: [len(c.strip()), hashlib.sha256(c.strip()).hexdigest()] for path, c in answers.items()},
        "blobs": [] if about_git else [_blob(content) for content in answers.values()],
        "lines": lines,
        "named": sorted(named),
        "workdir": pristine.workdir,
    }
    text = PROBE.read_text(encoding="utf-8").replace(
        "WANTED: dict[str, Any] = {}", f"WANTED: dict[str, Any] = {wanted!r}"
    )
    limits = Limits(memory_mb=MEMORY_MB)
    try:
        judged = backend.judge(pristine.state, {"test_probe.py": text}, limits=limits, timeout_s=TIMEOUT_S)
    except VerifierBroken as error:
        return Gate(gate=GATE, passed=False, evidence=f"the search did not end: {str(error)[-300:]}")
    for test in judged.tests:
        if test.outcome != "passed":
            return Gate(gate=GATE, passed=False, evidence=test.message.removeprefix("AssertionError: ")[:400])
    evidence = f"none of {len(answers)} results and {len(lines)} texts is in the image"
    return Gate(gate=GATE, passed=True, evidence=evidence)


def _answers(outputs: Outputs) -> dict[str, bytes]:
    """Results that are long enough to be nobody else's."""
    contents = {one.path: outputs.contents[one.path] for one in outputs.answers}
    return {path: content for path, content in contents.items() if len(content.strip()) >= MIN_ANSWER_BYTES}


def _lines(solution: tuple[str, ...]) -> list[str]:
    """Commands, documents in them, and single lines, as far as they are long enough to be nobody else's."""
    found = {step.strip() for step in solution}
    for step in solution:
        head, marked, rest = step.partition("<<")
        body = rest.split("\n")[1:-1] if marked else []
        found.add("\n".join(body).strip())
        found |= {line.strip() for line in [*head.split("\n"), *body] if len(line.strip()) >= MIN_LINE_CHARACTERS}
    return sorted(text for text in found if len(text) >= MIN_COMMAND_CHARACTERS and " " in text)


def _blob(content: bytes) -> str:
    """The name by which git keeps a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
