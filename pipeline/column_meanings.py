"""What each column of the working tables means, for people who look at a table; what the published data set says of its
own columns (dataset_card/meanings.py) holds where nothing else is said here. Data sets of hierarchies have their own
(hierarchy/columns.py)."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.dataset_card.meanings import MEANINGS
from pipeline.hierarchy.columns import BENCHMARK, DATASETS, meanings
from pipeline.schemas import TABLES

_OF_BATCH = {
    "item_key": "Names the item of the stage that this row came from",
    "attempt": "Which attempt of the stage at the item, from 1; only rows of the last one count",
    "failure_class": "Why there is no result, in one word; null for an item that was done",
    "reason": "The same in words; empty for an item that was done",
    "recorded_at": "When the stage was done with the item, UTC",
}
_ANYWHERE = {
    "locator": "Where the source finds the repository",
    "archive_sha256": "SHA-256 of the archive that its registry names; null without one",
    "language": "Programming language of the repository, or of the task",
    "log_tail": "Last of what was written while it ran",
    "n_bytes": "Size in bytes",
    "cost_usd": "What the model's server charged; null where it says nothing",
    "seconds": "How long it took",
    "benchmark_sha256": "Names the set of held-out tasks that was compared with; null for none",
}
_OF_TABLE: Mapping[str, Mapping[str, str]] = {
    "listings": {
        "day": "Crawl day, UTC",
        "stream": "Language or domain under which the day's repositories are partitioned",
    },
    "repositories": {
        "tree_sha256": "SHA-256 of the tar of its files, and the name of that file; null when it could not be fetched",
        "n_files": "Files in the tree",
        "warnings": "What is unusual about the tree",
        "submodules": "Other repositories that it names at a commit; those of the same host are part of the tree",
    },
    "contexts": {
        "context_id": "Names the material",
        "repository_id": "The version of a domain that holds it",
        "name": "Name of the material",
        "path": "Folder in which tasks find it",
        "license": "SPDX id of its licence",
        "origin": "Where it comes from, for people",
        "ecosystem": "Package registry from which it was taken",
        "package": "Package of that registry",
        "version": "Version of the package",
        "file": "File of the package",
        "sha256": "SHA-256 of that file",
        "retrieved_at": "When it was downloaded, UTC",
    },
    "scores": {
        "scorer": "Name and version of what gave the score",
        "score": "How likely the repository is to give a working image, 0 to 1",
        "kept": "Whether it is built",
        "features": "What the score was made from",
        "explanation": "How much each feature added to the score",
        "explored": "Kept although its score is below the threshold, so that a model learns of such ones too",
        "propensity": "Chance with which it was kept",
    },
    "image_builds": {
        "strategy": "Where the Dockerfile came from: the repository's own, a template, a repair",
        "dockerfile": "The Dockerfile as it was built",
        "dockerfile_sha256": "SHA-256 of the Dockerfile",
        "status": "built, or what became of the build",
        "image_digest": "The image; null when there is none",
        "base_substituted": "Whether another base image stood in for the one that was asked for",
        "cached": "Whether an equal image was there already",
        "size_bytes": "Size of the image",
        "repairs": "What was changed in the Dockerfile, by rule",
        "platform": "Platform of the image",
        "builder": "What built it",
        "hosts": "Hosts that the build asked for",
        "registry_reference": "Where other machines pull the image from; null without a registry",
        "smoke_ok": "Whether the project's own program or import runs in the image",
        "smoke_command": "What was run last to find that out",
        "smoke_log": "Last of what it wrote",
        "tests_ok": "Whether the project's own tests pass without a network; null when there are none to run",
        "tests_command": "How its tests were run",
        "tests_log": "Last of what they wrote",
        "check_seconds": "How long the image was tried",
    },
    "instances": {
        "verifier_kind": "What judges: files and a command, or an environment",
        "admitted": "Whether every gate was passed",
        "gates": "What each gate saw, in the order in which they were asked",
        "repository_image_digest": "Image of the repository that the task was made in",
        "right": "Other solutions that the verifier has to accept",
        "weak": "Wrong solutions that the verifier has to refuse",
    },
    "ratings": {
        "rater": "Who rated: rules by version, a model, a person",
        "kind": "rules, model or human",
        "task_soundness": "Whether the task makes sense, as a grade",
        "evaluability": "Whether its end state can be judged, as a grade",
        "information_sufficiency": "Whether the instruction says all that is needed, as a grade",
        "behavioural_constrainedness": "How much of the way is prescribed, as a grade",
        "remark": "Why, in words",
        "provenance": "What the rating was made by",
    },
    "trajectories": {
        "state_reference": "Name of the frozen final state",
        "changes": "Files that differ from the image at the end",
    },
    "verifications": {
        "outcome": "passed, failed, or error where there is no verdict",
        "state_sha256": "SHA-256 of the state that was judged",
    },
    "judgements": {
        "model": "The model that was asked",
        "outcome": "What the model thinks: passed or failed; error for an answer that cannot be read",
        "details": "What the model answered, as JSON",
        "prompt_sha256": "SHA-256 of the question's wording",
        "n_tokens": "Tokens of the answer",
        "n_prompt_tokens": "Tokens of the question",
    },
    "curations": {
        "trajectory_attempt": "Which attempt of the rollout was looked through",
        "rules": "Version of the rules by which it was looked through",
        "findings": "What has to be replaced before it is published, and by which placeholder",
        "n_planted": "Findings that the task itself planted, which stay",
        "unscrubbable": "Why it cannot be published at all; null when it can",
        "by_model": "Whether a model acted",
        "n_thoughts": "Steps with a thought",
        "commands_sha256": "SHA-256 of its commands, made alike",
        "instruction_sha256": "SHA-256 of its instruction, made alike",
        "commands_signature": "MinHash of its commands, by which copies are found",
        "instruction_signature": "MinHash of its instruction",
        "overlaps": "What it shares with held-out tasks",
    },
    "annotations": {
        "annotator": "What divided the attempt into sub-goals: rules by version, or a model and its prompts",
        "path_sha256": "SHA-256 of the actions and observations that it saw",
        "environment": "Name of the game, or terminal",
        "subtasks": "Sub-goals in order, and how many actions belong to each",
        "progress": "For each action, what was done for its sub-goal after it",
        "faults": "Why it cannot be used; empty when it can",
    },
}


def meaning(table: str, column: str) -> str:
    """What a column means, in a few words; empty where nothing is said of it."""
    if table in DATASETS or table == BENCHMARK.name:
        return meanings(table).get(column, "")
    if table not in TABLES:
        return MEANINGS.get(column, "")
    found = _OF_TABLE.get(table, {}).get(column) or _OF_BATCH.get(column) or _ANYWHERE.get(column)
    return found or MEANINGS.get(column, "")
