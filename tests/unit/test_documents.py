"""Blocks and commands found in documents of several formats."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from pipeline.generators.commands import first_words, input_files, outputs_of, parse_block, stages, unrunnable
from pipeline.generators.documents import Block, Tree, blocks_of, document_names, read_blocks
from pipeline.generators.plans import documented_files, labelled_variants, resolve, shell_plans, with_stand_ins


def _tar(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "tree.tar"
    with tarfile.open(path, "w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def _commands(markdown: str) -> list[str]:
    return [c.text for b in blocks_of("README.md", markdown) for c in parse_block(b)]


@pytest.mark.parametrize(
    ("fence", "language"),
    [
        ("```py\nx\n```", "py"),
        ("```python3\nx\n```", "python3"),
        ("```bash\r\nx\r\n```\r\n", "bash"),
        ("``` bash   \nx\n```", "bash"),
        ("```{.sh .numberLines}\nx\n```", "sh"),
        ('```js title="a.js"\nx\n```', "js"),
        ("~~~sh\nx\n~~~", "sh"),
        ("1. do\n\n   ```sh\n   x\n   ```", "sh"),
        ("```sh\nx", "sh"),
        ("````md\nx\n````", "md"),
        ("```SH\nx\n```", "sh"),
        ("```\nx\n```", ""),
    ],
)
def test_every_kind_of_fence_is_read(fence: str, language: str) -> None:
    (block,) = blocks_of("README.md", fence.replace("\r\n", "\n"))
    assert (block.language, block.text) == (language, "x")


def test_a_fence_inside_a_longer_fence_is_text() -> None:
    (block,) = blocks_of("README.md", "````md\n```sh\nrm x\n```\n````")
    assert block.text == "```sh\nrm x\n```"


def test_a_block_knows_its_headings_and_the_prose_before_it() -> None:
    (_, block) = blocks_of(
        "a.md", "# Tool\n\nA small tool for rows.\n\n```sh\none\n```\n\n## Use\n\nCount the rows:\n\n```sh\ntwo\n```\n"
    )
    assert block.headings == ("Tool", "Use")
    assert block.prose == "Count the rows:"
    assert block.opening == "A small tool for rows."
    assert block.line == 14


def test_restructured_text_gives_directives_and_literal_blocks() -> None:
    text = "Title\n=====\n\nExtract columns:\n\n.. code-block:: bash\n\n   cut -c 1 a.csv\n"
    text += "\nOr this::\n\n    cut -c 2 a.csv\n"
    one, two = blocks_of("a.rst", text)
    assert (one.language, one.text, one.prose) == ("bash", "cut -c 1 a.csv", "Extract columns:")
    assert (two.language, two.text) == ("", "cut -c 2 a.csv")


def test_asciidoc_and_manual_pages_give_blocks() -> None:
    (block,) = blocks_of("a.adoc", "== Use\n\nDo it:\n\n[source,bash]\n----\nrun a\n----\n")
    assert (block.language, block.text, block.headings) == ("bash", "run a", ("Use",))
    (page,) = blocks_of(
        "tool.1", ".SH EXAMPLES\nTo change the font:\n.nf\n.ft B\n\nexample% tool \\-f script\n\n.ft R\n.fi\n"
    )
    assert parse_block(page)[0].text == "tool -f script"


def test_prompts_are_taken_off_and_the_printed_text_is_kept() -> None:
    (block,) = blocks_of("a.md", "```console\n$ tool a.json\nkey = 1\nkey = 2\n$ tool -u \\\n  b.json\n```")
    first, second = parse_block(block)
    assert (first.text, first.output) == ("tool a.json", "key = 1\nkey = 2")
    assert (second.text, second.output) == ("tool -u \\\n  b.json", None)


def test_heredocs_open_quotes_and_continuations_stay_whole() -> None:
    text = "```sh\ncat > a <<EOF\n# not a comment\nEOF\necho 'one\ntwo'\nlast | \\\n  next\n```"
    assert _commands(text) == ["cat > a <<EOF\n# not a comment\nEOF", "echo 'one\ntwo'", "last | \\\n  next"]


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("pip install x", "needs_network"),
        ("curl -O a", "needs_network"),
        ("git clone x", "needs_network"),
        ("tool https://example.org/a.json", "needs_network"),
        ("docker run x", "needs_engine"),
        ("tool <file>", "placeholder"),
        ("tool [options] a.txt", "placeholder"),
        ("tool a | less", "interactive"),
        ("tool &", "server"),
        ("npm test", "test_suite"),
        ("echo 'text", "syntax"),
    ],
)
def test_what_cannot_run_is_refused_with_its_class(command: str, failure: str) -> None:
    found = unrunnable(command)
    assert found is not None
    assert found[0] == failure


@pytest.mark.parametrize(
    "command", ["tool 'a <b> c' d.txt", "diff <(a x) <(a y)", "grep '[a-z]' f.txt", "tool < in.txt"]
)
def test_what_only_looks_like_a_placeholder_is_not_refused(command: str) -> None:
    assert unrunnable(command) is None


def test_stages_take_redirections_apart() -> None:
    one, two = stages("tool -a 'x y' < in.txt 2>/dev/null | sort > out.txt")
    assert (one.words, one.reads) == (("tool", "-a", "x y"), ("in.txt",))
    assert (two.words, two.writes, two.joined_by) == (("sort",), ("out.txt",), "|")


def test_programs_inputs_and_outputs_of_a_command_are_found() -> None:
    command = "LANG=C tool -c 1 data/in.csv -o out.json && echo done"
    assert first_words(command) == {"tool"}
    assert input_files(command) == ["data/in.csv", "out.json"]
    assert outputs_of(command) == {"out.json"}


def test_a_command_brings_the_earlier_ones_whose_files_it_uses() -> None:
    (block,) = blocks_of(
        "a.md", "```console\n$ tool a.json > b.js\n$ echo 1 >> b.js\n$ run b.js\n1\n$ tool c.json\n2\n```"
    )
    plans, _ = shell_plans([block])
    assert [p.steps for p in plans] == [("tool a.json > b.js", "echo 1 >> b.js", "run b.js"), ("tool c.json",)]


def test_a_block_with_cd_is_one_script() -> None:
    plans, _ = shell_plans(blocks_of("a.md", "```sh\nmkdir b\ncd b\ncmake ..\n```"))
    assert [p.steps for p in plans] == [("mkdir b", "cd b", "cmake ..")]


def test_a_file_that_the_document_shows_becomes_an_input() -> None:
    text = "If `dogs.json` looks like this:\n\n```json\n[1, 2]\n```\n\nImport it:\n\n```sh\ntool dogs.json\n```"
    blocks = blocks_of("a.md", text)
    (plan,), _ = shell_plans(blocks)
    assert resolve(plan, set(), documented_files(blocks)).files == (("dogs.json", "[1, 2]\n"),)


def test_a_missing_input_is_looked_for_elsewhere_in_the_tree_and_else_replaced_by_its_like() -> None:
    (plan, other), _ = shell_plans(blocks_of("a.md", "```sh\ntool two.json\ntool nowhere.json\n```"))
    moved = resolve(plan, {"testdata/two.json"}, {})
    assert moved.steps == ("tool testdata/two.json",)
    replaced = with_stand_ins(resolve(other, set(), {}), {"testdata/two.json": 300, "broken.json": 300}, 0)
    assert replaced is not None
    assert replaced.steps == ("tool testdata/two.json",)


def test_labelled_examples_stand_for_the_inputs_of_the_command() -> None:
    example = "View:\n\n```json\n{}\n```\n\nTemplate:\n\n```html\nhi\n```\n\nOutput:\n\n```html\nho\n```\n\n"
    blocks = blocks_of(
        "a.md",
        f"## One\n\nFirst case here.\n\n{example}## Two\n\n{example}"
        "## CLI\n\n```sh\nfill dataView.json myTemplate.html\n```\n",
    )
    (plan,), _ = shell_plans(blocks)
    found = labelled_variants(resolve(plan, set(), {}), blocks)
    assert [p.block.headings for p in found] == [("One",), ("Two",)]
    assert found[0].files == (("dataView.json", "{}\n"), ("myTemplate.html", "hi\n"))
    assert found[0].shown == "ho"


def test_documents_are_read_from_the_tar_readme_first_and_of_versions_only_the_newest(tmp_path: Path) -> None:
    files = {
        "docs/1.0/a.md": "",
        "docs/2.3/a.md": "",
        "README.md": "```sh\nx\n```",
        "CHANGELOG.md": "",
        "test/data/b.md": "",
        "x.c": "",
    }
    tree = Tree.open(_tar(tmp_path, files))
    assert document_names(tree) == ["README.md", "docs/2.3/a.md"]
    assert [b.text for b in read_blocks(tree)] == ["x"]


def test_text_that_is_not_utf8_is_read_with_replacement(tmp_path: Path) -> None:
    path = tmp_path / "t.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("./README.md")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"a\xff\r"))
    assert Tree.open(path).text("README.md") == "a\ufffd\n"


def test_an_unlabelled_listing_gives_no_prompted_commands() -> None:
    block = Block("a.md", 1, (), "", "text", "name  value\n-----------")
    assert parse_block(block) == []
