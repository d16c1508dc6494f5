"""What the verifier's own process allows and refuses, tried in processes of this machine. Whole verdicts: contract."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.verifier.verifier_guards import Box, is_large, starts_programs

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """In the file system of the root: a verifier reads no other one."""
    return disk_path


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A box whose tests have a folder of their own."""
    (tmp_path / "own").mkdir()
    box = Box(tmp_path / "own")
    if not box.is_possible():
        pytest.skip("this kernel does not allow openat2")
    return box


def guarded(code: str, folder: Path) -> str:
    """What a process with its own folder `folder` prints, or the last line of its error."""
    head = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "from pathlib import Path\nfrom sandbox.verifier import verifier_guards as guards\n"
        f"guards.guard_open((Path({str(folder / 'own')!r}),))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=30, cwd=folder, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_box_reads_a_regular_file_up_to_its_bound(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answer").write_text("né\n")
    (tmp_path / "link").symlink_to("answer")
    assert (box.text("answer"), box.read(tmp_path / "link", 4)) == ("né\n", b"n\xc3\xa9\n")
    with pytest.raises(AssertionError, match="answer has more than 3 bytes"):
        box.read("answer", 3)


def test_a_box_names_what_it_refuses(box: Box, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    socket.socket(socket.AF_UNIX).bind(str(tmp_path / "socket"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "environ").symlink_to("/proc/self/environ")
    (tmp_path / "descriptor").symlink_to("/proc/self/fd/0")
    (tmp_path / "binary").write_bytes(b"\xff")
    for name in ("fifo", "socket", "folder", "loop", "environ", "descriptor", "binary", "none"):
        with pytest.raises(AssertionError, match=f"/{name} "):
            box.text(tmp_path / name)


def test_a_box_reads_the_folder_of_the_test_but_nothing_through_it(box: Box, tmp_path: Path) -> None:
    (tmp_path / "own" / "made").write_text("x")
    (tmp_path / "own" / "out").symlink_to("/etc/passwd")
    assert box.text(tmp_path / "own" / "made") == "x"
    with pytest.raises(AssertionError, match="leads out"):
        box.text(tmp_path / "own" / "out")


@pytest.mark.parametrize("make", ["os.mkfifo('x')", "os.symlink('/dev/zero', 'x')", "os.truncate('x', 1 << 27)"])
@pytest.mark.parametrize("read", ["open('x').read(1)", "Path('x').read_bytes()", "os.open('x', os.O_RDONLY)"])
def test_opening_what_is_no_bounded_file_is_a_failed_assertion(make: str, read: str, tmp_path: Path) -> None:
    if "truncate" in make:
        (tmp_path / "x").touch()
    assert guarded(f"import os\n{make}\n{read}", tmp_path).startswith("AssertionError: x ")


@pytest.mark.parametrize("target", ["/proc/self/environ", "own/secret"])
def test_opening_leads_neither_into_proc_nor_to_the_verifier(target: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "secret").write_text("s")
    (tmp_path / "x").symlink_to(target)
    assert "leads out" in guarded("open('x')", tmp_path)
    assert guarded(f"print(len(open({target!r}).read()) > 0)", tmp_path) == "True"


def test_a_pipe_is_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    assert "no regular file" in guarded("import sqlite3\nsqlite3.connect('file:x?mode=ro', uri=True)", tmp_path)


def test_programs_see_the_shown_environment_and_libraries_of_the_process_none(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, subprocess\n"
        "guards.show_environment({'LOCPATH': '/traps', 'PATH': os.environ['PATH']})\n"
        "libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p\n"
        "seen = subprocess.run(['env'], capture_output=True, text=True).stdout.count('LOCPATH=/traps')\n"
        "print(libc.getenv(b'LOCPATH'), os.environ['LOCPATH'], seen)"
    )
    assert guarded(code, tmp_path) == "None /traps 1"


def test_too_much_memory_is_an_error_of_the_test_and_no_limit_of_its_programs(tmp_path: Path) -> None:
    code = (
        "import resource, subprocess\n"
        "guards._memory_bound = lambda: 200 << 20\n"
        "guards.show_environment(__import__('os').environ.copy())\n"
        "with guards.bounded_memory():\n"
        "    try: bytearray(400 << 20)\n    except MemoryError: print('bounded')\n"
        "    print(subprocess.run(['sh', '-c', 'ulimit -d'], capture_output=True, text=True).stdout.strip())\n"
        "print(len(bytearray(400 << 20)) >> 20)"
    )
    assert guarded(code, tmp_path).split() == ["bounded", "unlimited", "400"]


def test_a_message_is_not_asked_to_show_large_values() -> None:
    large = ["x" * 20_000, [1] * 1000, {"a": ["x" * 20_000]}, [[[[[[1]]]]]]]
    assert [is_large(value) for value in ("x", [1, "y"], {"a": [1]}, *large)] == [False] * 3 + [True] * 4


def _reads() -> None:
    Path("x").read_text()


def _runs() -> None:
    subprocess.run(["x"], timeout=1, check=False)


def _runs_by_another() -> None:
    for _ in range(1):
        _runs()


def test_a_test_that_starts_programs_is_told_by_what_it_uses() -> None:
    assert [starts_programs(one) for one in (_reads, _runs, _runs_by_another, "text")] == [False, True, True, False]
