"""The agent that answers with one command per turn: what it reads out of every kind of answer, and what it sends."""

from __future__ import annotations

import pytest

from pipeline.agents.bash import CUT_COMMAND, NO_COMMAND, BashAgent
from pipeline.agents.bash_answers import read
from pipeline.agents.calling import prompt_sha256
from pipeline.agents.protocol import ContextFull
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.prompts import fenced
from pipeline.types import TaskInstance
from tests.unit.recorded_clients import Acting, RecordedModel, alternates, said

LS = "ls -la\nwc -l words.txt"
README = "cat > README.md <<'EOF'\n# Title\n\n```python\nprint(1)\n```\n\nand\n\n```\nmore\n```\nEOF\nls"


def quoted(text: str) -> str:
    return "".join(f"> {line}" for line in text.splitlines(keepends=True))


def indented(text: str) -> str:
    return "".join(f"   {line}" for line in text.splitlines(keepends=True))


FENCES = {
    "bash": f"```bash\n{LS}\n```",
    "sh": f"```sh\n{LS}\n```\n",
    "shell": f"```shell\n{LS}\n```",
    "zsh": f"```zsh\n{LS}\n```",
    "upper case": f"```Bash\n{LS}\n```",
    "blank before the language": f"``` bash\n{LS}\n```",
    "attributes": f'```bash title="step" {{.numberLines}}\n{LS}\n```',
    "braces": f"```{{.bash}}\n{LS}\n```",
    "no language": f"```\n{LS}\n```",
    "tildes": f"~~~bash\n{LS}\n~~~",
    "four backticks": f"````bash\n{LS}\n````",
    "never closed": f"Next:\n```bash\n{LS}",
    "carriage returns": f"```bash\r\n{LS}\r\n```\r\n".replace("la\n", "la\r\n"),
    "in a list": "1. Look:\n\n" + indented(f"```bash\n{LS}\n```\n"),
    "in a quote": quoted(f"```bash\n{LS}\n```\n"),
    "prompts": "```console\n$ ls -la\n$ wc -l words.txt\n```",
    "prompts in a block of bash": "```bash\n$ ls -la\n$ wc -l words.txt\n```",
    "printed lines that were guessed": "```console\n$ ls -la\ntotal 8\n$ wc -l words.txt\n12 words.txt\n```",
    "blank lines around": f"```bash\n\n\n{LS}\n\n```",
    "a thought aloud": f"<think>```bash\nrm -r /\n```</think>\n```bash\n{LS}\n```",
    "only the end of a thought": f"I could ```bash\nrm -r /\n```\n</think>\n\n```bash\n{LS}\n```",
    "a guess behind": f"```bash\n{LS}\n```\nIt prints:\n```\n12\n```\n```bash\nrm -r /\n```\nDONE",
    "another language first": f"```python\nprint(1)\n```\n```bash\n{LS}\n```",
    "a quoted output first": f"It said:\n```\nno such file\n```\nso\n```bash\n{LS}\n```",
    "an empty block first": f"```bash\n```\n```bash\n{LS}\n```",
    "done behind the commands": f"```bash\n{LS}\nDONE\n```",
}


@pytest.mark.parametrize("name", FENCES)
def test_the_command_is_found_however_it_is_fenced(name: str) -> None:
    _, command, done = read(FENCES[name])
    assert (command, done) == (LS, False)


HEREDOCS = {
    "fences in it": README,
    "a fence without language first": "cat > f <<EOF\n```\ncode\n```\nEOF",
    "dash and tabs": "cat > f <<-END\n\t```\n\tcode\n\t```\n\tEND",
    "double quotes": 'cat > f <<"A B"\n```\nA B',
    "prompts that are its text": "cat > session.txt <<'EOF'\n$ ls\n$ pwd\nEOF",
    "an end that is called DONE": "cat > f <<DONE\nx\nDONE",
    "two of them": "paste <(cat <<A) <(cat <<B)\nx\nA\ny\nB",
}


@pytest.mark.parametrize("name", HEREDOCS)
@pytest.mark.parametrize("closed", [True, False])
def test_a_heredoc_is_whole_whatever_its_text_looks_like(name: str, closed: bool) -> None:
    end = "\n```\n\nThen I look." if closed else ""
    _, command, _ = read(f"I write it.\n\n```bash\n{HEREDOCS[name]}{end}")
    assert command == HEREDOCS[name]


@pytest.mark.parametrize("shift", ["echo $((1<<A))", "cat <<< DONE", "# see <<EOF"])
def test_what_only_looks_like_a_heredoc_does_not_swallow_the_rest_of_the_answer(shift: str) -> None:
    assert read(f"```bash\n{shift}\n```\nIt prints.\n")[1] == shift


