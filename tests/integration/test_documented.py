"""The generator and admission on a small real repository, in real containers."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pipeline.instances import InstanceRow, InstancesConfig, make_instances
from pipeline.types import Repository
from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.engine import connect
from sandbox.types import BuildLimits, ImageSpec
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

TALLY = """#!/bin/sh
# tally: counts the words of a text
if [ "$1" = --help ]; then echo 'usage: tally [-r] FILE'; echo '  -r, --reverse  rare words first'; exit 0; fi
if [ "$1" = -r ]; then order=-n; shift; else order=-rn; fi
tr ' ' '\\n' < "$1" | sort | uniq -c | sort -s $order -k 1,1 | while read -r n word; do echo "$word,$n"; done
"""
README = """# tally

Counts the words of a text.

## Counting

List each word of a text with its number, frequent words first:

```console
$ tally poem.txt
alphabet,3
beta,2
gamma,1
```

Keep only the two words that stand at the very top of the list:

```sh
tally poem.txt | head -n 2 > top.csv
```

Give every counted word a line of its own, rare words first, together with the moment of counting:

```sh
tally -r poem.txt; date
```

Send the list to a friend:

```sh
curl -d @top.csv friend
```

Show the list of a text of your own:

```sh
tally <file>
```

Ask a program that is not there:

```sh
abacus poem.txt
```
"""


@pytest.fixture(scope="module")
def client(data_folder: Path) -> Iterator[docker.DockerClient]:
    client = connect(data_folder)
    yield client
    client.close()


@pytest.fixture(scope="module")
def rows(client: docker.DockerClient, data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[InstanceRow]:
    """What is made of the repository, once for all tests here."""
    folder = tmp_path_factory.mktemp("tally")
    files = {
        "README.md": README,
        "tally": TALLY,
        "poem.txt": "alphabet beta alphabet gamma beta alphabet\n",
        "tests/letters.txt": "delta epsilon delta zeta epsilon delta eta theta\n",
        "tests/expected/top-of-poem": "alphabet,3\nbeta,2\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "tally").chmod(0o755)
    tree = folder.with_suffix(".tar")
    with tarfile.open(tree, "w") as tar:
        tar.add(folder, arcname=".")
    bases = BaseImages(client, BaseImageConfig(), data_folder)
    base = bases.base()
    dockerfile = f"FROM {base.tag}\nWORKDIR /workspace/tally\nCOPY . .\nRUN cp tally /usr/local/bin/\n"
    spec = ImageSpec(name="tally", dockerfile=dockerfile, context=tree, workdir="/workspace/tally")
    builder = ImageBuilder(client, bases)
    built = builder.build(spec, BuildLimits())
    assert built.digest is not None, built.log_tail
    repository = Repository(source="local", full_name="tests/tally", commit="1", language="c", locator=".")
    backend = choose("auto", client, VerifierRuntime(client, bases), data_folder, base.digest)
    return make_instances(repository, tree, built.digest, backend, InstancesConfig(), build=builder.build)


def _row(rows: list[InstanceRow], beginning: str) -> InstanceRow:
    return next(r for r in rows if r.excerpt.startswith(beginning))


def test_a_documented_command_becomes_an_admitted_task(rows: list[InstanceRow]) -> None:
    row = _row(rows, "tally poem.txt")
    assert row.admitted, row.reason
    assert row.instance is not None
    assert row.instance.solution[-1].startswith("tally poem.txt > ")
    assert "`poem.txt`" in row.instance.instruction
    assert row.instance.verifier.passing_tests


def test_a_file_that_a_command_writes_is_the_end_state(rows: list[InstanceRow]) -> None:
    row = _row(rows, "tally tests/letters.txt | head")
    assert row.admitted, row.reason
    assert row.instance is not None
    assert row.instance.family == "created_files"
    assert "/workspace/tally/top.csv" in row.instance.verifier.files[0].content


def test_a_result_that_the_repository_ships_is_asked_for_of_another_input(rows: list[InstanceRow]) -> None:
    row = _row(rows, "tally tests/letters.txt | head")
    assert row.admitted, row.reason
    assert row.instance is not None
    assert "`tests/letters.txt`" in row.instance.instruction
    assert "poem" not in row.instance.instruction
    assert not [r for r in rows if r.excerpt.startswith("tally poem.txt | head")]


@pytest.mark.parametrize(
    ("beginning", "failure"),
    [
        ("tally -r", "not_deterministic"),
        ("curl", "needs_network"),
        ("tally <file>", "placeholder"),
        ("abacus", "unknown_command"),
    ],
)
def test_what_gives_no_task_is_a_row_with_its_reason(rows: list[InstanceRow], beginning: str, failure: str) -> None:
    row = _row(rows, beginning)
    assert (row.admitted, row.failure_class) == (False, failure)
    assert row.reason


def test_texts_of_the_repository_become_easy_tasks(rows: list[InstanceRow]) -> None:
    made = [row for row in rows if row.instance is not None and row.instance.generator == "files"]
    assert [row.document for row in made] == ["README.md"], "the only file of some lines"
    assert all(row.admitted for row in made), [row.reason for row in made]
    assert [row.reason for row in rows if row.failure_class == "no_text_file"]


def test_nothing_of_admission_stays_in_the_engine(rows: list[InstanceRow], client: docker.DockerClient) -> None:
    names = [tag for image in client.api.images() for tag in image["RepoTags"] or ()]
    assert not [name for name in names if "admission-" in name]
