"""What counts as having run, and what the probes find in small projects; the probes run here as they do in an image."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pipeline.checkout import Tree
from pipeline.smoke import programs as named_programs
from pipeline.smoke import suites
from pipeline.smoke.subject import PROBES, Subject, plain, ran
from pipeline.types import Language, Repository
from sandbox.types import ExecResult


def result(output: str = "", code: int | None = 0, *, timed_out: bool = False) -> ExecResult:
    return ExecResult(
        exit_code=code, output=output, output_bytes=len(output), truncated=False, timed_out=timed_out, seconds=0.1
    )


def tree_of(folder: Path, files: dict[str, str]) -> Tree:
    path = folder / "tree.tar"
    with tarfile.open(path, "w:") as archive:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name].encode())
            archive.addfile(info, io.BytesIO(files[name].encode()))
    return Tree(path)


class NoSandbox:
    """Stands where a sandbox is not asked for anything."""


def subject_of(folder: Path, files: dict[str, str], language: Language = "c", name: str = "owner/tool") -> Subject:
    repository = Repository(source="local", full_name=name, commit="1", language=language, locator=".")
    return Subject(repository, tree_of(folder, files), NoSandbox(), "/workspace/tool")  # type: ignore[arg-type]


def probe(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", str(PROBES / name), *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("tool 1.2\n", 0),
        ("", 0),
        ("Usage: tool [-n] FILE\n", 1),
        ("tool: unrecognized option '--help'\n", 2),
        ("tool: invalid option -- '-'\n", 1),
        ("error: the following arguments are required: FILE\n", 2),
        ('  File "t.py", line 1, in <module>\n    n = sys.argv[1]\n        ~~~~~~~~^^^\nIndexError: list index', 1),
    ],
)
def test_a_program_that_answers_or_says_how_to_ask_has_run(output: str, code: int) -> None:
    assert ran(result(output, code)) == "works"


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Segmentation fault\n", 139),
        ("terminate called\nAborted\n", 134),
        ("sh: 1: tool: not found\n", 127),
        ("tool: Permission denied\n", 126),
        ("usage: x\ntool: error while loading shared libraries: libx.so.1: cannot open shared object file\n", 1),
        ("Traceback (most recent call last):\nModuleNotFoundError: No module named 'docker'\n", 1),
        ("Traceback (most recent call last):\nImportError: cannot import name 'a'\n", 1),
        ("Error: Cannot find module './dist/x.js'\n    --help\n", 1),
        ("Exception in thread main java.lang.NoClassDefFoundError: a/B\n", 1),
        ("PHP Fatal error:  Uncaught Error: Class not found\n", 255),
    ],
)
def test_a_program_that_lacks_something_or_crashes_is_broken(output: str, code: int) -> None:
    assert ran(result(output, code)) == "broken"


@pytest.mark.parametrize(
    ("output", "code"),
    [("no such thing\n", 1), ("Traceback (most recent call last):\nKeyError: 'x'\nusage\n", 1), ("panic: no\n", 2)],
)
def test_a_program_that_fails_otherwise_has_not_shown_that_it_works(output: str, code: int) -> None:
    assert ran(result(output, code)) == "fails"


def test_a_program_that_does_not_end_has_not_shown_that_it_works() -> None:
    assert ran(result("usage\n", None, timed_out=True)) == "fails"


@pytest.mark.parametrize(
    ("one", "other"), [("json-server", "JSON_server"), ("mustache.js", "mustache"), ("python-jose", "jose")]
)
def test_names_are_compared_without_their_writing(one: str, other: str) -> None:
    assert plain(one) == plain(other)


def test_programs_are_named_by_build_files_and_the_dockerfile(tmp_path: Path) -> None:
    files = {
        "Makefile": "TARGET = spin\nall: spin\nspin: spin.o\n\tcc -o spin spin.o\ninstall:\n",
        "src/Makefile.am": "bin_PROGRAMS = turn \\\n  twist\n",
        "CMakeLists.txt": "add_executable(rotor main.c)\n",
        "Dockerfile": 'FROM a AS b\nCMD ["none"]\nFROM c\nENTRYPOINT ["/usr/bin/gyro"]\n',
    }
    names = named_programs._names(subject_of(tmp_path, files))
    assert {"spin", "turn", "twist", "rotor", "gyro", "tool"} <= names
    assert not {"all", "install", "none"} & names


def test_tools_that_a_project_uses_are_not_its_programs(tmp_path: Path) -> None:
    files = {"Makefile": "mypy:\n\tmypy .\n", "Dockerfile": 'FROM a\nCMD ["gunicorn", "app:app"]\n'}
    assert named_programs._names(subject_of(tmp_path, files, "python")) == {"tool"}


def test_a_package_is_imported_from_its_files(tmp_path: Path) -> None:
    folder = write(tmp_path, {"fruit/__init__.py": "def peel():\n    return 1\n"})
    done = probe(folder, "imports.py", "fruit")
    assert done.returncode == 0 and "imported: fruit" in done.stdout


def test_an_import_that_lacks_a_dependency_fails(tmp_path: Path) -> None:
    folder = write(tmp_path, {"fruit/__init__.py": "import no_such_dependency\n"})
    assert probe(folder, "imports.py", "fruit").returncode == 1


def test_an_empty_package_proves_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path, {"fruit/__init__.py": '"""Fruit."""\n__version__ = "1"\n'})
    assert probe(folder, "imports.py", "fruit").returncode == 1


def test_an_empty_package_is_judged_by_the_modules_in_it(tmp_path: Path) -> None:
    folder = write(tmp_path, {"fruit/__init__.py": "", "fruit/apple.py": "import json\n", "fruit/test_a.py": "1 / 0\n"})
    assert probe(folder, "imports.py", "fruit").returncode == 0


def test_the_module_that_a_program_starts_from_must_be_importable(tmp_path: Path) -> None:
    parts = {f"fruit/{name}.py": "import json\n" for name in ("apple", "pear", "plum")}
    folder = write(tmp_path, {"fruit/__init__.py": "", **parts, "fruit/main.py": "import no_such_dependency\n"})
    assert probe(folder, "imports.py", "fruit").returncode == 1


def test_most_of_several_modules_must_be_importable(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.py": "import json\n", "b.py": "import no_such\n", "c.py": "import no_such\n"})
    assert probe(folder, "imports.py", "a", "b", "c").returncode == 1
    assert probe(folder, "imports.py", "a", "b").returncode == 0


def test_a_page_with_what_it_names_is_whole(tmp_path: Path) -> None:
    page = '<html><link rel="stylesheet" href="css/a.css?v=1"><body><p>Hello</p><script src="/js/b.js"></script></body>'
    folder = write(tmp_path, {"site/index.html": page, "site/css/a.css": "a{b:c}", "site/js/b.js": "1"})
    assert probe(folder, "pages.py", "site/index.html").returncode == 0


@pytest.mark.parametrize(
    "page",
    [
        "",
        "   \n",
        "<html><head><title>Nothing</title></head><body></body></html>",
        '<body><p>Hello</p><script src="dist/bundle.js"></script></body>',
        '<body><div id="root"></div><script type="module" src="/src/main.tsx"></script></body>',
    ],
)
def test_a_page_that_is_empty_or_not_built_is_not_whole(tmp_path: Path, page: str) -> None:
    folder = write(tmp_path, {"index.html": page, "src/main.tsx": "1"})
    assert probe(folder, "pages.py", "index.html").returncode == 1


def test_names_of_other_hosts_and_of_templates_are_not_asked_for(tmp_path: Path) -> None:
    page = '<p>Hi</p><script src="https://a.example/x.js"></script><link rel="stylesheet" href="{{ base }}/a.css">'
    assert probe(write(tmp_path, {"index.html": page}), "pages.py", "index.html").returncode == 0


@pytest.mark.parametrize(("sheet", "code"), [("a { b: c; }", 0), ("/* a { b: c } */", 1), ("a { b: c; } d { e: f;", 1)])
def test_a_style_sheet_has_rules_that_end(tmp_path: Path, sheet: str, code: int) -> None:
    assert probe(write(tmp_path, {"a.css": sheet}), "pages.py", "a.css").returncode == code


SUITE = suites._Suite("pytest", "true", r"\d+ passed", r"\d+ failed")
BUILT = suites._Suite("make", "true", r"\d+ passed", r"\d+ failed", built_first=True)


@pytest.mark.parametrize(
    ("suite", "given", "passed"),
    [
        (SUITE, result("3 passed in 1s\n"), True),
        (SUITE, result("1 failed, 2 passed\n", 1), False),
        (SUITE, result("no tests ran\n", 5), None),
        (SUITE, result("nothing to do\n", 0), None),
        (SUITE, result("ModuleNotFoundError: No module named 'trio'\n1 failed\n", 2), None),
        (SUITE, result("E  fixture 'mocker' not found\n1 failed\n", 1), None),
        (SUITE, result("3 passed\n", None, timed_out=True), None),
        (BUILT, result("1 failed: no compiler\n", 2), None),
        (BUILT, result(f"{suites._BUILT}\n1 failed\n", 2), False),
    ],
)
def test_only_a_suite_that_could_be_run_gives_a_verdict(
    suite: suites._Suite, given: ExecResult, passed: bool | None
) -> None:
    assert suites._judged(suite, given)[0] is passed


def test_the_placeholder_of_npm_is_no_suite(tmp_path: Path) -> None:
    package = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
    assert not list(suites._suites(subject_of(tmp_path, {"package.json": package}, "javascript")))


def started(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(PROBES / "started.sh"), command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_started_command_ends_with_its_own_code_and_has_no_input(tmp_path: Path) -> None:
    done = started(tmp_path, "cat; echo said; exit 7")
    assert (done.returncode, done.stdout) == (7, "said\n")


def test_a_started_command_that_a_signal_ends_says_so(tmp_path: Path) -> None:
    assert started(tmp_path, "sh -c 'kill -SEGV $$'").returncode == 139


def listed(tree: Path, *names: str) -> set[str]:
    done = subprocess.run(
        ["sh", str(PROBES / "programs.sh"), str(tree), "named", *names],
        env={"PATH": f"/usr/bin:/bin:{tree.parent}/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return set(done.stdout.split())


def executable(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path)


def test_programs_are_found_by_name_or_because_they_were_compiled_in_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    compiled = executable(tree / "build" / "anything", b"\x7fELF....")
    script = executable(tree / "fruit.sh", b"#!/bin/sh\n")
    installed = executable(tmp_path / "bin" / "fruit", b"#!/bin/sh\n")
    executable(tree / "configure", b"#!/bin/sh\n")
    executable(tree / "fruit.empty", b"")
    executable(tmp_path / "bin" / "other", b"#!/bin/sh\n")
    assert listed(tree, "fruit", "ls") == {compiled, script, installed}