DONES = {
    "alone": "DONE",
    "a full stop": "DONE.",
    "bold": "All is there.\n\n**DONE**",
    "heading": "# DONE",
    "in a block": "It works.\n```bash\nDONE\n```",
    "in a block without language": "```\nDONE\n```",
    "in a block of text": "```text\nDONE\n```",
    "after a thought": "<think>Is it?</think>\nDONE",
    "after the end of a thought": "Is it?\n</think>\nDONE",
    "beside code of another language": "The file is\n```python\nx = 1\n```\nDONE",
}


@pytest.mark.parametrize("name", DONES)
def test_a_hand_in_is_seen(name: str) -> None:
    _, command, done = read(DONES[name])
    assert (command, done) == (None, True)


NOTHING = {
    "empty": "",
    "blank": " \n\n\t",
    "prose": "I would list the files first.",
    "empty block": "```bash\n```",
    "another language": "```python\nprint(1)\n```",
    "done in code of another language": "```python\n# DONE\nprint(1)\n```",
    "done in a sentence": "I am not DONE yet.",
    "done in a thought": "<think>\nDONE\n</think>",
    "a thought that never ends": "<think>```bash\nls\n```",
    "part of a word": "UNDONE",
    "an object": '{"command": "ls"}',
}


@pytest.mark.parametrize("name", NOTHING)
def test_an_answer_without_a_command_is_neither_command_nor_hand_in(name: str) -> None:
    assert read(NOTHING[name])[1:] == (None, False)


BARE = {
    "a line": ("ls -la /work", "ls -la /work"),
    "a span": ("`cat notes.txt | sort`", "cat notes.txt | sort"),
    "a heredoc": ("cat > x <<'EOF'\nfind the file.\nDONE\nEOF", "cat > x <<'EOF'\nfind the file.\nDONE\nEOF"),
    "a program of the task": ("./run.sh --all", "./run.sh --all"),
    "behind it the hand-in": ("wc -l < a > b\nDONE", "wc -l < a > b"),
}


@pytest.mark.parametrize("name", BARE)
def test_an_answer_that_is_nothing_but_a_command_needs_no_block(name: str) -> None:
    answer, command = BARE[name]
    assert read(answer) == ("", command, False)


@pytest.mark.parametrize(
    "answer",
    [
        "find the file and print it.",
        "Make sure that it is there first:",
        "exit code 2",
        "I use `ls`",
        "make sure everything is there, then go on.",
    ],
)
def test_a_sentence_is_no_command_though_it_begins_with_the_name_of_one(answer: str) -> None:
    assert read(answer)[1] is None


def test_a_variable_of_that_name_is_a_command() -> None:
    assert read("```bash\necho $DONE\nDONE=1\n```")[1] == "echo $DONE\nDONE=1"


@pytest.mark.parametrize(
    "text", ["\n" * 20_000, "*" * 20_000, "[" * 5_000, "`" * 20_000, "<<A\n" * 5_000, "```\n" * 5_000]
)
def test_a_degenerate_answer_is_read_at_once(text: str) -> None:
    # Quadratic patterns took minutes here.
    assert read(text)[2] is False


def agent(model: RecordedModel) -> BashAgent:
    return BashAgent(model, Sampling(temperature=0.5, seed=3))


def acting(task: TaskInstance, model: RecordedModel, output: str = "out") -> Acting:
    return Acting(task, agent(model), lambda _: StepOutcome(observation=output, exit_code=0, seconds=0.1))


def test_an_answer_without_a_command_is_told_so_and_cut_ones_why(task: TaskInstance) -> None:
    turns = acting(task, RecordedModel("Hm.", said("```python\nx", finish_reason="length"), "DONE"))
    first, second, third = turns.turn(), turns.turn(), turns.turn()
    assert (first.extra["told"], first.thought) == (NO_COMMAND, "Hm.")
    assert second.extra["told"].startswith(NO_COMMAND) and "cut off" in second.extra["told"]
    assert turns.submitted and "told" not in third.extra


@pytest.mark.parametrize("tail", ["", "\n", "\n``", " \\"])
def test_half_a_command_is_not_run(task: TaskInstance, tail: str) -> None:
    cut = said(f"I tidy up.\n```bash\nrm -r /work{tail}", finish_reason="length")
    turns = acting(task, RecordedModel(cut))
    assert (turns.turn().action, turns.history[0].extra["told"]) == ("", CUT_COMMAND)
    turns.turn()
    assert alternates(turns.conversation())


@pytest.mark.parametrize("tail", ["\n```", "\n```\n", "\n```\nThis prints"])
def test_a_command_before_the_cut_is_run(task: TaskInstance, tail: str) -> None:
    assert acting(task, RecordedModel(said(f"```bash\nls{tail}", finish_reason="length"))).turn().action == "ls"


def test_a_command_whose_fence_was_a_stop_word_is_run(task: TaskInstance) -> None:
    assert acting(task, RecordedModel("```bash\nls\n")).turn().action == "ls"


def test_half_a_character_of_an_answer_is_replaced(task: TaskInstance) -> None:
    step = acting(task, RecordedModel("```bash\necho \ud83d\n```")).turn()
    assert step.action == "echo \ufffd"
    assert step.extra["calls"][0]["answer"] == "```bash\necho \ufffd\n```"


