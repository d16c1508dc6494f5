"""An agent that answers with one command per turn, in a block of Markdown, and sees its output and exit code.

An answer without a command is told so and costs a turn. What the model reads is in bash_chat.py, how its answers are
understood in bash_answers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.bash_answers import read
from pipeline.agents.bash_chat import PROMPTS, ended, said, shorter_and_shorter
from pipeline.agents.calling import ask, sent
from pipeline.agents.modelled import ModelledAgent
from pipeline.types import Action, Interface, Step, TaskInstance

NO_COMMAND = (
    "[no command] Your answer has no ```bash block. Answer with one block that holds the next command, or with the "
    "single word DONE when the task is done."
)

CUT_COMMAND = "[no command] Your answer was cut off within its command, which was not run: be shorter."


class BashAgent(ModelledAgent):
    """One model with one way of sampling."""

    name = "bash"
    interface: Interface = "shell"
    prompts = PROMPTS

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        completion, call = ask(self._model, shorter_and_shorter(task, history, observation), self._sampling)
        thought, command, done = read(completion.text)
        if command is not None and completion.finish_reason == "length" and read(f"{completion.text}\n.")[1] != command:
            # Half a command may do what the whole one would not: `rm -r /work/old` and `rm -r /work`.
            return Action(thought=thought, told=CUT_COMMAND, calls=(call,))
        if command is not None:
            return Action(thought=thought, command=command, calls=(call,))
        if done:
            return Action(thought=thought, calls=(call,))
        cut = " It was cut off: be shorter." if completion.finish_reason == "length" else ""
        return Action(thought=thought, told=NO_COMMAND + cut, calls=(call,))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        if not history:
            return ()
        last = history[-1]
        return ended(sent(shorter_and_shorter(task, history[:-1], last.observation), last), said(last))
