"""Settings: what a mistake in the configuration says, and which of several places of the data folder wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.resources import RetryResource, Workshop, open_workshop
from assets.settings import Settings, read_settings
from pipeline.errors import ConfigurationError


def write(folder: Path, text: str) -> Path:
    path = folder / "touchstone.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("workerz = 2", "workerz"),
        ("workers = 0", "workers"),
        ("[scoring]\nthreshold = 2", "scoring.threshold"),
        ("[images.build_env]\nPIP_INDEX_URL = 'https://me:secret@index.test/simple'", "credentials"),
        ("workers = ", "TOML"),
        ("snapshot = '../x'", "snapshot"),
        ("[sources]\nuse = ['gopher']", "'context' or 'tasks'"),
        ("[sources.github]\nlanguages = ['cobol']", "sources.github.languages"),
        ("[sources.github]\ntoken = 'x'", "sources.github.token"),
        (
            "[rollout]\nagents = ['oracel']",
            "there is no agent oracel; there are act, adapt, bash, noop, oracle, planner_executor, react, "
            "reflexion, step_hrl, terminus",
        ),
        ("[rollout]\nagents = []", "rollout.agents"),
    ],
)
def test_a_mistake_names_the_file_and_the_setting(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_settings(write(tmp_path, text), required=True)
    assert named in str(error.value)
    assert "touchstone.toml" in str(error.value)


def test_a_secret_in_a_url_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    path = write(tmp_path, "[images.build_env]\nPIP_INDEX_URL = 'https://me:hunter2@index.test/simple'")
    with pytest.raises(ConfigurationError) as error:
        read_settings(path, required=True)
    assert "hunter2" not in str(error.value)


def test_the_shipped_configuration_shows_the_defaults() -> None:
    shipped = Path(__file__).resolve().parents[2] / "touchstone.toml"
    assert read_settings(shipped, required=True) == Settings()


def test_the_argument_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(tmp_path, "data = 'of-file'")
    monkeypatch.delenv("TOUCHSTONE_DATA", raising=False)
    monkeypatch.setenv("TOUCHSTONE_CONFIG", str(config))
    open_workshop.cache_clear()
    assert open_workshop().data == tmp_path / "of-file"
    monkeypatch.setenv("TOUCHSTONE_DATA", str(tmp_path / "of-environment"))
    open_workshop.cache_clear()
    assert open_workshop().data == tmp_path / "of-environment"
    open_workshop.cache_clear()
    assert open_workshop(data=tmp_path / "of-argument").data == tmp_path / "of-argument"
    open_workshop.cache_clear()


def test_an_unknown_word_for_retry_is_refused(tmp_path: Path) -> None:
    shop = Workshop(Settings(), tmp_path, tmp_path / "data")
    with pytest.raises(ConfigurationError, match="sometimes"):
        RetryResource(retry="sometimes").options(shop)


@pytest.mark.parametrize(("retry", "only"), [("none", ["repo-1"]), ("all", ["repo-1", ""])])
def test_only_without_anything_to_choose_from_is_refused(tmp_path: Path, retry: str, only: list[str]) -> None:
    shop = Workshop(Settings(), tmp_path, tmp_path / "data")
    with pytest.raises(ConfigurationError, match="only"):
        RetryResource(retry=retry, only=only).options(shop)


@pytest.mark.parametrize("tokens", ["", " , "])
def test_the_github_source_without_a_token_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: str
) -> None:
    monkeypatch.setenv("TOUCHSTONE_GITHUB_TOKENS", tokens)
    settings = Settings.model_validate({"sources": {"use": ["github"]}})
    with pytest.raises(ConfigurationError, match="environment variable TOUCHSTONE_GITHUB_TOKENS"):
        Workshop(settings, tmp_path, tmp_path / "data").sources()


def test_github_and_listing_are_sources_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOUCHSTONE_GITHUB_TOKENS", "a, b")
    settings = Settings.model_validate({"sources": {"use": ["github", "listing"]}})
    sources = Workshop(settings, tmp_path, tmp_path / "data").sources()
    assert [source.name for source in sources] == ["github", "listing"]
