"""What an exported task folder holds, whatever its texts are; nothing of it is run but its solution."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.harbor import export_tasks, task_files
from pipeline.exports.tasks import ExportedTask, NothingToExport, selected_tasks
from pipeline.exports.toml_text import toml_text
from pipeline.rows import instance_row
from pipeline.tables import Store
from pipeline.types import Repository, TaskInstance

HOSTILE = "Say \"\"\" and ''' and \\ and \x7f and $(id) `id` ${HOME}\n[agent]\ntimeout_sec = 1\n# canary é 漢 🦉\n\n"


def exported(task: TaskInstance) -> ExportedTask:
    return ExportedTask(
        instance=task,
        repository="local/words",
        source="local",
        commit="1",
        license="MIT",
        evidence={"oracle": "1 tests passed, 2 times"},
        flake_rate=0.0,
    )


def files_of(task: TaskInstance) -> dict[str, str]:
    return task_files(exported(task), "runtime:1", "image:1")


def settings_of(task: TaskInstance) -> dict[str, dict[str, object]]:
    return tomllib.loads(files_of(task)["task.toml"])


def test_a_folder_has_the_parts_that_harbor_looks_for(task: TaskInstance, tmp_path: Path) -> None:
    made = export_tasks([exported(task)], tmp_path / "out", "runtime:1", lambda image: f"name-of-{image}")
    folder = tmp_path / "out" / task.instance_id
    assert made.tasks == (task.instance_id,)
    scripts = {"solution/solve.sh", "tests/test.sh"}
    texts = {"task.toml", "instruction.md", "environment/Dockerfile", "environment/docker-compose.yaml"}
    assert all((folder / name).stat().st_mode & 0o777 == 0o755 for name in scripts)
    assert all((folder / name).is_file() for name in texts)
    assert (folder / "environment" / "Dockerfile").read_text().startswith(f"FROM name-of-{task.image_digest}\n")


def test_the_settings_name_the_task_its_origin_and_its_limits(task: TaskInstance) -> None:
    settings = settings_of(task)
    assert settings["schema_version"] == "1.4"
    assert settings["task"]["name"] == f"touchstone/{task.instance_id}"
    metadata = settings["metadata"]
    assert (metadata["instance_id"], metadata["repository"], metadata["commit"]) == (
        task.instance_id,
        "local/words",
        "1",
    )
    assert (metadata["license"], metadata["flake_rate"]) == ("MIT", 0.0)
    assert metadata["verifier_sha256"] == task.verifier.sha256
    assert settings["environment"] == {"cpus": 1.0, "memory_mb": 2048}
    assert settings["verifier"]["timeout_sec"] > task.verifier.timeout_s


def test_tests_and_solution_are_in_no_file_of_the_image(task: TaskInstance) -> None:
    image = [text for path, text in files_of(task).items() if path.startswith("environment/")]
    assert not any(secret in text for text in image for secret in (*task.solution, "test_count"))


def test_the_verifier_comes_along_byte_by_byte(task: TaskInstance, tmp_path: Path) -> None:
    content = "# é\r\n" + task.verifier.files[0].content
    file = task.verifier.files[0].model_copy(update={"content": content})
    task = task.model_copy(update={"verifier": task.verifier.model_copy(update={"files": (file,)})})
    export_tasks([exported(task)], tmp_path / "out", "runtime:1", str)
    written = tmp_path / "out" / task.instance_id / "tests" / "verifier" / "test_state.py"
    assert written.read_bytes() == content.encode()


def test_hostile_texts_stay_texts_in_the_settings(task: TaskInstance) -> None:
    origin = {"heading": HOSTILE, "a.b c": HOSTILE, "": "empty"}
    settings = settings_of(task.model_copy(update={"provenance": origin, "family": HOSTILE}))
    assert settings["metadata"]["provenance"] == origin
    assert settings["metadata"]["family"] == HOSTILE
    assert settings["agent"]["timeout_sec"] == 3600.0


def test_what_toml_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_text({"nothing": None})


def test_an_instruction_that_begins_like_a_mark_against_training_is_kept_from_harbor(task: TaskInstance) -> None:
    hidden = task.model_copy(update={"instruction": "# Canary birds\nCount them."})
    assert files_of(hidden)["instruction.md"] == "\n# Canary birds\nCount them.\n"
    assert files_of(task)["instruction.md"] == f"{task.instruction}\n"


def solve(task: TaskInstance, folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    text = files_of(task.model_copy(update={"solution": commands}))["solution/solve.sh"]
    (folder / "solve.sh").write_bytes(text.encode())
    return subprocess.run(
        ["bash", str(folder / "solve.sh")], cwd=folder, capture_output=True, text=True, timeout=20, check=False
    )


def test_the_commands_of_a_solution_share_one_shell(task: TaskInstance, tmp_path: Path) -> None:
    done = solve(task, tmp_path, "mkdir in && cd in", 'name=owl; say() { echo "$1 $name"; }', "say the > out.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "in" / "out.txt").read_text() == "the owl\n"


def test_the_first_command_that_fails_ends_a_solution_with_its_code(task: TaskInstance, tmp_path: Path) -> None:
    done = solve(task, tmp_path, "false; touch one", "(exit 7)", "touch two")
    assert done.returncode == 7
    assert (tmp_path / "one").exists() and not (tmp_path / "two").exists()


def test_hostile_commands_are_run_as_they_are(task: TaskInstance, tmp_path: Path) -> None:
    document = "cat > a.txt << 'END_OF_COMMAND_1'\n'\"$HOME`\\\nEND_OF_COMMAND_1"
    done = solve(task, tmp_path, document, "cat; printf '%s' '  x\\n'  > b.txt # comment", "  echo \\\n  c > c.txt")
    assert done.returncode == 0, done.stderr
    read = [(tmp_path / name).read_text() for name in ("a.txt", "b.txt", "c.txt")]
    assert read == ["'\"$HOME`\\\n", "  x\\n", "c\n"]


def test_a_folder_that_is_not_empty_is_left_alone(task: TaskInstance, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ConfigurationError, match="not empty"):
        export_tasks([exported(task)], tmp_path, "runtime:1", str)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_an_export_that_fails_leaves_nothing(task: TaskInstance, tmp_path: Path) -> None:
    def gone(image: str) -> str:
        raise LookupError(image)

    with pytest.raises(LookupError):
        export_tasks([exported(task)], tmp_path / "out", "runtime:1", gone)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def store(task: TaskInstance, tmp_path: Path) -> Store:
    """Two admitted instances, of which one is a near copy, and one that was rejected."""
    store = Store(tmp_path / "data")
    repository = Repository(source="local", full_name="local/words", commit="1", language="python", locator="words")
    tasks = [task.model_copy(update={"instruction": text}) for text in ("one", "two", "three")]
    gates = [{"gate": "oracle", "passed": True, "evidence": "passed"}]
    instances = [
        instance_row(one) | {"admitted": one.instruction != "three", "gates": gates, "item_key": one.instance_id}
        for one in tasks
    ]
    store.append("instances", instances, app_id="tests", sequence=1)
    selections = [
        {"instance_id": one.instance_id, "selected": one.instruction == "one", "item_key": one.instance_id}
        for one in tasks
    ]
    store.append("selections", selections, app_id="tests", sequence=1)
    row = {"repository_id": task.repository_id, "license": "MIT", "item_key": "r", **repository.model_dump()}
    store.append("repositories", [row], app_id="tests", sequence=1)
    return store


def test_only_selected_instances_are_exported_with_what_is_known_of_them(store: Store, task: TaskInstance) -> None:
    [found] = selected_tasks(store)
    assert found.instance == task.model_copy(update={"instruction": "one"})
    assert (found.repository, found.license, found.evidence) == ("local/words", "MIT", {"oracle": "passed"})


def test_an_id_of_no_admitted_instance_is_named(store: Store) -> None:
    with pytest.raises(NothingToExport, match="task-0"):
        selected_tasks(store, ["task-0"])


def test_an_export_of_nothing_says_what_makes_tasks(tmp_path: Path) -> None:
    with pytest.raises(NothingToExport, match="touchstone run"):
        selected_tasks(Store(tmp_path))


def test_the_expected_tests_stand_beside_the_judge(task: TaskInstance) -> None:
    expected = json.loads(files_of(task)["tests/expected.json"])
    assert expected["passing_tests"] == list(task.verifier.passing_tests)
    assert expected["conditions"]["order"] == "usual"
