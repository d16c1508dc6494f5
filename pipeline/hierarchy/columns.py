"""The columns of the data sets of hierarchies, and what each means. One row is one sample of one policy.

    system1        Multi², the planner: names the next sub-goal
    system2        Multi², the executor: acts and says whether the sub-goal is reached
    step_high      STEP-HRL, the high level: names the next sub-task
    step_low       STEP-HRL, the low level: acts and says whether the sub-task is done
    step_progress  STEP-HRL: sums up what was done for the sub-task

How rows are made is in rows.py. Benchmarks are sets of tasks, and have columns of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pipeline.schemas import TableSchema

_TEXT, _TEXTS, _FLAG, _REAL, _WHOLE = pa.string(), pa.list_(pa.string()), pa.bool_(), pa.float64(), pa.int64()

ROWS_PER_GROUP = 1000
"""Rows are small: one of 100 would be more description than rows."""
KEY = ("trajectory_id", "step_idx")
"""Names a row of each of the five."""

_Columns = Mapping[str, tuple[pa.DataType, str]]

_COMMON: _Columns = {
    "split": (_TEXT, "That of the attempt: train, validation or test in the terminal; train, seen or unseen in games"),
    "env": (_TEXT, "Name of the game, or terminal"),
    "task_type": (_TEXT, "Template or family of the task"),
    "task_id": (_TEXT, "Names the task; the same as instance_id of the attempt"),
    "variation_id": (_TEXT, "Which task of its type: the variation in games, the seed or repository in the terminal"),
    "trajectory_id": (_TEXT, "Names the attempt; with step_idx it names the row"),
    "source": (
        _TEXT,
        "expert for the reference solution carried out, else the collection (bc, round_1 …) or agent",
    ),
    "step_idx": (_WHOLE, "Number of the action before which the policy was asked, from 0; n_steps for the last DONE"),
    "n_steps": (_WHOLE, "Actions of the attempt"),
    "seed": (_WHOLE, "Seed of the sampling where there is one, else that of the task"),
    "annotator": (_TEXT, "What divided the attempt into sub-goals: rules by version, or a model and its prompts"),
    "tokenizer_id": (
        _TEXT,
        "Tokenizer that counted: its folder and the beginning of its hash; null without one",
    ),
    "n_prompt_tokens": (
        _WHOLE,
        "Tokens of what the policy reads, without a chat template; null if not counted",
    ),
    "n_target_tokens": (_WHOLE, "Tokens of what it shall answer, likewise"),
    "verified": (_FLAG, "Whether the attempt passed: in games with the full score, in the terminal by its verifier"),
    "final_score": (_REAL, "Last score of the attempt, 1 is full; in the terminal 1 where it passed, else 0"),
    "success": (_FLAG, "The same as verified, under the name that trainers of agents look for"),
}
_OWN: Mapping[str, _Columns] = {
    "system1": {
        "task_description": (_TEXT, "What is to be done"),
        "group_actions": (_TEXTS, "Actions since the planner was asked last; none at the start"),
        "obs": (_TEXT, "What is seen now"),
        "prompt": (_TEXT, "What the planner reads"),
        "subgoal": (_TEXT, "Target: the next sub-goal, or DONE to hand in"),
        "h_idx": (_WHOLE, "Number of the sub-goal, from 0"),
        "reward_sum": (_REAL, "What the environment gave for the actions of this sub-goal together"),
        "done": (_FLAG, "Whether the planner was not asked again"),
    },
    "system2": {
        "subgoal": (_TEXT, "The sub-goal that is worked on"),
        "obs": (_TEXT, "What is seen now"),
        "action": (_TEXT, "Target: the action, a semicolon, and true where it reaches the sub-goal, else false"),
        "reward": (_REAL, "-1 for an action that was rejected, else 1 for the last of its sub-goal, else 0"),
        "env_reward": (_REAL, "What the environment gave: the change of the score"),
        "next_obs": (_TEXT, "What was seen after it"),
        "done": (_FLAG, "Whether it is the last action of its sub-goal"),
        "sub_trajectory_id": (_TEXT, "Names the actions of one sub-goal: trajectory_id/h_idx"),
        "is_online": (_FLAG, "Whether a policy that was being trained acted: source is a round"),
        "return_sum": (_REAL, "What the environment gave in the whole attempt"),
    },
    "step_high": {
        "prompt": (_TEXT, "What the high level reads"),
        "subtask": (_TEXT, "Target: the next sub-task, or DONE to hand in"),
        "reward": (_REAL, "Change of the score inside this sub-task"),
        "score": (_REAL, "Score after it, 1 is full"),
        "done": (_FLAG, "Whether the high level was not asked again: the environment or the attempt was over"),
        "next_prompt": (_TEXT, "What it reads next; null after the last"),
        "k": (_WHOLE, "Number of the sub-task, from 0"),
        "completed_subtasks": (_TEXTS, "Names of the sub-tasks before it"),
        "last_progress": (_TEXT, "Progress at the end of the one before; None at the start"),
        "n_low_steps": (_WHOLE, "Its actions; 0 for DONE"),
    },
    "step_low": {
        "prompt": (_TEXT, "What the low level reads"),
        "action": (_TEXT, "Target: the action, a semicolon, and True where it ends the sub-task, else False"),
        "reward": (_REAL, "-1 for an action that was rejected, else 1 for the last of its sub-task, else 0"),
        "env_reward": (_REAL, "What the environment gave: the change of the score"),
        "done": (_FLAG, "Whether it is the last action of its sub-task"),
        "next_prompt": (_TEXT, "What it reads next, in the next sub-task too; null after the last action"),
        "subtask": (_TEXT, "The sub-task that is worked on"),
        "progress": (_TEXT, "What was done for it before the action; None before the first"),
        "obs": (_TEXT, "What is seen now"),
        "rejected": (_FLAG, "Whether the environment did not know the action or did not let it happen"),
    },
    "step_progress": {
        "prompt": (_TEXT, "What the progress policy reads"),
        "progress": (_TEXT, "Target: what is done and known for the sub-task after the action"),
        "reward": (_REAL, "That of the action: see step_low"),
        "done": (_FLAG, "Whether the action is the last of its sub-task"),
        "next_prompt": (_TEXT, "What it reads next, in the next sub-task too; null after the last action"),
        "subtask": (_TEXT, "The sub-task that is worked on"),
        "prev_progress": (_TEXT, "What was done for it before the action; None before the first"),
        "action": (_TEXT, "The action"),
        "resulting_obs": (_TEXT, "What was seen after it"),
    },
}


def _schema(name: str) -> TableSchema:
    columns = [(column, kind) for column, (kind, _) in {**_COMMON, **_OWN[name]}.items()]
    return TableSchema(name, 1, pa.schema(columns), ROWS_PER_GROUP)


DATASETS: dict[str, TableSchema] = {name: _schema(name) for name in _OWN}
"""The five data sets by name."""

BENCHMARK_KEY = ("task_id",)
"""Names a row of a benchmark."""
_SUBGOALS = pa.list_(pa.struct([("subgoal", _TEXT), ("actions", _TEXTS), ("progress", _TEXTS)]))
_BENCHMARK: _Columns = {
    "env": (_TEXT, "Name of the game"),
    "task_id": (_TEXT, "Names the task; the same as instance_id of attempts"),
    "task_type": (_TEXT, "Template of the task"),
    "variation_id": (_TEXT, "Which task of its type"),
    "split": (_TEXT, "train, id (new tasks of types that are in train) or ood (types that are not)"),
    "difficulty": (_TEXT, "easy, medium or hard: third of the tasks of the game by length or depth of their solution"),
    "gold_steps": (_WHOLE, "Actions of the reference solution"),
    "depth": (_WHOLE, "Depth of nested parts; null where the game has no such thing"),
    "task_description": (_TEXT, "What is to be done, with all that stays true for the whole attempt"),
    "observation": (_TEXT, "What is seen at first"),
    "solution": (_TEXTS, "Actions of the reference solution; where chance decides, the last ones may not be needed"),
    "subgoals": (_SUBGOALS, "The reference solution as it was carried out, divided into sub-goals"),
    "subgoals.subgoal": (_TEXT, "Name of the sub-goal"),
    "subgoals.actions": (_TEXTS, "Its actions"),
    "subgoals.progress": (_TEXTS, "What was done for it after each of them"),
    "max_steps": (_WHOLE, "Actions that an attempt may have"),
    "max_score": (_REAL, "The full score"),
    "annotator": (_TEXT, "What divided the reference solution"),
    "trajectory_id": (_TEXT, "The attempt that carried the reference solution out"),
    "package": (_TEXT, "Distribution that the game stands on"),
    "package_version": (_TEXT, "Its version; the task is begun by task_type and variation_id"),
    "license": (_TEXT, "SPDX id of its licence"),
}
BENCHMARK = TableSchema(
    "benchmark",
    1,
    pa.schema([(name, kind) for name, (kind, _) in _BENCHMARK.items() if "." not in name]),
    ROWS_PER_GROUP,
)
"""One row is one task of a game."""


def meanings(name: str) -> dict[str, str]:
    """What each column of a data set, or of the benchmark, means: fields of structs by `column.field`."""
    columns = _BENCHMARK if name == BENCHMARK.name else {**_COMMON, **_OWN[name]}
    return {column: text for column, (_, text) in columns.items()}
