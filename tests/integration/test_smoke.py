"""Images that work and images that are broken on purpose: sandboxes of toolchains with small projects in them."""

from __future__ import annotations

import io
import os
import shlex
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from pipeline.checkout import Tree
from pipeline.smoke.check import check_image
from pipeline.types import ImageCheck, Language, Repository
from sandbox.backends.docker import DockerBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Sandbox
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

# A toolchain that is not there yet is made from packages.
pytestmark = [pytest.mark.docker, pytest.mark.network]

WORKDIR = "/workspace/fruit"
Start = Callable[[str], Sandbox]
Files = dict[str, str]
Check = Callable[..., ImageCheck]


@pytest.fixture(scope="module")
def client(data_folder: Path) -> Iterator[docker.DockerClient]:
    client = connect(data_folder)
    yield client
    client.close()


@pytest.fixture(scope="module")
def bases(client: docker.DockerClient, data_folder: Path) -> BaseImages:
    bundle = os.environ.get("SSL_CERT_FILE")
    return BaseImages(client, BaseImageConfig(ca_bundle=Path(bundle) if bundle else None), data_folder)


@pytest.fixture
def start(client: docker.DockerClient, bases: BaseImages) -> Iterator[Start]:
    """Starts a sandbox of the toolchain of a language."""
    backend = DockerBackend(client, VerifierRuntime(client, bases))
    started: list[Sandbox] = []

    def of(language: str) -> Sandbox:
        started.append(backend.start(bases.toolchain(language).digest, Limits(memory_mb=1024, lifetime_s=300)))
        return started[-1]

    yield of
    for sandbox in started:
        sandbox.close()


@pytest.fixture
def check(start: Start, tmp_path: Path) -> Check:
    """Checks a project: `cloned` is its tree, `added` what a build put into the image, `commands` what it ran."""

    def of(
        language: Language,
        cloned: Files,
        *commands: str,
        added: Files | None = None,
        toolchain: str | None = None,
        tests_s: int = 60,
    ) -> ImageCheck:
        sandbox = start(toolchain or language)
        prepare(sandbox, cloned, added or {}, commands)
        repository = Repository(source="local", full_name="owner/fruit", commit="1", language=language, locator=".")
        return check_image(repository, tree_of(tmp_path, cloned), sandbox, tests_timeout_s=tests_s)

    return of


def prepare(sandbox: Sandbox, cloned: Files, added: Files, commands: tuple[str, ...]) -> None:
    sandbox.put({f"{WORKDIR}/{name}": text.encode() for name, text in cloned.items()})
    if added:
        sandbox.put({name: text.encode() for name, text in added.items()}, mode=0o755)
    for command in (f"cd {WORKDIR}", *commands):
        done = sandbox.execute(command, timeout_s=60)
        assert done.exit_code == 0, done.output


def tree_of(folder: Path, files: Files) -> Tree:
    with tarfile.open(folder / "tree.tar", "w:") as archive:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name].encode())
            archive.addfile(info, io.BytesIO(files[name].encode()))
    return Tree(folder / "tree.tar")


def installed(script: str) -> Files:
    """What installing the package `fruit` from the tree puts into a Python; INSTALL puts it there."""
    place = "/tmp/site"
    info = f"{place}/fruit-1.dist-info"
    return {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: fruit\nVersion: 1\n",
        f"{info}/direct_url.json": f'{{"url": "file://{WORKDIR}", "dir_info": {{}}}}',
        f"{info}/entry_points.txt": "[console_scripts]\npeel = fruit.cli:main\n",
        f"{info}/RECORD": "fruit/__init__.py,,\nfruit/cli.py,,\n../../../bin/peel,,\n",
        f"{place}/fruit/__init__.py": "def taste():\n    return 'sweet'\n",
        f"{place}/fruit/cli.py": script,
        "/tmp/scripts/peel": "#!/usr/bin/env python3\nfrom fruit.cli import main\nmain()\n",
    }


INSTALL = (
    "cp -r /tmp/site/. \"$(python3 -c 'import site; print(site.getsitepackages()[0])')\""
    ' && cp /tmp/scripts/peel "$(dirname "$(command -v python3)")" && rm -r /tmp/site /tmp/scripts'
)