def test_each_decision_says_what_was_asked_and_what_it_cost(task: TaskInstance) -> None:
    model = RecordedModel("```bash\nls\n```")
    (call,) = acting(task, model).turn().extra["calls"]
    assert call["prompt_sha256"] == prompt_sha256(model.asked[0])
    assert (call["prompt_tokens"], call["completion_tokens"], call["seconds"]) == (10, 2, 1.0)


def test_the_conversation_is_what_was_sent_last_and_its_answer(task: TaskInstance) -> None:
    model = RecordedModel("Look.\n```bash\nls\n```\nguess", "Hm.", "```bash\n" + README + "\n```", "DONE")
    turns = acting(task, model)
    for _ in range(4):
        turns.turn()
        chat = turns.conversation()
        assert chat[:-1] == [(one.role, one.content) for one in model.asked[-1]]
        assert alternates(chat) and chat[-1][0] == "assistant"
    assert chat[1][1] == "Look.\n\n```bash\nls\n```"
    assert chat[-1][1] == "DONE"
    assert task.instruction in chat[0][1]


@pytest.mark.parametrize("command", [README, "echo '```'", "cat <<E\n~~~\nE", "x='\n````\n'", "printf '$ x'"])
def test_a_command_as_it_is_shown_again_is_the_same_command(task: TaskInstance, command: str) -> None:
    turns = acting(task, RecordedModel(fenced(command, "bash")))
    assert turns.turn().action == command
    assert read(turns.conversation()[-1][1])[1] == command


def test_beginnings_of_the_conversation_stay_so_that_the_server_knows_them(task: TaskInstance) -> None:
    model = RecordedModel("```bash\nls\n```")
    turns = acting(task, model)
    for _ in range(4):
        turns.turn()
    for shorter, longer in zip(model.asked, model.asked[1:], strict=False):
        assert longer[: len(shorter)] == shorter


class TestFullContext:
    """What is sent of a conversation with long outputs to models of less and less context."""

    def last(self, task: TaskInstance, context: int, turns: int = 6) -> tuple[RecordedModel, Acting]:
        model = RecordedModel("```bash\nls\n```")
        attempt = acting(task, model, "head " + "x" * 6_000 + " tail")
        for _ in range(turns):
            attempt.turn()
        model.context = context
        attempt.turn()
        return model, attempt

    @pytest.mark.parametrize("context", [16_000, 14_000, 5_000, 2_000])
    def test_something_shorter_is_sent_that_alternates_and_is_the_recorded_one(
        self, task: TaskInstance, context: int
    ) -> None:
        model, attempt = self.last(task, context)
        messages = model.asked[-1]
        assert sum(len(one.content) for one in messages) <= context
        assert alternates(messages) and messages[-1].role == "user"
        assert task.instruction in messages[0].content
        assert attempt.conversation()[:-1] == [(one.role, one.content) for one in messages]
        assert attempt.history[-1].extra["calls"][-1]["prompt_sha256"] == prompt_sha256(messages)

    def test_the_newest_output_is_the_last_to_be_cut(self, task: TaskInstance) -> None:
        model, _ = self.last(task, 16_000)
        cut = [len(one.content) < 2_000 for one in model.asked[-1] if one.role == "user"]
        assert cut == [True] * 5 + [False] * 2

    def test_all_of_it_is_sent_again_when_there_is_room(self, task: TaskInstance) -> None:
        model, attempt = self.last(task, 14_000)
        model.context = None
        attempt.turn()
        assert sum(len(one.content) for one in model.asked[-1]) > 7 * 6_000

    def test_nothing_that_fits_ends_the_attempt(self, task: TaskInstance) -> None:
        with pytest.raises(ContextFull, match="characters"):
            self.last(task, 100)

    def test_the_same_messages_are_not_sent_twice(self, task: TaskInstance) -> None:
        model = RecordedModel("DONE", context=10)
        with pytest.raises(ContextFull):
            acting(task, model).turn()
        assert len(model.refused) == 1


def test_what_a_model_wrote_is_never_an_instruction_of_ours(task: TaskInstance) -> None:
    poisoned = task.model_copy(update={"instruction": "{{status}} {{output}} {{instruction}}"})
    model = RecordedModel("```bash\nls\n```")
    turns = acting(poisoned, model, "{{may_end}}")
    turns.turn()
    turns.turn()
    assert "{{status}} {{output}} {{instruction}}" in model.asked[-1][0].content
    assert "{{may_end}}" in model.asked[-1][-1].content


def test_the_history_alone_decides_what_is_sent(task: TaskInstance) -> None:
    model = RecordedModel("```bash\nls\n```")
    turns = acting(task, model)
    turns.turn()
    one = agent(model).act(task, turns.history, "out")
    two = agent(model).act(task, turns.history, "out")
    assert one.calls[0].prompt_sha256 == two.calls[0].prompt_sha256
    assert model.asked[-1] == model.asked[-2]
