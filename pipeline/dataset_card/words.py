"""Sentences of the card that need few figures: how rows are chosen, read and carried out again, and their limits."""

from __future__ import annotations

from pipeline.curation.copies import THRESHOLD
from pipeline.curation.decontamination import DROP_SHARE, DROP_WORDS, REVIEW_WORDS
from pipeline.dataset_card.content import Block, Bullets, Code, Paragraph, Section
from pipeline.snapshots.publishing import Draft

GATES = {
    "verifier_lint": "The verifier parses, asserts on every way through, and uses no network, clock or chance",
    "no_solution_text": "No command of the solution is in the instruction",
    "network_off": "Nothing is needed from outside the sandbox",
    "noop": "Doing nothing fails",
    "oracle": "The reference solution passes, twice, each time in a fresh sandbox",
    "no_answer_in_image": "What the solution makes lies nowhere in the image",
    "stability": "The verifier says the same again and again on the same state",
    "order_independence": "… also with its tests in other orders",
    "time_independence": "… also on other days",
    "weak_solutions": "Empty, cut, constant and copied results fail",
    "other_solutions": "Other right ways pass",
    "near_copy": "No other task is like it",
    "decontamination": "No task of a known benchmark is like it",
    "quota": "There are not too many of its kind already",
}
STEPS = {
    "denied": "Repositories on the deny list: licence, take-down or the wish of an owner",
    "licence": "A repository or its material under no known licence, several, or one that is not allowed",
    "contaminated": "Too near to a task of a benchmark, or waiting for somebody to look at it",
    "scrub": "A secret in it cannot be replaced without breaking the task",
    "exact_copy": "The same commands for the same instruction, once both are normalised, as a row that stays",
    "near_copy": f"Commands and instruction as in a row that stays (estimated similarity of both {THRESHOLD} or more)",
}
STAGES = {
    "repositories": "repositories listed",
    "kept": "… of sufficient score",
    "images": "… with an image",
    "instances": "tasks written",
    "admitted": "… that passed every gate",
    "trajectories": "attempts recorded",
    "verified": "… that passed the verifier",
}

BENCHMARKS = (
    f"Instructions, solutions, verifiers, names and commands were compared with the tasks of benchmarks, after wording "
    f"that many tasks share was masked. A shared run of {REVIEW_WORDS} words sends a row to review, where it waits and "
    f"stays out; {DROP_SHARE:.0%} of the runs of {DROP_WORDS} words, or an estimated similarity of 0.5, drops it."
)

SPLITS = (
    "A repository is held out or not by a hash of its name, and so is a family of tasks within its domain. Rows of "
    "which neither is held out are `train`, rows of which both are `test`; rows of which only one is held out are "
    "`validation`, so that neither a repository nor a family is in both `train` and `test`. Do not train on "
    "`validation`. A row keeps its split as the data grow."
)

SCRUBBING = (
    "Keys and passwords, personal data and traces of the machine that made the data are replaced by typed words such "
    "as `SCRUBBED_GITHUB_PAT_1`, the same for the same value throughout a row: instruction, solution, verifier, "
    "steps and messages. What a puzzle planted stays, since its verifier needs it."
)


def limits(draft: Draft, oracle: int, counted: bool) -> Section:
    """`oracle` is how many rows carried out the reference solution; `counted` whether rows have tokens."""
    items = [
        "A verdict says what the tests of the verifier check and no more. Admission proves that weak solutions fail, "
        "not that every wrong one does.",
        "Licences are those recognised in the files of a repository; single files in it may be under others.",
        "Scrubbing misses values that are coded twice, encrypted, compressed or cut by other text. Names and postal "
        "addresses of people, birthdays and numbers of documents are not looked for.",
        "Decontamination knows only the benchmarks it was given.",
        "Only attempts that passed are here: how often attempts fail is said by the figures of this card alone.",
        "Carrying out an attempt again needs its image, which is named by digest and is not part of the files.",
        "Instructions are in English.",
    ]
    if oracle:
        items.insert(
            0,
            f"{oracle:,} of {draft.rows:,} rows are by `oracle`, which carried out the reference solution: commands "
            "without any thought, error or detour. Leave them out, or weigh them, where a model's own way matters.",
        )
    if counted:
        items.append("`n_tokens` is what the server of each model counted; counts of different models do not compare.")
    return Section("Known limits", (Bullets(tuple(items)),))


def loading(draft: Draft, splits: tuple[str, ...]) -> Section:
    split = "train" if "train" in splits or not splits else splits[0]
    listed = ", ".join(f'"{name}"' for name in ("messages", "trajectory_id") if name in draft.schema.names) or '"*"'
    first = next((name for name in ("domain", "language", "license") if name in draft.schema.names), "1")
    blocks: list[Block] = [
        Paragraph("The files are plain Parquet. With `DIR` as the folder of this version:"),
        Code("python", f'import datasets\n\nrows = datasets.load_dataset("DIR", split="{split}")'),
        Code(
            "python", f"import duckdb\n\nduckdb.sql(\"SELECT {first}, count(*) FROM 'DIR/data/*.parquet' GROUP BY 1\")"
        ),
        Code(
            "python",
            "import glob\n\nimport pyarrow.dataset\n\n"
            f'files = pyarrow.dataset.dataset(sorted(glob.glob("DIR/data/{split}-*.parquet")))\n'
            f"for batch in files.to_batches(columns=[{listed}]):\n    ...",
        ),
        Paragraph("To bring it to another machine, with the hash of every file checked on arrival:"),
        Code("sh", f"touchstone pull {draft.name}@{draft.version} --from URL --to DIR"),
    ]
    return Section("How to load it", tuple(blocks))


def replaying() -> Section:
    return Section(
        "How to replay a row",
        (
            Paragraph(
                "Beside the working tables, this carries out the recorded commands in a fresh sandbox, judges the "
                "state they leave and compares the verdicts:"
            ),
            Code("sh", "touchstone replay TRAJECTORY_ID"),
            Paragraph(
                "With nothing but a row: start a container of `image_digest` without a network, carry out each "
                "`steps.action` in turn in one shell (where `interface` is `terminal`, actions are keys to type), "
                "end all processes unless `state_scope` is `live`, put `verifier_files` into an empty folder and run "
                "`verifier_command` there. The row is confirmed when exactly the tests in `verifier_passing_tests` "
                "pass."
            ),
        ),
    )