PEEL = "import argparse\ndef main():\n    argparse.ArgumentParser(prog='peel').parse_args()\n"
PYPROJECT = {"pyproject.toml": '[project]\nname = "fruit"\nversion = "1"\n'}


class TestPython:
    def test_a_console_script_of_the_project_runs(self, check: Check) -> None:
        found = check("python", PYPROJECT, INSTALL, added=installed(PEEL))
        assert (found.smoke_ok, found.smoke_command) == (True, "cd /tmp && peel --help"), found.smoke_log

    def test_a_console_script_that_lacks_a_dependency_is_not_made_good_by_an_import(self, check: Check) -> None:
        found = check("python", PYPROJECT, INSTALL, added=installed("import no_such_dependency\n" + PEEL))
        assert not found.smoke_ok and "no_such_dependency" in found.smoke_log

    def test_an_application_that_is_not_installed_is_imported_from_its_tree(self, check: Check) -> None:
        cloned = {"requirements.txt": "", "shop/__init__.py": "", "shop/app.py": "import json\ndef sell(): ...\n"}
        assert check("python", cloned).smoke_ok

    def test_an_application_whose_requirements_are_missing_does_not_work(self, check: Check) -> None:
        cloned = {"requirements.txt": "flask\n", "app.py": "from no_such_framework import Flask\napp = Flask()\n"}
        found = check("python", cloned)
        assert not found.smoke_ok and "no_such_framework" in found.smoke_log

    def test_a_server_that_opens_its_port_works(self, check: Check) -> None:
        serve = "import http.server\nhttp.server.HTTPServer(('', 8000), http.server.BaseHTTPRequestHandler)"
        found = check("python", {"server.py": f"{serve}.serve_forever()\n"})
        assert found.smoke_ok and "it listens" in found.smoke_log

    def test_a_script_that_wants_arguments_works(self, check: Check) -> None:
        found = check("python", {"count.py": "import sys\nprint(len(open(sys.argv[1]).read()))\n"})
        assert (found.smoke_ok, found.smoke_command) == (True, "python3 count.py"), found.smoke_log

    def test_nothing_but_the_toolchain_does_not_work(self, check: Check) -> None:
        found = check("python", {"README.md": "fruit\n", "setup.cfg": "[tool:pytest]\n"})
        assert not found.smoke_ok and found.tests_ok is None

    @pytest.mark.parametrize(("value", "passed"), [("'sweet'", True), ("'sour'", False)])
    def test_its_own_tests_give_a_label(self, check: Check, value: str, passed: bool) -> None:
        test = "import unittest, fruit\nclass T(unittest.TestCase):\n    def test_taste(self):\n"
        cloned = {"fruit.py": "def taste():\n    return 'sweet'\n"}
        cloned["test_fruit.py"] = f"{test}        self.assertEqual(fruit.taste(), {value})\n"
        found = check("python", cloned)
        assert (found.smoke_ok, found.tests_ok) == (True, passed), found.tests_log

    def test_tests_that_never_end_give_no_label(self, check: Check) -> None:
        test = "import time, unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        time.sleep(60)\n"
        found = check("python", {"fruit.py": "import json\n", "test_fruit.py": test}, tests_s=3)
        assert (found.smoke_ok, found.tests_ok) == (True, None)
        assert found.tests_command is not None and "did not end" in found.tests_log


