"""What a recipe may declare, and how its tree is put together. The archives are made here; real ones are fetched in
tests/integration/test_context_fetch.py."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.archive_cache import CONTEXTS, ArchiveCache
from pipeline.checkout import CheckoutConfig, Tree
from pipeline.contexts import context_ids, described
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.schemas import to_rows
from pipeline.sources.context import ContextSource
from pipeline.stages.fetching import fetch
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import DOMAINS, Checkout, Repository
from tests.unit.recorded_clients import RecordedBackend, RecordedSandbox, answer, archive

LICENCE = Path(__file__).parents[2] / "LICENSE"
MIT = """MIT License

Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
FILES = {"fruit/data/fruit.csv": "name\nplum\n", "fruit/data/more/nuts.csv": "name\nhazel\n", "fruit/LICENSE": MIT}


def wheel(files: dict[str, str] = FILES) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, text in files.items():
            packed.writestr(zipfile.ZipInfo(name), text)
    return buffer.getvalue()


WHEEL = wheel()
ENTRY = {
    "name": "fruit",
    "ecosystem": "pypi",
    "package": "fruit",
    "version": "1.0",
    "file": "fruit-1.0-py3-none-any.whl",
    "sha256": hashlib.sha256(WHEEL).hexdigest(),
    "members": {"fruit/data/fruit.csv": "fruit.csv"},
    "license": "MIT",
    "license_member": "fruit/LICENSE",
    "origin": "made up for this test",
}


class Place:
    """Recipes, a data folder and recorded registries."""

    def __init__(self, folder: Path) -> None:
        self.recipes = folder / "recipes"
        self.data = folder / "data"
        self.sandbox: RecordedSandbox | None = None
        self.write("sql", "Dockerfile", "FROM debian:bookworm-slim\n")
        self.write("sql", "check.sh", "true\n")

    def write(self, domain: str, name: str, text: str) -> None:
        (self.recipes / domain).mkdir(parents=True, exist_ok=True)
        (self.recipes / domain / name).write_text(text)

    def declare(self, *entries: object) -> None:
        self.write("sql", "contexts.json", json.dumps(entries))

    def offer(self, data: bytes, file: str = "fruit-1.0-py3-none-any.whl", times: int = 1) -> None:
        """The registry has this archive from now on."""
        self.sandbox = RecordedSandbox([answer(0)] * times, {file: data})

    @property
    def source(self) -> ContextSource:
        backend = RecordedBackend(self.sandbox)
        archives = ArchiveCache(self.data / CONTEXTS)
        return ContextSource(self.recipes, LICENCE, CheckoutConfig(), archives, backend, lambda: "sha256:fetch")

    @property
    def repository(self) -> Repository:
        return next(self.source.repositories(None))

    def fetched(self) -> Checkout:
        return self.source.fetch(self.repository, self.data / "sources")

    def tree(self) -> Tree:
        return Tree(self.data / "sources" / f"{self.fetched().tree_sha256}.tar")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def text_of(tree: Tree, name: str) -> str:
    return tree.read(name, max_bytes=1 << 20).decode()


def test_a_domain_is_listed_without_any_container_and_by_what_it_declares(place: Place) -> None:
    place.declare(ENTRY)
    repository = place.repository
    assert (repository.full_name, repository.domain, repository.stream) == ("context/sql", "sql", "sql")
    place.declare({**ENTRY, "version": "1.1"})
    assert place.repository.commit != repository.commit
    place.declare(ENTRY)
    assert place.repository == repository


def test_the_domains_are_listed_in_their_order_and_only_those_with_a_recipe(place: Place) -> None:
    place.write("security", "Dockerfile", "FROM debian:bookworm-slim\n")
    place.write("cookery", "Dockerfile", "FROM debian:bookworm-slim\n")
    (place.recipes / "qemu").mkdir()
    found = [repository.domain for repository in place.source.repositories(None)]
    assert found == [domain for domain in DOMAINS if domain in ("sql", "security")]


