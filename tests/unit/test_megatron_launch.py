"""Launchers of Megatron-LM: arguments that it knows, parts that divide a model, and lines that learn what we learn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.megatron import Megatron
from pipeline.exports.projection import export_version
from tests.unit.family_tokenizers import qwen
from tests.unit.hostile_rows import Chat, verified_row, version_of
from training import setups
from training.megatron import command, main, write
from training.setups import Machines, Parallel, Setup, read_setup
from training.tokens import ChatTokenizer

CONFIGS = Path(setups.__file__).parent / "configs"
NAMES = ("7b", "14b", "32b-megatron")
FLAGS = Path(__file__).parent.parent / "data" / "megatron_flags.txt"
"""Names of the arguments that Megatron-LM's parser had at commit d98e8a64ddf3."""
COUNTS = {"train": 1000, "validation": 40}
SEEN = "[exit code 0]\na b\n"


def setup_of(name: str) -> Setup:
    return read_setup(CONFIGS / f"qwen2.5-coder-{name}.toml")


def value(arguments: Sequence[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def chat(*texts: str) -> Chat:
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen(tmp_path_factory.mktemp("bases") / "small").folder


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    rows = [
        verified_row("short", chat=chat("List it.", "ls", SEEN, "done")),
        verified_row("long", chat=chat("List it.", *["ls -l", "x" * 1200] * 4, "done")),
        verified_row("merged", chat=chat("List it.", "\nls")),
    ]
    test = [verified_row("seen", chat=chat("List it.", "cat a"))]
    export_version(version_of(folder / "version", rows, validation=test), folder / "out", Megatron())
    return folder / "out"


def small(base: Path, **changed: object) -> Setup:
    setup = setup_of("7b")
    return setup.model_copy(update={"sft": setup.sft.model_copy(update={"base": base, "max_tokens": 256} | changed)})


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_one_that_megatron_knows(name: str) -> None:
    known = set(FLAGS.read_text().split())
    flags = [argument for argument in command(setup_of(name), COUNTS) if argument.startswith("--")]
    assert set(flags) <= known
    assert {"--pretrained-checkpoint"} <= known
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    ("name", "tensor", "pipeline"), [("7b", "4", "1"), ("14b", "8", "1"), ("32b-megatron", "8", "2")]
)
def test_a_model_is_divided_as_its_configuration_says(name: str, tensor: str, pipeline: str) -> None:
    arguments = command(setup_of(name), COUNTS)
    assert value(arguments, "--tensor-model-parallel-size") == tensor
    assert value(arguments, "--pipeline-model-parallel-size") == pipeline
    assert value(arguments, "--padded-vocab-size") == "152064"


def test_a_step_sees_as_many_windows_as_all_gpus_would_see_and_all_epochs_are_made() -> None:
    arguments = command(setup_of("7b"), COUNTS)
    assert value(arguments, "--global-batch-size") == "32"
    assert value(arguments, "--train-iters") == "63"
    assert value(arguments, "--eval-iters") == "2"


def test_without_rows_to_validate_with_nothing_is_validated() -> None:
    arguments = command(setup_of("7b"), {"train": 10, "validation": 0})
    assert value(arguments, "--eval-iters") == "0"
    assert "--valid-data-path" not in arguments


@pytest.mark.parametrize(
    ("tensor", "pipeline", "gpus", "says"),
    [
        (8, 1, 8, "28 heads cannot be divided by 8"),
        (1, 3, 6, "28 layers cannot be divided by 3"),
        (4, 4, 8, "8 GPUs do not hold a whole number of models of 4 x 4 parts"),
        (4, 1, 12, "12 is no whole number of machines"),
    ],
)
def test_parts_that_do_not_divide_a_model_or_the_gpus_are_refused(
    tensor: int, pipeline: int, gpus: int, says: str
) -> None:
    parts = {"megatron": Parallel(tensor=tensor, pipeline=pipeline), "machines": Machines(gpus=gpus, memory_gb=80)}
    with pytest.raises(ConfigurationError, match=says):
        command(setup_of("7b").model_copy(update=parts), COUNTS)


def test_key_heads_that_do_not_divide_are_refused() -> None:
    setup = setup_of("7b")
    model = {**setup.model, "num_key_value_heads": 3, "num_attention_heads": 32}
    with pytest.raises(ConfigurationError, match="3 key heads do not divide"):
        command(setup.model_copy(update={"model": model}), COUNTS)


def test_adapters_and_models_of_other_kinds_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no adapters"):
        command(setup_of("32b"), COUNTS)
    setup = setup_of("7b")
    with pytest.raises(ConfigurationError, match="llama is none that is known"):
        command(setup.model_copy(update={"model": {**setup.model, "model_type": "llama"}}), COUNTS)
    with pytest.raises(ConfigurationError, match=r"model\.rope_theta is missing"):
        model = {name: told for name, told in setup.model.items() if name != "rope_theta"}
        command(setup.model_copy(update={"model": model}), COUNTS)


def test_lines_hold_what_is_given_and_what_is_learned_of_every_window(base: Path, export: Path, tmp_path: Path) -> None:
    counts = write(export, small(base), tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    assert counts == {"train": len(lines), "validation": 1, "left out": 1}
    learned = [one["content"] for line in lines for one in line["messages"] if one["role"] == "assistant"]
    assert sorted(learned) == sorted(["ls<|im_end|>", "done<|im_end|>", *["ls -l<|im_end|>"] * 4, "done<|im_end|>"])
    assert lines[0]["messages"][0]["content"].endswith("<|im_end|>\n<|im_start|>assistant\n")
    (left,) = [json.loads(line) for line in (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()]
    assert left["reason"] == "read at once, a window of it has other tokens"


def test_padding_has_the_name_by_which_megatron_looks_for_it(base: Path, export: Path, tmp_path: Path) -> None:
    write(export, small(base), tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "tokenizer" / "tokenizer_config.json").read_text())
    assert settings["unk_token"] == settings["pad_token"] == "<|endoftext|>"


def test_padding_that_ends_turns_too_is_refused(export: Path, tmp_path: Path) -> None:
    folder = qwen(tmp_path / "base").folder
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"pad_token": "<|im_end|>"}))
    with pytest.raises(ConfigurationError, match="no pad_token of its own"):
        write(export, small(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_script_starts_the_arguments_beside_its_files(base: Path, export: Path, tmp_path: Path) -> None:
    setup = small(base)
    counts = write(export, setup, tmp_path / "out")
    started = tmp_path / "bin" / "torchrun"
    started.parent.mkdir()
    started.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    started.chmod(0o755)
    variables = {"PATH": f"{started.parent}:/usr/bin:/bin", "MEGATRON_LM": "/megatron", "WEIGHTS": "/two words"}
    done = subprocess.run([tmp_path / "out" / "launch.sh"], env=variables, capture_output=True, text=True, check=True)
    where, *said = done.stdout.splitlines()
    assert Path(where) == (tmp_path / "out").resolve()
    at = said.index("/megatron/pretrain_gpt.py")
    assert said[at + 1 :] == ["--pretrained-checkpoint", "/two words", *command(setup, counts)]
    assert said[: said.index("--node-rank")] == ["--nnodes", "1", "--nproc-per-node", "8"]


def test_the_script_says_what_it_needs(base: Path, export: Path, tmp_path: Path) -> None:
    write(export, small(base), tmp_path / "out")
    done = subprocess.run(
        [tmp_path / "out" / "launch.sh"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode
    assert "MEGATRON_LM: names the folder of Megatron-LM" in done.stderr


def test_a_folder_that_is_no_export_and_one_whose_rows_are_all_left_out_are_mistakes(
    base: Path, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path), str(CONFIGS / "qwen2.5-coder-7b.toml"), str(tmp_path / "out")])
    assert "is no export of the format megatron" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="no row of it can be learned so; the first reason: message"):
        write(export, small(base, max_tokens=40), tmp_path / "out")


def test_what_is_learned_is_what_the_tokens_mark(base: Path, export: Path, tmp_path: Path) -> None:
    write(export, small(base), tmp_path / "out")
    tokenizer = ChatTokenizer(base)
    line = json.loads((tmp_path / "out" / "validation.jsonl").read_text())
    encoded = tokenizer.encode(chat("List it.", "cat a"), frozenset({1}), {})
    texts = [(one["role"] == "assistant", one["content"]) for one in line["messages"]]
    given, learned, end = (tokenizer.text_of(run.ids) for run in encoded.runs[-3:])
    assert texts[-2:] == [(True, learned), (False, end)]
    assert texts[0][1].endswith(given)