class TestWeb:
    def test_a_package_is_loaded(self, check: Check) -> None:
        cloned = {
            "package.json": '{"name": "fruit", "main": "lib/fruit.js"}',
            "lib/fruit.js": "exports.peel = () => 1;\n",
        }
        assert check("javascript", cloned).smoke_ok

    @pytest.mark.parametrize("main", ["require('no-such-dependency');", "", "/* nothing */"])
    def test_a_package_that_lacks_something_or_is_empty_does_not_work(self, check: Check, main: str) -> None:
        cloned = {"package.json": '{"name": "fruit", "main": "fruit.js"}', "fruit.js": main}
        assert not check("javascript", cloned).smoke_ok

    def test_a_program_that_was_not_built_is_not_made_good_by_a_page(self, check: Check) -> None:
        package = '{"name": "fruit", "type": "module", "bin": {"fruit": "dist/cli.js"}}'
        cloned = {"package.json": package, "index.html": "<p>Fruit</p>", "helper.js": "export const a = 1;"}
        found = check("javascript", cloned)
        assert not found.smoke_ok and "dist/cli.js" in found.smoke_command

    def test_a_script_for_browsers_runs_with_a_stand_in(self, check: Check) -> None:
        script = "(function ($) { $.fn.peel = function () { return this; }; document.title = 'x'; })(jQuery);\n"
        assert check("javascript", {"src/jquery.fruit.js": script}).smoke_ok

    def test_a_script_that_fails_does_not_work(self, check: Check) -> None:
        assert not check("javascript", {"src/fruit.js": "noSuchThing.peel();\n"}).smoke_ok

    def test_a_page_is_served(self, check: Check) -> None:
        cloned = {"index.html": '<h1>Fruit</h1><script src="fruit.js"></script>', "fruit.js": "1;"}
        assert check("html", cloned, toolchain="python").smoke_ok

    def test_an_empty_page_does_not_work(self, check: Check) -> None:
        cloned = {"index.html": "<html><body></body></html>", "other.html": ""}
        assert not check("html", cloned, toolchain="python").smoke_ok


C_PROGRAM = '#include <stdio.h>\nint main(void) {{ {} puts("usage: fruit"); return 0; }}\n'
MAKEFILE = {"Makefile": "PROG = fruit\nfruit: fruit.c\n\tcc -o fruit fruit.c\n"}
C_LIBRARY = {"fruit.h": "int peel(int);\n", "fruit.c": "int slice(int);\nint peel(int n) { return slice(n); }\n"}
SLICE = "int slice(int n) { return n / 2; }\n"
TO_USR_LOCAL = "cp fruit.h /usr/local/include/ && cd /tmp"


class TestNative:
    def test_an_installed_program_runs(self, check: Check) -> None:
        cloned = {**MAKEFILE, "fruit.c": C_PROGRAM.format("")}
        found = check("c", cloned, "cc -o /usr/local/bin/fruit fruit.c")
        assert (found.smoke_ok, found.smoke_command) == (True, "/usr/local/bin/fruit --help")

    def test_a_program_that_crashes_with_a_signal_does_not_work(self, check: Check) -> None:
        cloned = {**MAKEFILE, "fruit.c": C_PROGRAM.format("*(volatile int *)0 = 1;")}
        found = check("c", cloned, "cc -o /usr/local/bin/fruit fruit.c")
        assert not found.smoke_ok and "139" in found.smoke_log

    def test_a_program_that_lacks_its_library_does_not_work(self, check: Check) -> None:
        cloned = {**MAKEFILE, **C_LIBRARY, "main.c": C_PROGRAM.format("int peel(int); peel(1);"), "slice.c": SLICE}
        library = "cc -shared -fPIC -o /tmp/libpeel.so fruit.c slice.c"
        build = f"{library} && cc -o /usr/local/bin/fruit main.c /tmp/libpeel.so && rm /tmp/libpeel.so"
        found = check("c", cloned, build)
        assert not found.smoke_ok and "error while loading shared libraries" in found.smoke_log

    def test_an_installed_library_is_linked_and_loaded(self, check: Check) -> None:
        build = f"cc -shared -fPIC -o /usr/local/lib/libfruit.so fruit.c slice.c && {TO_USR_LOCAL} && cd {WORKDIR}"
        found = check("c", {**C_LIBRARY, "slice.c": SLICE}, build)
        assert found.smoke_ok, found.smoke_log

    @pytest.mark.parametrize("library", ["cc -shared -fPIC -o /usr/local/lib/libfruit.so fruit.c", "true"])
    def test_a_library_that_is_not_whole_or_not_there_does_not_work(self, check: Check, library: str) -> None:
        found = check("c", {**C_LIBRARY, "slice.c": SLICE}, f"{library} && {TO_USR_LOCAL} && cd {WORKDIR}")
        assert not found.smoke_ok

    def test_a_library_of_headers_alone_is_compiled(self, check: Check) -> None:
        cloned = {"include/fruit.h": "static inline int peel(int n) { return n; }\n", "test/test.c": "int main(){}"}
        assert check("c", cloned).smoke_ok

    def test_the_tree_alone_does_not_work(self, check: Check) -> None:
        assert not check("c", {**MAKEFILE, "fruit.c": C_PROGRAM.format("")}).smoke_ok


