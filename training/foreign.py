"""Reads trajectories that others made into conversations that can be learned from.

    FILE.json, FILE.jsonl   ShareGPT: records with `conversations` of `from` and `value`, or `messages` of `role` and
                            `content`; a list, or one in each line
    FOLDER                  such files, and ATIF documents, at any depth

Of an ATIF document the agent's steps are what the assistant said, its calls of tools in a block behind the text where
the text does not hold them already, and what they brought is the next message. Where our own export keeps the messages
themselves, these are taken. A record that is none of these is passed over and counted.

Not here: tokens (training/data.py), which refuses what a chat template cannot say.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.chat import ROLES
from pipeline.types import content_id
from training.learned_rows import LearnedRow

logger = logging.getLogger(__name__)

Message = dict[str, str]

_ROLE_OF = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "observation": "tool",
    "function_response": "tool",
    "tool": "tool",
}
_COMMANDS = ("command", "cmd", "keystrokes")
"""Arguments of a tool that are what a shell is told."""


class _Unusable(Exception):
    """Why a record is no conversation."""


def read_foreign(path: Path) -> Iterator[LearnedRow]:
    """The conversations of a file or folder, each once; the same ones have the same ids anywhere.

    Raises ConfigurationError for what is not there, is no JSON, or holds no conversation at all.
    """
    seen: set[str] = set()
    refused: Counter[str] = Counter()
    for record in _records(path):
        try:
            messages = _conversation(record)
        except _Unusable as error:
            refused[str(error)] += 1
            continue
        row = _row(messages, path.stem)
        if row.trajectory_id in seen:
            refused["it is there twice"] += 1
            continue
        seen.add(row.trajectory_id)
        yield row
    if refused:
        told = ", ".join(f"{count} since {reason}" for reason, count in refused.most_common())
        logger.warning("%s: %d conversations; passed over: %s", path.name, len(seen), told)
    if not seen:
        raise ConfigurationError(
            f"{path} has no conversation: ShareGPT as .json or .jsonl, or ATIF documents, are read"
        )


def _row(messages: list[Message], name: str) -> LearnedRow:
    identity = content_id("foreign", messages)
    instruction = next(message["content"] for message in messages if message["role"] == "user")
    return LearnedRow(identity, identity, name, instruction, name, name, "general", "", messages)


def _records(path: Path) -> Iterator[object]:
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix in {".json", ".jsonl"} and one.is_file())
    elif path.is_file():
        files = [path]
    else:
        raise ConfigurationError(f"{path} is not there; name a file or a folder of trajectories")
    for file in files:
        yield from _parsed(file)


def _parsed(file: Path) -> Iterator[object]:
    try:
        if file.suffix == ".jsonl":
            with file.open(encoding="utf-8") as lines:
                yield from (json.loads(line) for line in lines if line.strip())
            return
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read as JSON: {error}") from error
    yield from content if isinstance(content, list) else [content]


def _conversation(record: object) -> list[Message]:
    """Messages with an instruction and an answer. Raises _Unusable."""
    if not isinstance(record, Mapping):
        raise _Unusable("it is no object")
    if str(record.get("schema_version", "")).startswith("ATIF"):
        messages = _of_atif(record)
    elif isinstance(told := record.get("conversations", record.get("messages")), list):
        system = record.get("system")
        before = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
        messages = [*before, *(_of_sharegpt(one) for one in told)]
    else:
        raise _Unusable("it has no conversation")
    roles = [message["role"] for message in messages]
    if "assistant" not in roles:
        raise _Unusable("nobody answers in it")
    if "user" not in roles[: roles.index("assistant")]:
        raise _Unusable("it has no instruction")
    return messages


def _of_sharegpt(message: object) -> Message:
    if not isinstance(message, Mapping):
        raise _Unusable("a message of it is no object")
    role = _ROLE_OF.get(str(message.get("from", message.get("role"))))
    content = message.get("value", message.get("content"))
    if role is None:
        raise _Unusable("a message of it is of an unknown role")
    if not isinstance(content, str):
        raise _Unusable("a message of it has no text")
    return {"role": role, "content": content}


def _of_atif(document: Mapping[str, object]) -> list[Message]:
    extra = document.get("extra")
    if isinstance(extra, Mapping) and isinstance(kept := extra.get("messages"), list) and kept:
        messages = [_of_sharegpt(one) for one in kept]
        assert all(message["role"] in ROLES for message in messages)
        return messages
    steps = document.get("steps")
    if not isinstance(steps, list):
        raise _Unusable("it has no steps")
    return _joined(message for step in steps if isinstance(step, Mapping) for message in _of_step(step))


def _of_step(step: Mapping[str, object]) -> Iterator[Message]:
    text = step.get("message")
    said = text if isinstance(text, str) else ""
    source = step.get("source")
    if source == "agent":
        yield {
            "role": "assistant",
            "content": "\n\n".join(part for part in (said.strip(), *_calls(step, said)) if part),
        }
    elif source == "user" and said:
        yield {"role": "user", "content": said}
    elif source == "system" and said:
        yield {"role": "system", "content": said}
    if source == "agent" and (shown := _shown(step)):
        yield {"role": "user", "content": shown}


def _calls(step: Mapping[str, object], said: str) -> Iterator[str]:
    calls = step.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        arguments = call.get("arguments") if isinstance(call, Mapping) else None
        if not isinstance(arguments, Mapping):
            raise _Unusable("a call of a tool in it has no arguments")
        command = next((arguments[name] for name in _COMMANDS if isinstance(arguments.get(name), str)), None)
        if command is None:
            told = {"name": call.get("function_name"), "arguments": dict(arguments)}
            yield f"```json\n{json.dumps(told, sort_keys=True)}\n```"
        elif command.strip() not in said:
            yield "```bash\n" + command.strip("\n") + "\n```"


def _shown(step: Mapping[str, object]) -> str:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    texts = [one.get("content") for one in results if isinstance(one, Mapping)] if isinstance(results, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


def _joined(messages: Iterable[Message]) -> list[Message]:
    """With what follows one another from one side in one message, and no system message but the first."""
    found: list[Message] = []
    for message in messages:
        role = "user" if message["role"] == "system" and found else message["role"]
        if found and found[-1]["role"] == role:
            found[-1] = {"role": role, "content": f"{found[-1]['content']}\n\n{message['content']}"}
        else:
            found.append({"role": role, "content": message["content"]})
    return found
