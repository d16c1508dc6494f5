"""Texts of repositories that are nested deeper than any parser goes: read as what cannot be read."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from pipeline import checkout
from pipeline.curation.dedup import masked_code
from pipeline.curation.licences import _package_json, _pyproject
from pipeline.errors import ItemRejected
from pipeline.generators import documents
from pipeline.generators.facts import classify
from pipeline.generators.programs import package_name, php_autoload
from pipeline.own_dockerfile import _copied
from pipeline.prerequisites import _of_composer
from pipeline.smoke.programs import _words
from pipeline.task_formats.harbor import _settings
from pipeline.toolchain_versions import _node
from sandbox.building.heredocs import lowered

DEEP = "[" * 5_000 + "]" * 5_000
TABLE = '{"a":' * 5_000 + "1" + "}" * 5_000
CODE = "word = " + "(" * 5_000 + ")" * 5_000


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "tree.tar"
    with tarfile.open(path, "w") as archive:
        for name, text in (("composer.json", TABLE), ("package.json", TABLE), ("task.toml", f"a = {DEEP}\n")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, BytesIO(text.encode()))
    return path


def test_a_description_of_a_package_names_nothing(tar: Path) -> None:
    tree = documents.Tree.open(tar)
    assert package_name(tree) == ""
    assert php_autoload(tree) is None
    assert "php-xml" in _of_composer(checkout.Tree(tar))
    assert _package_json(TABLE) is None
    assert _pyproject(f"a = {DEEP}\n") is None
    assert _node(TABLE) is None


def test_settings_of_a_task_are_refused_with_their_name(tar: Path) -> None:
    with pytest.raises(ItemRejected, match=r"task\.toml"):
        _settings(checkout.Tree(tar))


def test_steps_of_a_dockerfile_are_left_to_the_builder() -> None:
    assert _copied(f"COPY {DEEP}") is None
    assert _words(DEEP) == []
    assert lowered(f"FROM a\nSHELL {DEEP}\n")[0].startswith("FROM a")


def test_a_result_is_a_text_and_code_is_prose() -> None:
    assert classify("/work/deep.json", DEEP.encode()) == "text"
    assert masked_code(CODE) == ["word"]
