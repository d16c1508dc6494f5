"""Eight tiny tasks, each with an oracle solution and a verifier: one definition for our sandbox and for Harbor.

All eight start from one image, which holds the files of every task below /tasks and the pytest that Harbor's verifier
uses; ours brings its own. How they are run is not here; see trials.py and harbor.py.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from textwrap import dedent

from sandbox.types import ImageSpec

VERIFIER = "test_state.py"
ROOT = "/tasks"


@dataclass(frozen=True)
class Task:
    """One task."""

    name: str
    instruction: str
    setup: dict[str, str]
    """Path below /tasks/NAME -> text."""
    solution: tuple[str, ...]
    """Shell commands of the oracle; none needs what another one did to its shell."""
    verifier: str
    """pytest file: standard library only, assertions on files."""

    @property
    def passing_tests(self) -> tuple[str, ...]:
        """Ids of all tests of the verifier."""
        functions = [node for node in ast.parse(self.verifier).body if isinstance(node, ast.FunctionDef)]
        return tuple(f"{VERIFIER}::{node.name}" for node in functions if node.name.startswith("test_"))


def image_spec(base: str) -> ImageSpec:
    """The image of all tasks over `base`, our image with the tools of Python."""
    recipe = f"""\
        FROM {base}
        RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pytest > /dev/null && apt-get clean
        COPY tasks/ {ROOT}/
        """
    files = {f"tasks/{task.name}/{path}": text for task in TASKS for path, text in task.setup.items()}
    return ImageSpec(name="bench", dockerfile=dedent(recipe), context_files=files, workdir=ROOT)


def _task(name: str, instruction: str, setup: dict[str, str], solution: tuple[str, ...], checks: str) -> Task:
    """A task that works in its own folder."""
    folder = f"{ROOT}/{name}"
    head = f"from pathlib import Path\n\nHERE = Path({folder!r})\n"
    return Task(
        name=name,
        instruction=f"Work in {folder}. {instruction}",
        setup={path: dedent(text) for path, text in setup.items()},
        solution=tuple(f"cd {folder} && {command}" for command in solution),
        verifier=head + dedent(checks),
    )


TASKS = (
    _task(
        "edit-file",
        "In server.conf set the port to 8080 and leave everything else as it is.",
        {"server.conf": "# the web server\nhost = localhost\nport = 80\nworkers = 4\n"},
        ("sed -i 's/^port = 80$/port = 8080/' server.conf",),
        """
        def test_only_the_port_changed():
            text = (HERE / "server.conf").read_text()
            assert text == "# the web server\\nhost = localhost\\nport = 8080\\nworkers = 4\\n"
        """,
    ),
    _task(
        "sum-csv",
        "Write the sum of the column `amount` of sales.csv, a whole number, to total.txt.",
        {"sales.csv": "day,shop,amount\nmon,north,120\nmon,south,35\ntue,north,210\ntue,south,7\nwed,north,64\n"},
        ("awk -F, 'NR > 1 { total += $3 } END { print total }' sales.csv > total.txt",),
        """
        def test_the_sum_is_right():
            assert (HERE / "total.txt").read_text().strip() == "436"

        def test_the_table_is_untouched():
            assert len((HERE / "sales.csv").read_text().splitlines()) == 6
        """,
    ),
    _task(
        "fix-python",
        "`python3 average.py` fails. Correct the program so that it prints the average of 2, 4 and 9; "
        "write what it prints to result.txt.",
        {"average.py": "numbers = [2, 4, 9]\nprint(sum(numbers) / length(numbers))\n"},
        (
            "sed -i 's/length(/len(/' average.py",
            "python3 average.py > result.txt",
        ),
        """
        def test_the_call_is_right():
            text = (HERE / "average.py").read_text()
            assert "len(numbers)" in text and "length(" not in text

        def test_the_average_is_written():
            assert (HERE / "result.txt").read_text() == "5.0\\n"
        """,
    ),
    _task(
        "set-modes",
        "Make run.sh executable for everybody, and secret.key readable and writable for its owner only.",
        {"run.sh": "#!/bin/sh\necho running\n", "secret.key": "0123456789abcdef\n"},
        ("chmod 755 run.sh", "chmod 600 secret.key"),
        """
        def test_the_program_is_executable():
            assert (HERE / "run.sh").stat().st_mode & 0o7777 == 0o755

        def test_the_key_is_private():
            assert (HERE / "secret.key").stat().st_mode & 0o7777 == 0o600
        """,
    ),
    _task(
        "pack-tar",
        "Pack the folder notes into notes.tar.gz, a tar archive compressed with gzip, and remove the folder.",
        {"notes/first.txt": "one\n", "notes/second.txt": "two\n", "notes/old/third.txt": "three\n"},
        ("tar -czf notes.tar.gz notes", "rm -r notes"),
        """
        import tarfile

        def test_every_note_is_in_the_archive():
            with tarfile.open(HERE / "notes.tar.gz", "r:gz") as archive:
                names = {member.name for member in archive if member.isreg()}
                content = archive.extractfile("notes/old/third.txt").read()
            assert names == {"notes/first.txt", "notes/second.txt", "notes/old/third.txt"}
            assert content == b"three\\n"

        def test_the_folder_is_gone():
            assert not (HERE / "notes").exists()
        """,
    ),
    _task(
        "rename-photos",
        "Rename every file that ends in .JPEG so that it ends in .jpg. Other files keep their names.",
        {"beach.JPEG": "beach", "harbour.JPEG": "harbour", "readme.txt": "photos of the summer", "sky.jpg": "sky"},
        ('for file in *.JPEG; do mv -- "$file" "${file%.JPEG}.jpg"; done',),
        """
        def test_the_names_are_right():
            assert {path.name for path in HERE.iterdir()} == {"beach.jpg", "harbour.jpg", "readme.txt", "sky.jpg"}

        def test_the_content_moved_along():
            assert (HERE / "beach.jpg").read_text() == "beach"
        """,
    ),
    _task(
        "json-to-csv",
        "Write the people of people.json to people.csv: the head `name,age`, then a line for each, youngest first.",
        {"people.json": '[{"name": "Ada", "age": 36}, {"name": "Bo", "age": 19}, {"name": "Cleo", "age": 52}]\n'},
        (
            """python3 - > people.csv <<'END'
import json
people = json.load(open("people.json"))
print("name,age")
for one in sorted(people, key=lambda one: one["age"]):
    print(one["name"], one["age"], sep=",")
END""",
        ),
        """
        def test_the_table_is_sorted_by_age():
            assert (HERE / "people.csv").read_text().splitlines() == ["name,age", "Bo,19", "Ada,36", "Cleo,52"]
        """,
    ),
    _task(
        "count-errors",
        "Write to errors.txt how many lines in all .log files below logs hold the word ERROR, "
        "and to worst.txt the path, relative to logs, of the file that has most of them.",
        {
            "logs/app.log": "INFO start\nERROR disk\nINFO stop\n",
            "logs/web/access.log": "ERROR 500\nINFO 200\nERROR 502\nERROR 503\n",
            "logs/web/notes.txt": "ERROR is no error here\n",
        },
        (
            "grep -rh --include='*.log' -w ERROR logs | wc -l > errors.txt",
            "cd logs && grep -rcw ERROR --include='*.log' | sort -t: -k2nr | head -n 1 | cut -d: -f1 > ../worst.txt",
        ),
        """
        def test_all_errors_are_counted():
            assert (HERE / "errors.txt").read_text().strip() == "4"

        def test_the_worst_file_is_named():
            assert (HERE / "worst.txt").read_text().strip() == "web/access.log"
        """,
    ),
)
