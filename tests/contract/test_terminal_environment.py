"""An attempt by keys, with real programs: what is seen, what is recorded, and that it can be replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from pipeline.agents.terminus import CONFIRM, TerminusAgent
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.rollout import RolloutConfig, rollout
from pipeline.terminal_environment import BATCH, MOST_SEEN, Keystrokes, TerminalEnvironment
from pipeline.types import TaskInstance, Trajectory, Verifier, VerifierFile
from pipeline.verification import STATE_REGAINED, replay, verify
from sandbox.building.base_images import BaseImageConfig
from sandbox.building.images import ImageBuilder
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend
from sandbox.streams import Deadline
from sandbox.types import BuildLimits, ImageSpec, Limits
from tests.unit.recorded_clients import RecordedModel

pytestmark = pytest.mark.docker

# The image of test_terminal.py, so that it is built once.
PROGRAMS = f"""FROM {BaseImageConfig().base_image}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq less python3-minimal vim-tiny > /dev/null && apt-get clean
WORKDIR /work
"""
ENOUGH_S = 20.0
TEXT = 'def test_note(box):\n    assert box.text("/work/note.txt") == "hello from vi\\n"\n'


Typed = Callable[..., StepOutcome]


@pytest.fixture(scope="module")
def instance(builder: ImageBuilder) -> TaskInstance:
    """A task in an image with an editor, a pager and an interpreter."""
    build = builder.build(ImageSpec(name="test-terminal", dockerfile=PROGRAMS), BuildLimits(timeout_s=300))
    assert build.digest is not None, build
    return TaskInstance(
        repository_id="repo-1",
        image_digest=build.digest,
        instruction="Write hello from vi to note.txt.",
        solution=("echo hello from vi > note.txt",),
        verifier=Verifier(
            files=(VerifierFile(path="test_state.py", content=TEXT),), passing_tests=("test_state.py::test_note",)
        ),
        generator="test",
        language="shell",
        family="created_file",
        difficulty="easy",
        limits=Limits(memory_mb=512, lifetime_s=300),
        provenance={},
    )


@pytest.fixture(scope="module")
def environment(instance: TaskInstance, backend: Backend) -> Iterator[TerminalEnvironment]:
    """One for all tests that leave it at a prompt."""
    with TerminalEnvironment(instance, backend) as environment:
        assert environment.reset().startswith("Current Terminal Screen:\n")
        yield environment


@pytest.fixture
def own(instance: TaskInstance, backend: Backend) -> Iterator[TerminalEnvironment]:
    """One of its own for a test that harms it."""
    with TerminalEnvironment(instance, backend) as environment:
        environment.reset()
        yield environment


@pytest.fixture
def type_keys(environment: TerminalEnvironment) -> Typed:
    """Types one text after the other; each is waited for as long as the last parameter says."""

    def typed(*keystrokes: str, duration: float = ENOUGH_S) -> StepOutcome:
        return environment.step(batch(*keystrokes, duration=duration))

    typed("C-c")
    return typed


def batch(*keystrokes: str, duration: float = ENOUGH_S) -> str:
    return BATCH.dump_json(tuple(Keystrokes(keystrokes=one, duration=duration) for one in keystrokes)).decode()


def until(type_keys: Typed, text: str, *first: str) -> str:
    """What was seen once it holds `text`, or when there was time enough: an agent looks again too."""
    clock = Deadline(ENOUGH_S)
    seen = type_keys(*(first or ("",)), duration=0.5).observation
    while text not in seen and clock.left > 0:
        seen += type_keys("", duration=0.5).observation
    return seen


class TestObservations:
    def test_new_output_of_a_command_with_its_exit_code(self, type_keys: Typed) -> None:
        outcome = type_keys("echo o'n'e; (exit 3)\n")
        assert outcome.observation.startswith("New Terminal Output:\n") and "\none\n" in outcome.observation
        assert (outcome.exit_code, outcome.extra) == (3, {"terminal": "done"})
        second = type_keys("echo two\n")
        assert "one" not in second.observation and second.exit_code == 0

    def test_nothing_new_is_the_screen(self, type_keys: Typed) -> None:
        type_keys("echo o'n'e\n")
        assert type_keys("", duration=0.2).observation.startswith("Current Terminal Screen:\n")
        assert "\none\n" in type_keys("", duration=0.2).observation

    def test_no_keys_at_all_are_a_look(self, environment: TerminalEnvironment) -> None:
        outcome = environment.step("[]")
        assert (outcome.exit_code, outcome.extra) == (None, {})
        assert outcome.observation.startswith("Current Terminal Screen:\n")

    def test_long_output_is_cut_in_the_middle(self, type_keys: Typed) -> None:
        seen = type_keys("seq 100000\n").observation
        assert "\n2\n3\n" in seen and "\n99999\n100000\n" in seen and "bytes left out" in seen
        assert len(seen.encode()) < MOST_SEEN + 200

    def test_a_heredoc_with_fences_arrives_as_it_is(self, type_keys: Typed, environment: TerminalEnvironment) -> None:
        text = "# a\n```\n  $HOME `x` \\\\ \t 日本語\n```\n"
        assert type_keys(f"cat > f.md <<'EOF'\n{text.replace(chr(9), ' ')}EOF\n").extra == {"terminal": "done"}
        assert environment.sandbox.get("/work/f.md", max_bytes=1000) == text.replace(chr(9), " ").encode()

    def test_an_open_heredoc_waits_for_the_rest(self, type_keys: Typed) -> None:
        assert type_keys("cat > g <<EOF\n", "x\n").extra == {"terminal": "continuation"}
        outcome = type_keys("EOF\n", "cat g\n")
        assert "\nx\n" in outcome.observation and outcome.exit_code == 0

    def test_a_long_command_is_looked_at_again(self, type_keys: Typed) -> None:
        first = type_keys("sleep 2; echo e'n'd\n", duration=0.3)
        assert "end" not in first.observation and first.exit_code is None
        assert "\nend\n" in until(type_keys, "\nend\n")

    def test_a_command_is_interrupted(self, type_keys: Typed) -> None:
        type_keys("sleep 1000\n", duration=0.3)
        outcome = type_keys("C-c")
        assert (outcome.exit_code, outcome.extra) == (130, {"terminal": "done"})
        assert type_keys("echo a'b'c\n").observation.count("abc") == 1

    def test_waiting_ends_when_the_prompt_is_there(self, type_keys: Typed) -> None:
        assert type_keys("true\n", duration=50).seconds < 50

    def test_a_repl_answers(self, type_keys: Typed) -> None:
        assert ">>>" in until(type_keys, ">>>", "python3 -q\n")
        assert "\n1267650600228229401496703205376\n" in until(type_keys, "205376\n", "2 ** 100\n")
        assert type_keys("C-d").extra == {"terminal": "done"}

    def test_a_password_prompt_and_its_silence(self, type_keys: Typed) -> None:
        assert "Secret: " in until(type_keys, "Secret: ", "read -s -p 'Secret: ' s\n")
        outcome = type_keys("hush\n", "echo ${#s}\n")
        assert "\n4\n" in outcome.observation and "hush" not in outcome.observation


class TestFullScreen:
    def test_vi_is_seen_as_a_screen_and_saves(self, type_keys: Typed, environment: TerminalEnvironment) -> None:
        assert "\n~\n" in until(type_keys, "\n~\n", "vi note.txt\n")
        seen = until(type_keys, "hello from vi", "i", "hello from vi", "Escape")
        assert "Current Terminal Screen:\nhello from vi\n~" in seen
        assert type_keys(":wq\n").extra == {"terminal": "done"}
        assert environment.sandbox.get("/work/note.txt", max_bytes=100) == b"hello from vi\n"

    def test_less_scrolls_and_quits(self, type_keys: Typed) -> None:
        seen = until(type_keys, "\n39\n", "seq 100 | less\n")
        assert "Current Terminal Screen:\n1\n2\n" in seen
        assert "Current Terminal Screen:\n" in until(type_keys, "\n100\n", "G")
        assert type_keys("q").extra == {"terminal": "done"}


class TestMisuse:
    def test_misuse_the_shell_is_ended_and_the_next_keys_go_to_a_new_one(self, type_keys: Typed) -> None:
        outcome = type_keys("cd /; exit 3\n", "echo never\n")
        assert outcome.extra == {"terminal": "shell_exited"}
        assert "the last 1 of 2 keystrokes were not typed" in outcome.observation
        assert "the next keys go to a new one" in outcome.observation
        seen = type_keys("pwd\n")
        assert "\n/work\n" in seen.observation and seen.exit_code == 0

    def test_misuse_the_shell_is_killed(self, type_keys: Typed) -> None:
        assert "go to a new one" in type_keys("kill -9 $$\n").observation
        assert type_keys("true\n").exit_code == 0

    def test_misuse_more_keys_than_a_terminal_takes(self, type_keys: Typed) -> None:
        outcome = type_keys("x" * 100_000, "echo after\n")
        assert "not typed, nor what came after: 100000 bytes" in outcome.observation
        assert type_keys("echo a'b'c\n").observation.count("abc") == 1

    def test_misuse_a_program_that_reads_nothing(self, own: TerminalEnvironment) -> None:
        # Signals are off, or the terminal would take C-c out of the keys.
        own.step(batch("stty -icanon -isig -echo; sleep 1000\n", duration=0.5))
        outcome = own.step(batch(*["y" * 60_000] * 30, duration=0.0))
        assert "not typed, nor what came after: the program reads nothing" in outcome.observation

    def test_misuse_keys_that_are_no_text(self, type_keys: Typed) -> None:
        outcome = type_keys("echo '\ud83d\x00'\n")
        assert outcome.extra == {"terminal": "done"} and "\ufffd" in outcome.observation
        type_keys("\x1b[99~\x1b]0;title\x07\x1b[Z", "C-c", duration=0.3)
        assert type_keys("echo a'b'c\n").observation.count("abc") == 1

    def test_misuse_names_of_keys_in_text_are_text(self, type_keys: Typed) -> None:
        outcome = type_keys("echo C-c Enter ^C\n")
        assert "\nC-c Enter ^C\n" in outcome.observation and outcome.exit_code == 0

    def test_misuse_a_flood(self, type_keys: Typed) -> None:
        seen = type_keys("yes\n", duration=1.0)
        assert len(seen.observation) < MOST_SEEN + 200 and seen.exit_code is None
        assert type_keys("C-c").extra == {"terminal": "done"}

    def test_misuse_a_batch_without_end(self, own: TerminalEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pipeline.terminal_environment.MAX_BATCH_S", 1.0)
        outcome = own.step(batch("sleep 1000\n", *[""] * 1000, duration=0.4))
        assert "of 1001 keystrokes were not typed" in outcome.observation
        assert outcome.seconds < 60


def test_a_sandbox_that_is_gone_is_no_observation(own: TerminalEnvironment) -> None:
    own.sandbox.close()
    with pytest.raises(SandboxUnavailable):
        own.step(batch("ls\n", duration=2.0))


def test_nothing_is_typed_before_the_first_reset(instance: TaskInstance, backend: Backend) -> None:
    with TerminalEnvironment(instance, backend) as environment, pytest.raises(RuntimeError, match="reset"):
        environment.step("[]")
    environment.close()


def reply(*keystrokes: str, complete: bool = False) -> str:
    commands = [{"keystrokes": one, "duration": 0.6} for one in keystrokes]
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete})


@pytest.fixture(scope="module")
def trajectory(instance: TaskInstance, backend: Backend) -> Iterator[Trajectory]:
    """An attempt that solves the task with an editor, and ends its shell on the way."""
    edit = reply("i", "hello from vi", "Escape", ":wq\n")
    model = RecordedModel(reply("vi note.txt\n"), edit, "Hm.", reply("exit\n"), reply(complete=True))
    with TerminalEnvironment(instance, backend) as environment:
        made = rollout(instance, TerminusAgent(model, Sampling()), environment, RolloutConfig(max_steps=9))
    yield made.model_copy(update={"backend": backend.name})
    backend.discard(made.state_reference)


def test_an_attempt_by_keys_is_judged_also_when_its_state_is_gone(
    instance: TaskInstance, backend: Backend, trajectory: Trajectory
) -> None:
    assert (trajectory.stop_reason, trajectory.interface, len(trajectory.steps)) == ("submitted", "terminal", 6)
    assert trajectory.steps[4].extra["told"] == CONFIRM
    found = verify(instance, trajectory, backend, command_timeout_s=60)
    assert (found.outcome, found.integrity) == ("passed", ())
    backend.discard(trajectory.state_reference)
    found = verify(instance, trajectory, backend, command_timeout_s=60)
    assert (found.outcome, found.integrity) == ("passed", (STATE_REGAINED,))


def test_the_same_keys_get_the_same_verdict_and_fewer_do_not(
    instance: TaskInstance, backend: Backend, trajectory: Trajectory
) -> None:
    again = replay(instance, trajectory, "passed", backend, command_timeout_s=60)
    assert again.same, again.reason
    less = trajectory.model_copy(update={"steps": trajectory.steps[:1]})
    again = replay(instance, less, "passed", backend, command_timeout_s=60)
    assert (again.replayed, again.same) == ("failed", False)
