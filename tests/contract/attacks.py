"""What the attack suites share: an agent's commands carried out in a sandbox, and what a verifier then says.

Everything goes through the contract of a backend (sandbox/protocol.py). A mark is a file in /dev/shm, which no frozen
state keeps: planted code makes one, so that a mark in the sandbox proves that the trap works, and a mark in front of
the verifier that it fell into it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pipeline.verdict import verdict
from sandbox.errors import VerifierBroken
from sandbox.protocol import Backend, Sandbox
from sandbox.types import FrozenState, Limits

LIMITS = Limits(memory_mb=512, pids=128, lifetime_s=300)
MARKS = "/dev/shm"
DONE = "echo done > /answer"
# What every task of these suites asks for. A state in which nothing was done fails it.
ANSWER = "from pathlib import Path\ndef test_answer():\n    assert Path('/answer').read_text() == 'done\\n'\n"


@dataclass
class Stage:
    """Sandboxes of one image on one backend; every state is discarded when the stack is closed."""

    backend: Backend
    image: str
    stack: ExitStack
    limits: Limits = LIMITS
    marks: list[str] = field(default_factory=list)
    """Names of the marks that planted code had made in the sandbox before it was frozen."""

    def acted(
        self, commands: Sequence[str], *, files: dict[str, bytes] | None = None, timeout_s: float = 60
    ) -> FrozenState:
        """The state that commands leave. How they end is the agent's affair: here they may even hang."""
        return self._frozen(self.backend.start(self.image, self.limits), commands, files or {}, timeout_s)

    def acted_on(self, state: FrozenState, commands: Sequence[str]) -> FrozenState:
        """The state that further commands make of an earlier one."""
        return self._frozen(self.backend.restore(state, self.limits), commands, {}, 60)

    def outcomes(self, state: FrozenState, text: str, *, timeout_s: float = 60) -> dict[str, str]:
        """What became of each test. Raises VerifierBroken."""
        judgement = self.backend.judge(state, {"test_it.py": text}, limits=self.limits, timeout_s=timeout_s)
        return {one.test_id.removeprefix("test_it.py::"): one.outcome for one in judgement.tests}

    def verdict(self, state: FrozenState, text: str, *expected: str, timeout_s: float = 60) -> str:
        """`passed`, `failed`, or `error` where no verdict may be drawn."""
        try:
            judgement = self.backend.judge(state, {"test_it.py": text}, limits=self.limits, timeout_s=timeout_s)
            return verdict(judgement.tests, [f"test_it.py::{name}" for name in expected])
        except VerifierBroken:
            return "error"

    def _frozen(
        self, sandbox: Sandbox, commands: Sequence[str], files: dict[str, bytes], timeout_s: float
    ) -> FrozenState:
        reference = f"attack-{uuid.uuid4().hex}"
        try:
            if files:
                sandbox.put(files, mode=0o755)
            for command in commands:
                sandbox.execute(command, timeout_s=timeout_s)
            self.marks += sandbox.execute(f"cd {MARKS} && echo *", timeout_s=20).output.split()
            self.stack.callback(self.backend.discard, reference)
            return sandbox.freeze(reference)
        finally:
            sandbox.close()


def no_mark_tests(names: Sequence[str]) -> str:
    """The text of one test per name that fails when the mark of that name is there."""
    return "".join(f"def test_no_mark_{name}():\n    assert not Path('{MARKS}/{name}').exists()\n" for name in names)


def library(name: str) -> str:
    """A command that builds /traps/NAME.so, a library that makes the mark NAME wherever it is loaded."""
    source = (
        "#include <fcntl.h>\\n#include <unistd.h>\\n"
        f'__attribute__((constructor)) static void f(void) {{ close(open("{MARKS}/{name}", 65, 438)); }}\\n'
    )
    return f"mkdir -p /traps; printf '{source}' | gcc -shared -fPIC -o /traps/{name}.so -x c -"
