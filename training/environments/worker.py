"""The process in which a game is played: questions as lines of JSON on standard input, answers on a pipe of their own.

    python -m training.environments.worker NAME [MATERIAL]

What the packages of games print goes to standard error, for an answer must be nothing but an answer. When the asker is
gone, the whole process group ends, and a JVM with it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from training.environments.game import Game
from training.environments.registry import make

GRACE_S = 2.0
"""How long a game may take to close when the asker is gone, s."""

Answer = Mapping[str, Any]


def main(name: str, material: Path | None = None) -> None:
    """Answer until standard input ends."""
    answers = _own_output()
    questions: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    try:
        game = make(name, material)
    except Exception as error:  # noqa: BLE001 - told to the asker, who raises it
        _tell(answers, _error(error))
        return
    _tell(answers, {"ready": True})
    try:
        while (line := questions.get()) is not None:
            _tell(answers, _answer(game, json.loads(line)))
    finally:
        game.close()


def _own_output() -> TextIO:
    """What standard output was; from now on all that is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _listen(questions: queue.Queue[str | None]) -> None:
    for line in sys.stdin:
        questions.put(line)
    questions.put(None)
    # A game that is in the middle of something, or hangs, must not outlive its asker.
    threading.Event().wait(GRACE_S)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _tell(answers: TextIO, answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _answer(game: Game, question: Mapping[str, Any]) -> Answer:
    asked: Mapping[str, Callable[[], Any]] = {
        "start": lambda: game.start(question["task_type"], question["variation"]).model_dump(),
        "act": lambda: game.act(question["action"]).model_dump(),
        "gold": lambda: list(game.gold()),
        "admissible": game.admissible,
    }
    try:
        return {"value": asked[question["ask"]]()}
    except Exception as error:  # noqa: BLE001 - told to the asker, who raises it
        return _error(error)


def _error(error: Exception) -> Answer:
    last = traceback.extract_tb(error.__traceback__)[-1]
    kind = "configuration" if type(error).__name__ == "ConfigurationError" else type(error).__name__
    return {"error": kind, "text": str(error), "place": f"{os.path.basename(last.filename)}:{last.lineno}"}


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
