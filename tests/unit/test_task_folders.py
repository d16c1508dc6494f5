"""Task folders of Harbor and Terminal-Bench 1 become repositories and tasks, or say why not."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig
from pipeline.dockerfiles import candidates
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.exports.harbor import task_files
from pipeline.exports.tasks import ExportedTask
from pipeline.generators.protocol import GeneratorInput
from pipeline.generators.task_folders import TaskFolders
from pipeline.sources.task_folders import TaskFoldersConfig, TaskFolderSource, TaskFoldersPath
from pipeline.types import Repository, TaskInstance
from sandbox.protocol import Sandbox
from sandbox.types import ImageSpec

TESTS = "from pathlib import Path\n\ndef test_count():\n    assert Path('/app/count').read_text() == '3\\n'\n"
LIVE = "from http.client import HTTPConnection\n\ndef test_page():\n    assert HTTPConnection('localhost', 80)\n"
HARBOR: Mapping[str, str] = {
    "task.toml": (
        'version = "1.0"\n[metadata]\ndifficulty = "hard"\ncategory = "File Operations"\n'
        "[verifier]\ntimeout_sec = 90.0\n[environment]\nmemory_mb = 512\n"
    ),
    "instruction.md": "<!-- harbor-canary GUID 1 -->\n\nCount the lines of /app/words into /app/count.\n",
    "environment/Dockerfile": "FROM debian:bookworm-slim\nCOPY words /app/words",
    "environment/words": "a\nb\nc\n",
    "solution/solve.sh": "#!/bin/bash\n# harbor-canary GUID 1\nset -e\nwc -l < /app/words > /app/count\n",
    "tests/test.sh": "pip install pytest\npytest /tests/test_outputs.py\n",
    "tests/test_outputs.py": TESTS,
}
COMPOSE = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
      - MODE=x
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
"""
BENCH: Mapping[str, str] = {
    "task.yaml": (
        "# terminal-bench-canary GUID 2\ninstruction: |-\n  Count the lines of /app/words into /app/count.\n"
        "difficulty: easy\ncategory: file-operations\nparser_name: pytest\nmax_test_timeout_sec: 60.0\n"
    ),
    "Dockerfile": "FROM debian:bookworm-slim\nCOPY . /app\n",
    "docker-compose.yaml": COMPOSE,
    "words": "a\nb\nc\n",
    "solution.sh": "#!/bin/bash\nwc -l < /app/words > /app/count\n",
    "run-tests.sh": "uv run pytest $TEST_DIR/test_outputs.py -rA\n",
    "tests/test_outputs.py": TESTS,
}


