"""Attacks on what judges: everything that a naive verifier would load from the file system that it judges.

| attack | stopped by |
|---|---|
| interpreter, pytest, sh, bash, cat, wc replaced | own interpreter, loader, libraries; the runtime starts no program |
| conftest, pytest.ini, pyproject, plugins, packages | own -c, --noconftest, no autoload; only the tests are collected |
| sitecustomize, usercustomize, .pth, PYTHONPATH, cwd | -I and -S; an environment that the launcher clears |
| ld.so.preload, default library folders, nss, gconv | paths patched out of our loader and C library |
| python311.zip | an empty one lies where the interpreter looks |
| openssl.cnf | OPENSSL_CONF names an empty file of ours, and the default is patched out of libcrypto |
| profile, bashrc, /etc/environment | no shell and no login is part of a verdict |
| a frozen clock in every program (libfaketime) | it is a preloaded library, which the verifier does not load |

Every trap is sprung once in the sandbox, to prove that it is one. None raises an integrity flag: all are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pipeline.admission.lint import lint_gate
from pipeline.types import Verifier, VerifierFile
from sandbox.building.base_images import BaseImages
from sandbox.protocol import Backend
from sandbox.types import FrozenState
from tests.contract.attacks import ANSWER, DONE, MARKS, Stage, library, no_mark_tests

pytestmark = pytest.mark.docker

SITE = "/usr/lib/python3/dist-packages"
LIBRARIES = "/usr/lib/$(uname -m)-linux-gnu"


def python(name: str) -> str:
    """Python that makes a mark."""
    return f'open("{MARKS}/{name}", "w").close()'


def replaced(name: str, program: str) -> str:
    """A program that makes a mark and then is what it was."""
    return (
        f"mv {program} {program}.real; printf '#!/bin/dash\\n: > {MARKS}/{name}\\nexec {program}.real \"$@\"\\n' "
        f"> {program}; chmod +x {program}"
    )


# Name -> how it is planted, and how a program that is not careful springs it.
TRAPS: dict[str, tuple[str, str]] = {
    "conftest": (
        f"for d in / /work /tmp {SITE}; do mkdir -p $d; echo '{python('conftest')}' > $d/conftest.py; done",
        "cd /work; python3 -c 'import conftest'",
    ),
    "pytest_ini": (
        f"echo '{python('pytest_ini')}' > {SITE}/trap_ini.py; "
        "for d in / /work; do printf '[pytest]\\naddopts = --collect-only -p trap_ini\\n' > $d/pytest.ini; done; "
        "printf '[tool:pytest]\\naddopts = --collect-only -p trap_ini\\n' > /setup.cfg",
        "/usr/bin/python3 -c 'import trap_ini'",
    ),
    "pyproject": (
        f"echo '{python('pyproject')}' > {SITE}/trap_project.py; for d in / /work; do printf "
        "'[tool.pytest.ini_options]\\naddopts = \"--collect-only -p trap_project\"\\n' > $d/pyproject.toml; done",
        "/usr/bin/python3 -c 'import trap_project'",
    ),
    "entry_point": (
        f"echo '{python('entry_point')}' > {SITE}/trap_plugin.py; mkdir {SITE}/trap-1.dist-info; "
        f"printf '[pytest11]\\ntrap = trap_plugin\\n' > {SITE}/trap-1.dist-info/entry_points.txt; "
        f"printf 'Metadata-Version: 2.1\\nName: trap\\nVersion: 1\\n' > {SITE}/trap-1.dist-info/METADATA",
        "/usr/bin/python3 -c 'from importlib.metadata import entry_points as e; [p.load() for p in e(name=\"trap\")]'",
    ),
    "package_marker": (
        f"echo '{python('package_marker')}' | tee /__init__.py > /work/__init__.py",
        "cd /; python3 -c 'import work'",
    ),
    "shadow_in_cwd": (
        f"for m in json pytest ssl; do echo '{python('shadow_in_cwd')}' | tee /$m.py > /work/$m.py; done",
        "cd /work; python3 -c 'import json'",
    ),
    "sitecustomize": (
        f"echo '{python('sitecustomize')}' | tee /usr/lib/python3.11/sitecustomize.py > {SITE}/sitecustomize.py",
        "/usr/bin/python3 -c pass",
    ),
    "usercustomize": (
        f"d=~/.local/lib/python3.11/site-packages; mkdir -p $d; echo '{python('usercustomize')}' > $d/usercustomize.py",
        "/usr/bin/python3 -c pass",
    ),
    "pth": (
        f"echo 'import builtins; {python('pth')}' > {SITE}/trap.pth",
        "/usr/bin/python3 -c pass",
    ),
    "pythonpath": (
        "echo 'export PYTHONPATH=/work LD_PRELOAD=/traps/preload.so BASH_ENV=/traps/env' | tee -a /etc/profile "
        f"/root/.bashrc /root/.profile /etc/environment; mkdir -p /traps; echo ': > {MARKS}/pythonpath' > /traps/env",
        "BASH_ENV=/traps/env bash -c true",
    ),
    "zip": (
        f"mkdir /tmp/z; echo '{python('zip')}' > /tmp/z/json.py; cd /tmp/z; /usr/bin/python3 -m zipfile -c "
        "/lib/python311.zip json.py; cp /lib/python311.zip /usr/local/lib/; cp /lib/python311.zip /",
        "/usr/bin/python3 -c 'import json'",
    ),
    "openssl": (
        f"{library('openssl')}; printf 'openssl_conf = o\\n[o]\\nproviders = p\\n[p]\\ntrap = t\\n[t]\\n"
        "module = /traps/openssl.so\\nactivate = 1\\n' | tee /etc/ssl/openssl.cnf > /usr/lib/ssl/openssl.cnf",
        "/usr/bin/python3 -c 'import ssl, hashlib; hashlib.new(\"sha256\")'",
    ),
    "nss": (
        f"{library('nss')}; cp /traps/nss.so {LIBRARIES}/libnss_trap.so.2; cp /traps/nss.so /usr/lib/libnss_trap.so.2; "
        "printf 'passwd: trap files\\nhosts: trap files\\n' > /etc/nsswitch.conf",
        "/usr/bin/python3 -c 'import pwd; pwd.getpwnam(\"root\")'",
    ),
    "library": (
        f"{library('library')}; for l in libsqlite3.so.0 libgcc_s.so.1 libz.so.1; do cp /traps/library.so "
        f"{LIBRARIES}/$l; cp /traps/library.so /usr/lib/$l; done; ldconfig",
        "/usr/bin/python3 -c 'import sqlite3'",
    ),
    "gconv": (
        f"{library('gconv')}; d={LIBRARIES}/gconv; mkdir -p $d; rm -f $d/gconv-modules.cache; "
        "printf 'module TRAP// INTERNAL /traps/gconv 1\\nmodule INTERNAL TRAP// /traps/gconv 1\\n' > $d/gconv-modules",
        "echo x | iconv -f TRAP -t UTF-8",
    ),
    "interpreter": (
        "; ".join(replaced("interpreter", p) for p in ("/usr/bin/python3.11",)),
        "/usr/bin/python3 -c pass",
    ),
    "pytest": (
        f"printf '#!/bin/dash\\n: > {MARKS}/pytest\\necho 1 passed\\n' | tee /usr/local/bin/pytest > /usr/bin/pytest; "
        "chmod +x /usr/local/bin/pytest /usr/bin/pytest",
        "pytest",
    ),
    "shims": (
        f"for p in cat wc diff test; do printf '#!/bin/dash\\n: > {MARKS}/shims\\necho done\\n' > /usr/local/bin/$p; "
        "chmod +x /usr/local/bin/$p; done",
        "cat /answer",
    ),
    "bash": (replaced("bash", "/bin/bash"), "/bin/bash -c true"),
    "sh": (
        "cp /bin/dash /bin/sh.real; rm /bin/sh; "
        f"printf '#!/bin/dash\\n: > {MARKS}/sh\\nexec /bin/sh.real \"$@\"\\n' > /bin/sh; chmod +x /bin/sh",
        "/bin/sh -c true",
    ),
    "faketime": (
        "printf '#include <fcntl.h>\\n#include <time.h>\\n#include <unistd.h>\\n"
        f'time_t time(time_t *t) {{ close(open("{MARKS}/faketime", 65, 438)); if (t) *t = 1; return 1; }}\\n'
        "int clock_gettime(clockid_t c, struct timespec *t) { t->tv_sec = 1; t->tv_nsec = 0; return time(0) - 1; }\\n' "
        "| gcc -shared -fPIC -o /traps/faketime.so -x c -",
        "LD_PRELOAD=/traps/faketime.so date",
    ),
    "preload": (
        f"{library('preload')}; printf '/traps/preload.so\\n/traps/faketime.so\\n' > /etc/ld.so.preload",
        "env true",
    ),
}
# What makes a careless verifier fall into the traps: it looks up a user, and loads what is usually loaded.
VERIFIER = (
    ANSWER
    + "import hashlib, json, locale, pwd, sqlite3, ssl, time, zlib\n"
    + "def test_looks_things_up():\n"
    + "    assert pwd.getpwnam('root').pw_uid == 0 and hashlib.new('sha256').digest_size == 32\n"
    + "    assert sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,) and ssl.create_default_context()\n"
    + "    assert time.time() > 1e9 and json.loads('[1]') == [1] and zlib.decompress(zlib.compress(b'x')) == b'x'\n"
    + no_mark_tests(list(TRAPS))
)
NAMES = ("test_answer", "test_looks_things_up", *(f"test_no_mark_{name}" for name in TRAPS))


@pytest.fixture(scope="module")
def stage(backend: Backend, bases: BaseImages) -> Iterator[Stage]:
    """Sandboxes with Python and a C compiler."""
    with ExitStack() as stack:
        yield Stage(backend, bases.toolchain("python").digest, stack)


@pytest.fixture(scope="module")
def trapped(stage: Stage) -> FrozenState:
    """The state of an agent that did nothing but set every trap."""
    return stage.acted([f"{plant}\n({spring})" for plant, spring in TRAPS.values()])


@pytest.fixture(scope="module")
def undone(stage: Stage, trapped: FrozenState) -> dict[str, str]:
    """What a verifier says about it."""
    return stage.outcomes(trapped, VERIFIER)


@pytest.mark.parametrize("trap", TRAPS)
def test_attack_trap_in_the_judged_file_system(
    trap: str, stage: Stage, trapped: FrozenState, undone: dict[str, str]
) -> None:
    assert trap in stage.marks, "the trap is none"
    assert undone[f"test_no_mark_{trap}"] == "passed"
    assert (undone["test_answer"], undone["test_looks_things_up"]) == ("failed", "passed")


def test_attack_traps_do_not_hinder_an_honest_verdict(stage: Stage, trapped: FrozenState) -> None:
    assert stage.verdict(stage.acted_on(trapped, [DONE]), VERIFIER, *NAMES) == "passed"


@pytest.mark.parametrize("program", ["cat", "wc", "sh", "bash"])
def test_attack_shim_is_never_asked_by_a_verifier(program: str) -> None:
    text = (
        "import subprocess\ndef test_it():\n"
        f"    assert subprocess.run(['{program}', '/answer'], timeout=5).returncode == 0\n"
    )
    gate = lint_gate(Verifier(files=(VerifierFile(path="test_it.py", content=text),)))
    assert not gate.passed
    assert program in gate.evidence
