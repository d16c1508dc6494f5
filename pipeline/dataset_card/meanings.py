"""What each column of the published data set means, for people: fields of structs by `column.field`."""

from __future__ import annotations

import pyarrow as pa

MEANINGS: dict[str, str] = {
    "trajectory_id": "Names the row: made from the task, the agent, the model, its sampling and the sample",
    "instance_id": "Names the task: made from image, instruction, reference solution and verifier",
    "repository_id": "Names the repository at its pinned version",
    "source": "Where the repository came from, e.g. registry; context is material of our own for one domain",
    "full_name": "Repository as owner/name, or ecosystem/name of a package",
    "commit": "Commit or version at which the repository was taken",
    "license": "SPDX id that was recognised in the files of the repository at that version",
    "license_path": "File in which the licence was recognised",
    "license_sha256": "SHA-256 of that file",
    "language": "Programming language of the task",
    "domain": "What the task is about, e.g. sql or security; general for tasks from documented use",
    "family": "What kind of end state the task asks for; tasks of one family resemble each other",
    "difficulty": "easy, medium or hard, by the rules of the generator",
    "instruction": "What the agent was told",
    "solution": "Commands of the reference solution, one step each, run in one shell",
    "verifier_files": "Files of the verifier, which no agent sees",
    "verifier_files.path": "Name below the folder of the tests",
    "verifier_files.content": "Content of the file",
    "verifier_command": "Command that runs the verifier",
    "verifier_timeout_s": "Seconds after which the verifier is stopped",
    "verifier_passing_tests": "Test ids that have to pass, exactly these, for the outcome passed",
    "verifier_sha256": "SHA-256 of files, command and passing tests of the verifier before anything was scrubbed",
    "image_digest": "Image in which the task is done, by digest",
    "agent": "Who acted; oracle carried out the reference solution",
    "model": "Model behind the agent; null without one",
    "sampling": "Sampling parameters as JSON",
    "sample": "Which of the attempts of this agent at this task, from 0",
    "steps": "The attempt, one decision each",
    "steps.index": "Number of the step, from 0",
    "steps.observation": "What the agent saw before deciding",
    "steps.thought": "What the model said before its action",
    "steps.action": "Command that was carried out; empty when the agent handed in or its answer was no action",
    "steps.exit_code": "Exit code of the command; null where there is none",
    "steps.seconds": "Seconds the command took",
    "steps.tokens": "Tokens the model wrote for this step",
    "steps.extra": "Whatever else is known of the step, as JSON",
    "messages": "The attempt as a chat, user and assistant in turn; without a model, as `bash` would have put it",
    "messages.role": "system, user or assistant",
    "messages.content": "Text of the message",
    "n_turns": "Number of steps",
    "n_message_tokens": "Tokens of the contents of all messages, by the tokenizer of the settings; null without one",
    "tokenizer_id": "Tokenizer that counted them: its folder and the beginning of its hash",
    "n_tokens": "Tokens the model wrote in all steps; 0 without a model",
    "stop_reason": "Why the attempt ended: submitted, or the budget that was used up",
    "outcome": "Verdict of the verifier on the final state; passed in every row",
    "verified": "Whether the final state passed the verifier in a fresh sandbox; true in every row",
    "tests": "Results of the tests of the verifier",
    "tests.test_id": "Test",
    "tests.outcome": "passed, failed, error or skipped",
    "tests.message": "What the test said when it did not pass",
    "integrity": "Flags that limit how far the verdict may be trusted; empty when there is nothing to say",
    "backend": "What the sandbox was",
    "generator": "What wrote the task",
    "provenance": "Where the task came from: document, line, heading, hash of the document and the like",
    "provenance.key": "Name of the fact",
    "provenance.value": "The fact",
    "n_repeats": "How often a fresh sandbox gave this verdict: once, and once more for each replay that gave it again",
    "failure_class": "What broke the attempt though it was judged; null when nothing did",
    "flake_rate": "Share of repeated runs of the verifier on one state that said something else; 0 for a stable one",
    "interface": "How the agent acted: shell (whole commands with exit codes) or terminal (keys and a screen)",
    "details": "What else tells the policy apart, as JSON: hashes of prompts and weights, the serving program",
    "split": "train, validation or test",
    "n_prompt_tokens": "Tokens of all prompts, the conversation so far in each of them again; 0 without a model",
    "seed": "Seed from which the generator made the task",
    "state_scope": "What the verifier sees: full (the file system) or live (running services as well)",
    "context_ids": "Declared material from elsewhere that the task holds",
    "limits_memory_mb": "Memory of the sandbox, MiB",
    "limits_cpus": "Cores of the sandbox",
    "limits_pids": "Processes and threads the sandbox may have",
    "limits_lifetime_s": "Seconds until the sandbox ends itself",
    "limits_network": "none: neither agent nor verifier reaches any network",
    "scrubbed": "Places of this row in which a placeholder stands for something private",
}


def fields_of(schema: pa.Schema) -> list[tuple[str, str, str]]:
    """(name, type, meaning) of each column, and of each field in lists of structs behind its column."""
    found = []
    for field in schema:
        found.append((field.name, _kind(field.type), MEANINGS.get(field.name, "")))
        inner = _struct(field.type)
        for place in range(inner.num_fields if inner is not None else 0):
            assert inner is not None
            name = f"{field.name}.{inner.field(place).name}"
            found.append((name, _kind(inner.field(place).type), MEANINGS.get(name, "")))
    return found


def _struct(kind: pa.DataType) -> pa.StructType | None:
    kind = kind.value_type if pa.types.is_list(kind) else kind
    return kind if pa.types.is_struct(kind) else None


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return "struct" if pa.types.is_struct(kind) else str(kind)