def folder_of(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    return root


def source_of(root: Path, *paths: str) -> TaskFolderSource:
    entries = tuple(TaskFoldersPath(path=Path(path)) for path in paths)
    return TaskFolderSource(TaskFoldersConfig(paths=entries), CheckoutConfig(), root)


def no_sandbox() -> Sandbox:
    raise AssertionError("a folder was run")


class Imported:
    """What the pipeline makes of one folder, without any engine."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        folder_of(root / "one", files)
        source = source_of(root, "one")
        [self.repository] = source.repositories(None)
        self.tree = root / "trees" / f"{source.fetch(self.repository, root / 'trees').tree_sha256}.tar"

    @property
    def task(self) -> TaskInstance:
        given = GeneratorInput(repository=self.repository, tree=self.tree, image_digest="sha256:1")
        [candidate] = TaskFolders().instances(given, no_sandbox)
        assert candidate.instance is not None, candidate.reason
        return candidate.instance

    @property
    def image(self) -> ImageSpec:
        [candidate] = candidates(self.repository, self.tree, lambda language, version=None: "none")
        return candidate.spec

    @property
    def context(self) -> list[str]:
        assert self.image.context is not None
        with tarfile.open(self.image.context) as archive:
            return [info.name for info in archive if info.isfile()]


def test_a_harbor_folder_becomes_a_task(tmp_path: Path) -> None:
    task = Imported(tmp_path, HARBOR).task
    assert task.instruction == "Count the lines of /app/words into /app/count."
    assert task.solution == ("(\nset -e\nwc -l < /app/words > /app/count\n)",)
    assert task.verifier.texts == {"test_outputs.py": TESTS}
    assert (task.verifier.timeout_s, task.limits.memory_mb) == (90, 512)
    assert (task.family, task.difficulty, task.state_scope) == ("file_operations", "hard", "full")
    assert (task.generator, task.provenance["format"]) == ("task_folders", "harbor")
    assert "GUID 1" in task.provenance["canary"]


def test_a_terminal_bench_folder_becomes_a_task(tmp_path: Path) -> None:
    task = Imported(tmp_path, BENCH).task
    assert task.instruction == "Count the lines of /app/words into /app/count."
    assert task.solution == ("(\nwc -l < /app/words > /app/count\n)",)
    assert (task.verifier.timeout_s, task.family, task.difficulty) == (60, "file_operations", "easy")
    assert "GUID 2" in task.provenance["canary"]


def test_the_steps_of_a_solution_are_its_commands(tmp_path: Path) -> None:
    files = {name: text for name, text in BENCH.items() if name != "solution.sh"}
    steps = "- command: cd /app\n  block: true\n  append_enter: true\n- command: wc -l < words > count\n"
    assert Imported(tmp_path, files | {"solution.yaml": steps}).task.solution == ("cd /app", "wc -l < words > count")


def test_files_beside_a_solution_lie_where_it_looks_for_them(tmp_path: Path) -> None:
    task = Imported(tmp_path, {**HARBOR, "solution/fix.patch": "it's\n"}).task
    assert task.solution[0] == "mkdir -p /solution && printf %s 'it'\"'\"'s\n' > /solution/fix.patch"


def test_the_image_of_a_harbor_folder_sees_its_environment_only(tmp_path: Path) -> None:
    imported = Imported(tmp_path, HARBOR)
    assert imported.image.dockerfile == HARBOR["environment/Dockerfile"] + "\n"
    assert imported.context == ["Dockerfile", "words"]


def test_the_image_of_a_terminal_bench_folder_sees_neither_tests_nor_solution(tmp_path: Path) -> None:
    imported = Imported(tmp_path, BENCH)
    assert imported.image.dockerfile == BENCH["Dockerfile"] + 'ENV MODE="x"\n'
    assert imported.context == ["Dockerfile", "words"]


def test_an_image_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    files = {name: text for name, text in HARBOR.items() if not name.startswith("environment/")}
    settings = (
        '[environment]\ndocker_image = "debian:bookworm"\nworkdir = "/app"\n[environment.env]\nMODE = "a \\"b\\""\n'
    )
    image = Imported(tmp_path, files | {"task.toml": settings}).image
    assert image.dockerfile == 'FROM debian:bookworm\nENV MODE="a \\"b\\""\nWORKDIR /app\n'
    assert image.context is None


def test_tests_that_speak_to_a_service_are_judged_while_it_runs(tmp_path: Path) -> None:
    assert Imported(tmp_path, {**HARBOR, "tests/test_outputs.py": LIVE}).task.state_scope == "live"


HARBOR_REFUSED: Mapping[str, tuple[dict[str, str | None], str]] = {
    "only a script": ({"tests/test.sh": "grep -q 3 /app/count\n", "tests/test_outputs.py": None}, "no_pytest_verifier"),
    "no tests": ({"tests/test_outputs.py": None}, "no_pytest_verifier"),
    "no runner": ({"tests/test.sh": None}, "no_pytest_verifier"),
    "expected files": ({"tests/expected.txt": "3\n"}, "tests_need_files"),
    "no solution": ({"solution/solve.sh": None}, "no_solution"),
    "empty solution": ({"solution/solve.sh": "#!/bin/bash\n"}, "no_solution"),
    "no instruction": ({"instruction.md": None}, "incomplete"),
    "bad settings": ({"task.toml": "[metadata\n"}, "unreadable"),
    "settings of other types": ({"task.toml": "metadata = 1\n"}, "unreadable"),
    "bad number": ({"task.toml": '[verifier]\ntimeout_sec = "soon"\n'}, "unreadable"),
    "several steps": ({"task.toml": '[[steps]]\nname = "one"\n'}, "multi_step"),
    "windows": ({"task.toml": '[environment]\nos = "windows"\n'}, "windows"),
    "accelerator": ({"task.toml": "[environment]\ngpus = 1\n"}, "needs_accelerator"),
    "separate": ({"task.toml": '[verifier]\nenvironment_mode = "separate"\n'}, "separate_verifier"),
    "secrets": ({"task.toml": '[verifier.env]\nKEY = "${KEY}"\n'}, "needs_variables"),
    "host variables": ({"task.toml": '[environment.env]\nKEY = "${KEY}"\n'}, "needs_variables"),
    "no image": ({"environment/Dockerfile": None}, "no_image"),
    "two services": (
        {"environment/docker-compose.yaml": "services:\n  main: {}\n  db:\n    image: postgres\n"},
        "several_services",
    ),
    "bad compose": ({"environment/docker-compose.yaml": "services: [\n"}, "unreadable"),
    "privileges": (
        {"environment/docker-compose.yaml": "services:\n  main:\n    privileged: true\n"},
        "needs_privileges",
    ),
    "mounts": (
        {"environment/docker-compose.yaml": "services:\n  main:\n    volumes: ['./data:/data']\n"},
        "needs_volumes",
    ),
}
BENCH_REFUSED: Mapping[str, tuple[dict[str, str | None], str]] = {
    "bad settings": ({"task.yaml": "instruction: [\n"}, "unreadable"),
    "settings of other types": ({"task.yaml": "- a\n"}, "unreadable"),
    "no instruction": ({"task.yaml": "difficulty: easy\n"}, "incomplete"),
    "other parser": ({"task.yaml": "instruction: do\nparser_name: swebench\n"}, "no_pytest_verifier"),
    "no solution": ({"solution.sh": None}, "no_solution"),
    "typed": (
        {"solution.sh": None, "solution.yaml": "- command: vim\n  append_enter: false\n"},
        "interactive_solution",
    ),
    "no image": ({"Dockerfile": None}, "no_image"),
    "two services": ({"docker-compose.yaml": "services:\n  client: {}\n  api: {}\n"}, "several_services"),
}


def changed(files: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in {**files, **changes}.items() if text is not None}


@pytest.mark.parametrize(("changes", "failure"), HARBOR_REFUSED.values(), ids=HARBOR_REFUSED)
def test_a_harbor_folder_is_refused_with_its_reason(
    tmp_path: Path, changes: dict[str, str | None], failure: str
) -> None:
    with pytest.raises(ItemRejected) as refused:
        Imported(tmp_path, changed(HARBOR, changes))
    assert refused.value.failure_class == failure, refused.value.reason


@pytest.mark.parametrize(("changes", "failure"), BENCH_REFUSED.values(), ids=BENCH_REFUSED)
def test_a_terminal_bench_folder_is_refused_with_its_reason(
    tmp_path: Path, changes: dict[str, str | None], failure: str
) -> None:
    with pytest.raises(ItemRejected) as refused:
        Imported(tmp_path, changed(BENCH, changes))
    assert refused.value.failure_class == failure, refused.value.reason


def own(task: TaskInstance) -> dict[str, str]:
    exported = ExportedTask(
        instance=task, repository="local/words", source="local", commit="1", license=None, evidence={}
    )
    return task_files(exported, "runtime:1", "image:1")


def test_our_own_export_comes_back_as_it_went(task: TaskInstance, tmp_path: Path) -> None:
    file = task.verifier.files[0].model_copy(update={"content": "def test_a():\r\n    assert 'é'\n"})
    task = task.model_copy(
        update={
            "instruction": "\n# a canary sings\n\nCount them. \n",
            "solution": ("cd data", "cat > a << 'E'\n  x\nE\n", " wc -l < words.txt"),
            "verifier": task.verifier.model_copy(update={"files": (file,), "timeout_s": 7}),
            "domain": "sql",
            "language": "shell",
            "seed": 3,
            "difficulty": "hard",
            "state_scope": "live",
            "context_ids": ("context-1",),
            "limits": task.limits.model_copy(update={"memory_mb": 512}),
        }
    )
    imported = Imported(tmp_path, own(task))
    assert imported.image.dockerfile == "FROM image:1\n"
    back = imported.task
    elsewhere = {"repository_id", "image_digest", "generator", "provenance"}
    assert back.model_dump(exclude=elsewhere) == task.model_dump(exclude=elsewhere)
    assert back.verifier.sha256 == task.verifier.sha256
    assert back.provenance["origin_instance_id"] == task.instance_id


def test_our_own_export_with_another_verifier_is_refused(task: TaskInstance, tmp_path: Path) -> None:
    files = own(task)
    files["tests/verifier/test_state.py"] += "# changed\n"
    with pytest.raises(ItemRejected, match="changed"):
        Imported(tmp_path, files)


def test_a_path_is_a_task_folder_or_a_folder_of_them(tmp_path: Path) -> None:
    folder_of(tmp_path / "many" / "a", HARBOR)
    folder_of(tmp_path / "many" / "b", BENCH)
    (tmp_path / "many" / "notes").mkdir()
    folder_of(tmp_path / "alone", HARBOR)
    listed = list(source_of(tmp_path, "many", "alone").repositories(None))
    assert [one.full_name for one in listed] == ["tasks/many/a", "tasks/many/b", "tasks/alone"]
    assert [one.locator for one in listed] == ["many/a", "many/b", "alone"]


@pytest.mark.parametrize(("paths", "said"), [(("nowhere",), "holds none"), (("one", "one"), "twice")])
def test_a_path_that_cannot_be_meant_stops_the_run(tmp_path: Path, paths: tuple[str, ...], said: str) -> None:
    folder_of(tmp_path / "one", HARBOR)
    with pytest.raises(ConfigurationError, match=said):
        list(source_of(tmp_path, *paths).repositories(None))


def test_a_folder_that_changed_or_went_since_it_was_listed_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path / "one", HARBOR)
    source = source_of(tmp_path, "one")
    [listed] = source.repositories(None)

    def refused(repository: Repository) -> str:
        with pytest.raises(ItemRejected) as rejection:
            source.fetch(repository, tmp_path / "trees")
        return rejection.value.failure_class

    (tmp_path / "one" / "instruction.md").write_text("Another one.\n")
    assert refused(listed) == "changed"
    (tmp_path / "one" / "task.toml").unlink()
    assert refused(listed) == "gone"
