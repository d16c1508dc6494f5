"""Versions of models: written once, found by name, and what they were trained on beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from training.models import ModelDamaged, TrainedModel, Training, find_model, models, publish_model
from training.trained_on import TrainedRow

ROW = TrainedRow("t1", "i1", "Count the lines.", "owner/name", "line_count")


def told(run: str = "run-1") -> Training:
    return Training(
        method="sft",
        base="tiny",
        base_sha256="b" * 64,
        snapshot="terminal@v0001",
        snapshot_sha256="c" * 64,
        rows=1,
        left_out=2,
        windows=1,
        packs=1,
        padding_share=0.03,
        n_tokens=97,
        n_target_tokens=12,
        tokenizer_id="tiny@1",
        chat_template_sha256="d" * 64,
        parameters=100,
        trainable_parameters=10,
        steps=3,
        first_loss=2.0,
        last_loss=1.0,
        validation_loss=None,
        seconds=1.5,
        device="CPU",
        run=run,
        config={"epochs": 1},
        code_commit="abc",
        packages={"torch": "2"},
    )


def published(data: Path, run: str = "run-1", text: str = "weights") -> TrainedModel:
    learned = data / run
    learned.mkdir(parents=True, exist_ok=True)
    (learned / "adapter_model.safetensors").write_text(text)
    (data / "tokenizer.json").write_text("{}")
    return publish_model(data, "sft", learned, "adapter", [data / "tokenizer.json"], [ROW], told(run))


def test_a_version_holds_what_was_learned_and_what_it_came_from(tmp_path: Path) -> None:
    model = published(tmp_path)
    assert model.reference == "sft@v0001"
    assert (model.learned / "adapter_model.safetensors").read_text() == "weights"
    assert model.file.training == told()
    assert set(model.file.files) == {"adapter/adapter_model.safetensors", "tokenizer.json", "trained_on.parquet"}
    assert list(model.trained_on()) == [ROW]


def test_the_card_names_snapshot_base_and_figures(tmp_path: Path) -> None:
    card = (published(tmp_path).folder / "README.md").read_text()
    assert 'base_model: "tiny"' in card
    for text in ("`terminal@v0001`", "1 verified trajectories", "| padding | 3.0 % |", '"epochs": 1', "| torch | 2 |"):
        assert text in card


def test_another_run_gives_the_next_version_and_the_same_run_the_same(tmp_path: Path) -> None:
    first, second = published(tmp_path), published(tmp_path, "run-2")
    assert published(tmp_path).reference == first.reference == "sft@v0001"
    assert second.reference == "sft@v0002"
    assert [one.reference for one in models(tmp_path, "sft")] == ["sft@v0001", "sft@v0002"]


@pytest.mark.parametrize(("reference", "found"), [("sft", "v0002"), ("sft@latest", "v0002"), ("sft@v0001", "v0001")])
def test_a_version_is_found_by_its_reference(tmp_path: Path, reference: str, found: str) -> None:
    published(tmp_path)
    published(tmp_path, "run-2")
    assert find_model(tmp_path, reference).file.version == found


@pytest.mark.parametrize("reference", ["sft@v0009", "other", "../sft", ""])
def test_what_is_not_there_is_named_with_what_is(tmp_path: Path, reference: str) -> None:
    published(tmp_path)
    with pytest.raises(ConfigurationError, match="there is no model"):
        find_model(tmp_path, reference)


@pytest.mark.parametrize("name", ["adapter/adapter_model.safetensors", "trained_on.parquet"])
def test_a_version_whose_files_changed_is_not_given_out(tmp_path: Path, name: str) -> None:
    model = published(tmp_path)
    (model.folder / name).write_bytes(b"other")
    with pytest.raises(ModelDamaged, match=name):
        find_model(tmp_path, "sft")


def test_a_version_whose_model_json_cannot_be_read_says_so(tmp_path: Path) -> None:
    model = published(tmp_path)
    (model.folder / "model.json").write_text("{")
    with pytest.raises(ModelDamaged, match=r"model\.json cannot be read"):
        find_model(tmp_path, "sft")


def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="model name"):
        publish_model(tmp_path, "../sft", tmp_path, "adapter", [], [], told())