@pytest.mark.long
class TestGo:
    def test_a_package_without_a_program_is_linked_into_one(self, check: Check) -> None:
        cloned = {"go.mod": "module example.org/fruit\n\ngo 1.18\n", "fruit.go": "package fruit\n\nvar Peel = 1\n"}
        cloned["fruit_test.go"] = 'package fruit\n\nimport "testing"\n\nfunc TestPeel(t *testing.T) {}\n'
        found = check("go", cloned)
        assert (found.smoke_ok, found.tests_ok) == (True, True), found.smoke_log

    def test_a_package_whose_dependency_is_missing_does_not_work(self, check: Check) -> None:
        source = 'package fruit\n\nimport _ "example.invalid/no/such"\n'
        assert not check("go", {"go.mod": "module example.org/fruit\n\ngo 1.18\n", "fruit.go": source}).smoke_ok


@pytest.mark.long
class TestJava:
    SOURCES: Files = {  # noqa: RUF012 - nobody changes it
        "src/main/java/org/fruit/Apple.java": "package org.fruit;\npublic class Apple extends Fruit {}\n",
        "src/main/java/org/fruit/Fruit.java": "package org.fruit;\npublic class Fruit {}\n",
    }
    BUILD = "javac -d /tmp/classes src/main/java/org/fruit/*.java && jar cf /usr/local/lib/fruit.jar -C /tmp/classes ."

    def test_classes_of_a_jar_are_loaded(self, check: Check) -> None:
        found = check("java", self.SOURCES, self.BUILD)
        assert found.smoke_ok, found.smoke_log

    def test_classes_whose_parents_are_missing_do_not_work(self, check: Check) -> None:
        cloned = {
            **self.SOURCES,
            "src/main/java/org/fruit/Pear.java": "package org.fruit;\npublic class Pear extends Fruit {}\n",
            "src/main/java/org/fruit/Plum.java": "package org.fruit;\npublic class Plum extends Fruit {}\n",
        }
        without = self.BUILD.replace("jar cf", "rm /tmp/classes/org/fruit/Fruit.class && jar cf")
        assert not check("java", cloned, without).smoke_ok


@pytest.mark.long
class TestPhp:
    LOADER = """<?php
spl_autoload_register(function ($class) {
    $file = dirname(__DIR__) . '/src/' . basename(strtr($class, '\\\\', '/')) . '.php';
    if (is_file($file)) { require $file; }
});
"""

    @pytest.mark.parametrize(("parent", "works"), [("Food", True), ("NoSuchLibrary", False)])
    def test_classes_are_loaded_with_what_they_extend(self, check: Check, parent: str, works: bool) -> None:
        cloned = {
            "composer.json": '{"autoload": {"psr-4": {"Fruit\\\\": "src/"}}}',
            "src/Apple.php": f"<?php\nnamespace Fruit;\nclass Apple extends {parent} {{}}\n",
            "src/Food.php": "<?php\nnamespace Fruit;\ninterface Edible {}\nclass Food {}\n",
            "src/Pear.php": f"<?php\nnamespace Fruit;\nclass Pear extends {parent} {{}}\n",
        }
        found = check("php", cloned, added={f"{WORKDIR}/vendor/autoload.php": self.LOADER})
        assert found.smoke_ok is works, found.smoke_log


def test_an_image_whose_working_directory_is_not_the_tree_does_not_work(check: Check) -> None:
    found = check("python", {"fruit.py": "import json\n"}, "cd /usr")
    assert not found.smoke_ok and "working directory" in found.smoke_log


def test_a_shell_that_keeps_nothing_does_not_work(check: Check) -> None:
    forgetful = f"PROMPT={shlex.quote('x')}; trap 'unset touchstone_kept' DEBUG"
    found = check("python", {"fruit.py": "import json\n"}, forgetful)
    assert not found.smoke_ok and "keeps no shell" in found.smoke_log


def test_a_sandbox_that_is_gone_is_our_fault_and_no_result(start: Start, tmp_path: Path) -> None:
    sandbox = start("python")
    sandbox.close()
    repository = Repository(source="local", full_name="owner/fruit", commit="1", language="python", locator=".")
    with pytest.raises(SandboxUnavailable):
        check_image(repository, tree_of(tmp_path, {"a.py": ""}), sandbox)