def test_the_tree_is_the_recipe_our_licence_and_the_declared_files(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    tree = place.tree()
    assert set(tree.files) == {
        "Dockerfile",
        "check.sh",
        "contexts.json",
        "LICENSE",
        "context/fruit/LICENSE",
        "context/fruit/fruit.csv",
    }
    assert text_of(tree, "context/fruit/fruit.csv") == FILES["fruit/data/fruit.csv"]
    assert text_of(tree, "LICENSE") == LICENCE.read_text()


def test_the_manifest_describes_what_was_collected(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    (one,) = described(place.tree())
    assert (one.package, one.version, one.license, one.origin) == ("fruit", "1.0", "MIT", "made up for this test")
    assert (one.sha256, one.n_bytes) == (ENTRY["sha256"], len(WHEEL))
    assert (one.license_path, one.license_sha256) == ("context/fruit/LICENSE", hashlib.sha256(MIT.encode()).hexdigest())
    hashes = {file.path: (file.member, file.sha256) for file in one.files}
    content = FILES["fruit/data/fruit.csv"].encode()
    assert hashes["fruit.csv"] == ("fruit/data/fruit.csv", hashlib.sha256(content).hexdigest())


def test_a_domain_without_context_has_an_empty_description(place: Place) -> None:
    assert described(place.tree()) == ()


def test_the_licence_of_a_domain_is_ours_whatever_its_contexts_are_under(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    checkout = place.fetched()
    assert (checkout.license, checkout.license_path, checkout.warnings) == ("Apache-2.0", "LICENSE", ())


@pytest.mark.parametrize(
    ("members", "paths"),
    [
        ({"fruit/data/*": ""}, {"fruit.csv"}),
        ({"fruit/data/**": "all/"}, {"all/fruit.csv", "all/more/nuts.csv"}),
        ({"**": ""}, {"fruit/data/fruit.csv", "fruit/data/more/nuts.csv", "fruit/LICENSE"}),
    ],
)
def test_a_pattern_takes_a_folder_or_all_below_it(place: Place, members: dict[str, str], paths: set[str]) -> None:
    place.declare({**ENTRY, "members": members, "license_member": None})
    place.offer(WHEEL)
    assert {file.path for file in described(place.tree())[0].files} == paths


@pytest.mark.parametrize(
    ("ecosystem", "file"), [("npm", "fruit-1.0.tgz"), ("pypi", "fruit-1.0.tar.gz")], ids=["npm", "sdist"]
)
def test_paths_in_a_tarball_begin_below_its_one_top_folder(place: Place, ecosystem: str, file: str) -> None:
    data = archive({"package/data/fruit.csv": b"plum\n", "package/LICENSE": MIT.encode()})
    pin = {"ecosystem": ecosystem, "file": file, "sha256": hashlib.sha256(data).hexdigest()}
    place.declare({**ENTRY, **pin, "members": {"data/fruit.csv": "fruit.csv"}, "license_member": "LICENSE"})
    place.offer(data, file)
    assert text_of(place.tree(), "context/fruit/fruit.csv") == "plum\n"


@pytest.mark.parametrize(
    ("pin", "command"),
    [
        ({}, "unearth --only-binary --download . fruit==1.0"),
        ({"file": "fruit-1.0.tar.gz"}, "unearth --no-binary --download . fruit==1.0"),
        (
            {"file": "fruit-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"},
            "unearth --only-binary --implementation cp --python-version 3.12 --abis cp312 "
            "--platforms manylinux_2_17_x86_64,manylinux2014_x86_64 --download . fruit==1.0",
        ),
        ({"ecosystem": "npm", "package": "@my/fruit", "file": "my-fruit-1.0.tgz"}, "npm pack --ignore-scripts"),
        ({"ecosystem": "debian", "file": "fruit_1.0_all.deb"}, "apt-get download -qq"),
    ],
)
def test_the_client_of_each_registry_is_asked_for_the_pinned_file(
    place: Place, pin: dict[str, str], command: str
) -> None:
    place.declare({**ENTRY, **pin})
    place.offer(b"", "another file")
    with pytest.raises(ItemRejected, match="hash_mismatch"):
        place.fetched()
    assert place.sandbox is not None and command in place.sandbox.commands[0] and place.sandbox.closed


def test_a_later_run_needs_neither_a_registry_nor_an_engine(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    first = place.fetched()
    place.sandbox = None
    place.write("sql", "check.sh", "echo changed\n")
    second = place.fetched()
    assert first.tree_sha256 != second.tree_sha256
    assert text_of(place.tree(), "context/fruit/fruit.csv") == FILES["fruit/data/fruit.csv"]


def test_two_contexts_of_one_archive_are_downloaded_once(place: Place) -> None:
    place.declare(ENTRY, {**ENTRY, "name": "nuts", "members": {"fruit/data/more/*": ""}})
    place.offer(WHEEL)  # a second command would find no answer
    assert {one.name for one in described(place.tree())} == {"fruit", "nuts"}


def test_ids_follow_the_content_and_not_the_rest_of_the_recipe(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    (first,) = context_ids(place.tree(), "sql", ["fruit"])
    place.write("sql", "check.sh", "echo changed\n")
    assert context_ids(place.tree(), "sql", ["fruit"]) == (first,)
    place.declare({**ENTRY, "members": {"fruit/data/more/nuts.csv": "fruit.csv"}})
    assert context_ids(place.tree(), "sql", ["fruit"]) != (first,)
    with pytest.raises(KeyError):
        context_ids(place.tree(), "sql", ["bread"])


def test_another_archive_than_the_pinned_one_is_refused_and_not_kept(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(wheel({**FILES, "fruit/data/fruit.csv": "name\nsloe\n"}))
    with pytest.raises(ItemRejected, match=r"hash_mismatch: fruit-1\.0"):
        place.fetched()
    assert not [path for path in (place.data / CONTEXTS).iterdir() if path.is_file()]


def test_a_version_that_is_not_offered_any_more_is_named(place: Place) -> None:
    place.declare(ENTRY)
    place.sandbox = RecordedSandbox([answer(1, "No matches are found.")], {})
    with pytest.raises(ItemRejected, match=r"gone: the context fruit \(pypi fruit 1\.0\) is not offered any more"):
        place.fetched()


def test_a_registry_that_does_not_answer_is_infrastructure(place: Place) -> None:
    place.declare(ENTRY)
    place.sandbox = RecordedSandbox([answer(1, "httpx.ConnectError: [Errno -3]")], {})
    with pytest.raises(InfrastructureFailure, match=r"the context fruit \(pypi fruit 1\.0\): not downloaded"):
        place.fetched()
    place.sandbox = None
    with pytest.raises(InfrastructureFailure, match="the engine is gone"):
        place.fetched()


def test_a_file_that_the_archive_lacks_is_named_with_those_it_has(place: Place) -> None:
    place.declare({**ENTRY, "members": {"fruit/data/bread.csv": "bread.csv"}})
    place.offer(WHEEL)
    with pytest.raises(ItemRejected, match=r"member_missing: .*bread\.csv; there are: fruit/LICENSE, fruit/data/fruit"):
        place.fetched()


def test_a_licence_text_that_says_otherwise_than_the_declaration_is_refused(place: Place) -> None:
    place.declare({**ENTRY, "license": "Apache-2.0"})
    place.offer(WHEEL)
    with pytest.raises(ItemRejected, match=r"license_differs: .*says Apache-2\.0, its text is MIT"):
        place.fetched()


@pytest.mark.parametrize("licence", ["GPL-3.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "UNKNOWN", "", "mit"])
def test_material_under_other_than_permissive_licences_is_refused_when_it_is_declared(
    place: Place, licence: str
) -> None:
    place.declare({**ENTRY, "license": licence})
    with pytest.raises(ConfigurationError, match=r"sql/contexts\.json, entry 0\.license: .*choose other material"):
        place.repository  # noqa: B018


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"colour": "red"}, r"entry 0\.colour"),
        ({"name": "Fruit basket"}, r"entry 0\.name"),
        ({"ecosystem": "cargo"}, r"entry 0\.ecosystem"),
        ({"package": "$(id)"}, r"entry 0\.package"),
        ({"version": "1; ls"}, r"entry 0\.version"),
        ({"sha256": "abc"}, r"entry 0\.sha256"),
        ({"file": "../fruit.whl"}, r"entry 0\.file"),
        ({"file": "fruit_1.0_all.deb"}, "is no archive of pypi; those end with .whl"),
        ({"members": {}}, r"entry 0\.members"),
        ({"members": {"../x": "x"}}, "is no path in an archive"),
        ({"members": {"/etc/x": "x"}}, "is no path in an archive"),
        ({"members": {"a": "../x"}}, "name the file that it becomes"),
        ({"members": {"a": "x/"}}, "name the file that it becomes"),
        ({"members": {"a/*": "x"}}, "name a folder with a / at its end"),
        ({"members": {"a/*": "../"}}, "name a folder with a / at its end"),
        ({"origin": "me"}, r"entry 0\.origin"),
    ],
)
def test_a_wrong_entry_is_named_with_its_fault(place: Place, change: dict[str, object], said: str) -> None:
    place.declare({**ENTRY, **change})
    with pytest.raises(ConfigurationError, match=rf"sql/contexts\.json.*{said}.*mend it there"):
        place.repository  # noqa: B018


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"contexts": []}'])
def test_a_declaration_that_is_no_list_of_entries_names_its_file(place: Place, text: str) -> None:
    place.write("sql", "contexts.json", text)
    with pytest.raises(ConfigurationError, match=r"sql/contexts\.json"):
        place.repository  # noqa: B018


def test_a_name_that_is_given_twice_is_refused(place: Place) -> None:
    place.declare(ENTRY, ENTRY)
    with pytest.raises(ConfigurationError, match="names fruit twice; give every context a name of its own"):
        place.repository  # noqa: B018


def test_two_files_that_would_become_one_are_refused(place: Place) -> None:
    place.declare({**ENTRY, "members": {"fruit/data/fruit.csv": "x.csv", "fruit/data/more/nuts.csv": "x.csv"}})
    place.offer(WHEEL)
    with pytest.raises(ConfigurationError, match=r"fruit/data/fruit\.csv and fruit/data/more/nuts\.csv both become x"):
        place.fetched()


def test_a_recipe_with_a_folder_where_context_goes_is_refused(place: Place) -> None:
    (place.recipes / "sql" / "context").mkdir()
    with pytest.raises(ConfigurationError, match="sql has a folder context"):
        place.repository  # noqa: B018


def test_a_recipe_that_changed_or_went_since_it_was_listed_is_refused(place: Place) -> None:
    listed = place.repository
    place.write("sql", "check.sh", "false\n")
    with pytest.raises(ItemRejected, match="changed: sql changed since it was listed"):
        place.source.fetch(listed, place.data / "sources")
    (place.recipes / "sql" / "Dockerfile").unlink()
    with pytest.raises(ItemRejected, match="gone: sql has no recipe any more"):
        place.source.fetch(listed, place.data / "sources")


def test_fetching_writes_a_row_for_each_context_that_ids_lead_to(place: Place) -> None:
    place.declare(ENTRY, {**ENTRY, "name": "nuts", "members": {"fruit/data/more/nuts.csv": "nuts.csv"}})
    place.offer(WHEEL)
    before = datetime.now(UTC)
    store, repository = Store(place.data), place.repository
    report = fetch(store, [repository], [place.source], place.data / "sources", Options())
    assert (report.done, report.failed, report.missing) == (1, {}, ())
    rows = {str(row["context_id"]): row for row in to_rows(store.current("contexts"))}
    assert set(context_ids(place.tree(), "sql", ["fruit", "nuts"])) == set(rows)
    row = next(row for row in rows.values() if row["name"] == "fruit")
    assert (row["domain"], row["repository_id"], row["path"]) == ("sql", repository.repository_id, "context/fruit")
    assert (row["license"], row["sha256"], row["n_bytes"]) == ("MIT", ENTRY["sha256"], len(WHEEL))
    assert isinstance(row["retrieved_at"], datetime) and before <= row["retrieved_at"] <= datetime.now(UTC)


def test_a_context_keeps_its_time_of_retrieval_when_it_is_taken_from_the_cache(place: Place) -> None:
    place.declare(ENTRY)
    place.offer(WHEEL)
    place.fetched()
    times = []
    for folder in ("one", "two"):
        store = Store(place.data)
        place.write("sql", "check.sh", f"echo {folder}\n")
        fetch(store, [place.repository], [place.source], place.data / "sources", Options())
        times = [row["retrieved_at"] for row in to_rows(store.current("contexts"))]
    assert len(times) == 2 and len(set(times)) == 1
