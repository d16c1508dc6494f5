"""From a version of rows to a version of a model, with a tiny model on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.tasks import NothingToExport
from pipeline.schemas import Row
from tests.unit.hostile_rows import Chat, verified_row, version_of
from tests.unit.tiny_model import tiny_model
from training.backbone import LoraConfig
from training.data import TOKENS
from training.launch import command, fine_tune, main, read_config
from training.methods.sft import SftConfig

PROJECT = Path(__file__).resolve().parents[2]
CONFIG = """
[sft]
base = "tiny"
max_tokens = 256
epochs = 2
gradient_accumulation = 2
precision = "fp32"
lora = { rank = 2, alpha = 4 }
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a version of eight rows, two of them for validation, and a configuration beside it."""
    folder = tmp_path_factory.mktemp("data")
    place = folder / "snapshots/terminal/v0001"
    version_of(place, [row(f"train {number}") for number in range(6)], validation=[row("v 1"), row("v 2")])
    tiny_model(folder / "tiny")
    (folder / "sft.toml").write_text(CONFIG)
    return folder


def row(name: str) -> Row:
    chat: Chat = [
        {"role": "user", "content": f"List the files of {name}."},
        {"role": "assistant", "content": f"```bash\nls {name}\n```"},
        {"role": "user", "content": "[exit code 0]\na\nb"},
        {"role": "assistant", "content": "DONE"},
    ]
    return verified_row(name, chat=chat)


def test_a_model_is_trained_and_names_all_that_it_came_from(data: Path) -> None:
    steps: list[tuple[int, int]] = []
    model = fine_tune(
        read_config(data / "sft.toml"),
        data,
        "terminal",
        "sft",
        code_commit="abc",
        on_step=lambda done, of: steps.append((done, of)),
    )
    told = model.file.training
    assert model.reference == "sft@v0001"
    assert (told.snapshot, told.rows, told.left_out, told.base, told.code_commit) == (
        "terminal@v0001",
        6,
        0,
        "tiny",
        "abc",
    )
    assert told.validation_loss is not None
    assert steps[-1] == (told.steps, told.steps)
    assert {one.instruction for one in model.trained_on()} == {f"train {n}: Count the words." for n in range(6)}
    assert len({one.trajectory_id for one in model.trained_on()}) == 6
    assert str(data) not in (model.folder / "model.json").read_text()
    assert {path.name for path in model.folder.iterdir()} >= {"adapter", "README.md", "metrics.jsonl", "tokenizer.json"}


def test_the_same_again_is_not_trained_again(data: Path) -> None:
    config = read_config(data / "sft.toml")
    first = fine_tune(config, data, "terminal", "again")

    def never(done: int, of: int) -> None:
        raise AssertionError

    assert fine_tune(config, data, "terminal@v0001", "again", on_step=never).folder == first.folder


def test_only_chosen_rows_are_learned_from_and_the_tokens_are_shared(data: Path) -> None:
    config = read_config(data / "sft.toml")
    ids = sorted(one.trajectory_id for one in fine_tune(config, data, "terminal", "all").trained_on())
    some = fine_tune(config, data, "terminal", "some", only=frozenset(ids[:2]))
    assert sorted(one.trajectory_id for one in some.trained_on()) == ids[:2]
    assert (some.file.training.rows, some.file.training.left_out) == (2, 4)
    assert len(list((data / TOKENS).iterdir())) == 1


def test_full_weights_are_a_version_of_weights(data: Path) -> None:
    config = read_config(data / "sft.toml").model_copy(update={"lora": None})
    model = fine_tune(config, data, "terminal", "full")
    assert model.file.kind == "weights"
    assert model.file.training.trainable_parameters == model.file.training.parameters
    assert json.loads((model.learned / "config.json").read_text())["use_cache"] is True


def test_the_command_line_trains(data: Path) -> None:
    main([str(data / "sft.toml"), "--data", str(data), "--snapshot", "terminal", "--name", "line"])
    told = json.loads((data / "models/line/v0001/model.json").read_text())
    assert told["training"]["method"] == "sft"


def test_a_mistake_ends_the_command_line_with_its_text(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(data / "sft.toml"), "--data", str(data), "--snapshot", "nothing", "--name", "line"])
    assert ended.value.code == 2
    assert "there is no snapshot 'nothing'" in capsys.readouterr().err


def test_a_version_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(NothingToExport, match="v0009"):
        fine_tune(read_config(data / "sft.toml"), data, "terminal@v0009", "sft")


def test_settings_are_read_and_paths_are_those_of_the_file(data: Path) -> None:
    config = read_config(data / "sft.toml")
    assert config == SftConfig(
        base=(data / "tiny").resolve(),
        max_tokens=256,
        epochs=2,
        gradient_accumulation=2,
        precision="fp32",
        lora=LoraConfig(rank=2, alpha=4),
    )


@pytest.mark.parametrize("size", ["7b", "14b", "32b"])
def test_the_settings_that_come_with_the_project_are_read(size: str) -> None:
    config = read_config(PROJECT / f"training/configs/qwen2.5-coder-{size}.toml")
    assert (config.max_tokens, config.precision, config.fsdp) == (32768, "bf16", True)


def test_false_stands_for_no_adapter(tmp_path: Path) -> None:
    (tmp_path / "sft.toml").write_text("[sft]\nbase = 'x'\nlora = false\n")
    assert read_config(tmp_path / "sft.toml").lora is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[other]\n", r"has no table \[sft\]"),
        ("[sft]\nbase = 'x'\nepoch = 3\n", r"sft\.epoch: Extra inputs"),
        ("[sft]\nepochs = 3\n", r"sft\.base: Field required"),
        ("[sft]\nbase = 'x'\nepochs = 0\n", r"sft\.epochs: Input should be greater than 0"),
        ("[sft\n", "sft.toml: "),
    ],
)
def test_a_mistake_in_the_settings_names_file_and_setting(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "sft.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=fault):
        read_config(tmp_path / "sft.toml")


def test_several_devices_have_a_process_each() -> None:
    found = command(Path("sft.toml"), Path("data"), "terminal@v0001", "sft", 8)
    assert found[1:7] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8", "--module"]
    assert found[7:] == [
        "training.launch",
        "sft.toml",
        "--data",
        "data",
        "--snapshot",
        "terminal@v0001",
        "--name",
        "sft",
    ]
