"""What backends promise (sandbox/protocol.py) for images that are not like our own."""

from __future__ import annotations

import uuid

import pytest

from sandbox.building.images import ImageBuilder
from sandbox.errors import ImageUnusable
from sandbox.protocol import Backend, Sandbox
from sandbox.types import BuildLimits, ImageSpec, Limits

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)


def run(sandbox: Sandbox, command: str) -> str:
    """Output of a command that succeeds."""
    result = sandbox.execute(command, timeout_s=20)
    assert result.exit_code == 0, result
    return result.output


def build(builder: ImageBuilder, lines: str) -> str:
    spec = ImageSpec(name="contract", dockerfile=f"FROM {builder._bases.config.base_image}\n{lines}")
    made = builder.build(spec, BuildLimits(timeout_s=60))
    assert made.digest is not None, made
    return made.digest


def test_an_entrypoint_that_ends_a_user_and_a_folder_do_not_hinder(backend: Backend, builder: ImageBuilder) -> None:
    digest = build(
        builder,
        'RUN useradd -m worker\nUSER worker\nWORKDIR /home/worker\nENV GREETING=hello\nENTRYPOINT ["false"]\n',
    )
    sandbox = backend.start(digest, LIMITS)
    try:
        assert run(sandbox, "id -un; pwd; echo $HOME $GREETING") == "worker\n/home/worker\n/home/worker hello\n"
        state = sandbox.freeze(f"test-{uuid.uuid4().hex}")
    finally:
        sandbox.close()
    text = "import os\ndef test_it(): assert (os.getcwd(), os.environ['GREETING']) == ('/home/worker', 'hello')\n"
    assert backend.judge(state, {"test_it.py": text}, limits=LIMITS, timeout_s=30).tests[0].outcome == "passed"
    backend.discard(state.reference)


def test_attack_a_state_without_the_account_of_its_image_is_judged(backend: Backend, builder: ImageBuilder) -> None:
    digest = build(builder, "RUN useradd -m worker\nUSER worker\n")
    sandbox = backend.start(digest, LIMITS)
    try:
        sandbox.put({"/etc/passwd": b"root:x:0:0::/:/bin/sh\n", "/etc/group": b""})
        state = sandbox.freeze(f"test-{uuid.uuid4().hex}")
    finally:
        sandbox.close()
    text = "import os\ndef test_it(): assert os.getuid() == 1000\n"
    assert backend.judge(state, {"test_it.py": text}, limits=LIMITS, timeout_s=30).tests[0].outcome == "passed"
    backend.discard(state.reference)


@pytest.mark.parametrize("lines", ["RUN rm /bin/sleep", "RUN rm /bin/bash /bin/sh /bin/dash"], ids=["sleep", "shell"])
def test_an_image_that_cannot_hold_a_sandbox_is_said_to_be_unusable(
    backend: Backend, builder: ImageBuilder, lines: str
) -> None:
    digest = build(builder, lines)
    with pytest.raises(ImageUnusable, match=r"sleep|sh"):
        backend.start(digest, LIMITS).execute("true", timeout_s=20)


def test_without_bash_commands_run_in_sh(backend: Backend, builder: ImageBuilder) -> None:
    sandbox = backend.start(build(builder, "RUN rm /bin/bash"), LIMITS)
    assert run(sandbox, 'echo "[$BASH_VERSION]"') == "[]\n"
    sandbox.close()
