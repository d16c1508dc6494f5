from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.engine import DEADLINE, OWNER, EngineAddress, address, connect, owner_is_alive, owner_labels
from sandbox.errors import SandboxUnavailable


def test_address_is_none_before_the_set_up(tmp_path: Path) -> None:
    assert address(tmp_path) is None


def test_address_reads_what_the_set_up_recorded(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text('{"socket": "/run/x/docker.sock", "owned": true}')
    assert address(tmp_path) == EngineAddress(socket=Path("/run/x/docker.sock"), owned=True)


@pytest.mark.parametrize("text", ["", "{", '{"socket": "/x"}', '{"socket": "/x", "owned": true, "more": 1}'])
def test_a_broken_address_names_the_file_and_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "engine.json").write_text(text)
    with pytest.raises(SandboxUnavailable, match=r"engine\.json cannot be read.*run infra/bootstrap\.sh"):
        address(tmp_path)


def test_connect_names_the_socket_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text(EngineAddress(socket=tmp_path / "no.sock", owned=True).model_dump_json())
    with pytest.raises(SandboxUnavailable, match=r"no\.sock.*run infra/bootstrap\.sh"):
        connect(tmp_path, timeout_s=2)


def test_our_own_label_is_alive_until_its_deadline() -> None:
    labels = owner_labels(60)
    assert labels[OWNER].startswith(f"{os.getpid()}:")
    assert owner_is_alive(labels[OWNER])
    assert 58 <= int(labels[DEADLINE]) - time.time() <= 60


def _child(code: str) -> tuple[subprocess.Popen[str], str]:
    """A process that prints its own label, then runs `code`."""
    program = f"from sandbox.engine import *; print(owner_labels(9)[OWNER], flush=True); {code}"
    child = subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE)
    assert child.stdout
    return child, child.stdout.readline().strip()


def test_a_label_dies_with_its_process_even_before_that_is_reaped() -> None:
    child, label = _child("import time; time.sleep(60)")
    assert owner_is_alive(label)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not owner_is_alive(label)
    child.wait()
    assert not owner_is_alive(label)


def test_a_reused_pid_is_not_the_owner() -> None:
    pid, start, machine = owner_labels(60)[OWNER].split(":")
    assert not owner_is_alive(f"{pid}:{int(start) + 1}:{machine}")


def test_no_owner_survives_a_reboot() -> None:
    pid, start, machine = owner_labels(60)[OWNER].split(":")
    namespace = machine.partition(".")[2]
    assert not owner_is_alive(f"{pid}:{start}:00000000-0000-0000-0000-000000000000.{namespace}")


def test_an_owner_in_another_pid_namespace_is_left_to_its_deadline() -> None:
    _, start, machine = owner_labels(60)[OWNER].split(":")
    boot = machine.partition(".")[0]
    assert owner_is_alive(f"999999999:{start}:{boot}.1")


@pytest.mark.parametrize("label", ["", "x", "1:2", "1:x:boot.3", "someone else's"])
def test_a_label_that_is_not_ours_is_left_alone(label: str) -> None:
    assert owner_is_alive(label)
