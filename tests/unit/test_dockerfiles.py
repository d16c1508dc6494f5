"""What is written into Dockerfiles. That they build is tests/integration/test_dockerfiles.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Member, collect, store
from pipeline.dockerfiles import candidates
from pipeline.recipes import TEMPLATES
from pipeline.types import LANGUAGES, Language, Repository
from sandbox.types import ImageSpec

Make = Callable[..., list[tuple[str, ImageSpec]]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The candidates for a tree of these files."""

    def of(
        files: dict[str, str | bytes], language: Language = "python", full_name: str = "owner/thing"
    ) -> list[tuple[str, ImageSpec]]:
        repository = Repository(source="local", full_name=full_name, commit="1", language=language, locator="thing")
        contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
        tree = [Member(name, "file", len(data), read=lambda data=data: data) for name, data in contents.items()]  # type: ignore[misc]
        checkout = store(repository, collect(tree, CheckoutConfig()), tmp_path)
        archive = tmp_path / f"{checkout.tree_sha256}.tar"
        made = candidates(repository, archive, toolchain)
        return [(candidate.strategy, candidate.spec) for candidate in made]

    return of


def toolchain(language: Language, version: str | None = None) -> str:
    if version == "9.9":
        raise ValueError("there is no such version")
    return f"toolchain/{language}:{version or 1}"


def own(make: Make, files: dict[str, str | bytes]) -> str:
    strategy, spec = make(files)[0]
    assert strategy == "own_dockerfile"
    return spec.dockerfile


def template(make: Make, files: dict[str, str | bytes], language: Language, full_name: str = "owner/thing") -> str:
    strategy, spec = make(files, language, full_name)[-1]
    assert strategy == "template"
    return spec.dockerfile


def packages(dockerfile: str) -> list[str]:
    found = re.search(r"printf '%s\\n' (.*) \| sort > /tmp/wanted", dockerfile)
    return found[1].split() if found else []


def test_own_dockerfile_is_tried_before_the_template(make: Make) -> None:
    assert [strategy for strategy, _ in make({"Dockerfile": "FROM debian"})] == ["own_dockerfile", "template"]


def test_tree_without_a_dockerfile_has_the_template_only(make: Make) -> None:
    assert [strategy for strategy, _ in make({"setup.py": ""})] == ["template"]


def test_context_is_the_stored_tree_under_its_hash(make: Make) -> None:
    for _, spec in make({"Dockerfile": "FROM debian"}):
        assert spec.context is not None and spec.context.is_file()
        assert spec.context.stem == spec.context_sha256
        assert spec.workdir == "/workspace/thing"


@pytest.mark.parametrize("path", ["tests/Dockerfile", "examples/web/Dockerfile", "a/b/c/Dockerfile", "Dockerfile.md"])
def test_dockerfile_of_something_else_is_not_the_projects(make: Make, path: str) -> None:
    assert [strategy for strategy, _ in make({path: "FROM debian"})] == ["template"]


def test_shallowest_dockerfile_is_the_projects(make: Make) -> None:
    files: dict[str, str | bytes] = {"a/Dockerfile": "FROM one", "docker/b/Dockerfile": "FROM two"}
    assert own(make, files | {"Containerfile": "FROM three"}).startswith("FROM three\n")
    assert own(make, files).startswith("FROM one\n")


def test_byte_order_mark_and_carriage_returns_are_taken_out(make: Make) -> None:
    assert own(make, {"Dockerfile": b"\xef\xbb\xbfFROM debian\r\nRUN true\r\n"}).startswith("FROM debian\nRUN true\n")


def test_sources_that_lie_beside_a_dockerfile_in_a_folder_are_found_there(make: Make) -> None:
    text = (
        'FROM debian\nCOPY --chown=1 app.py \\\n  # why\n  lib /srv/\nADD ["my file", "/x"]\nCOPY --from=0 app.py /y\n'
    )
    text += "ADD https://example.org/app.py lib /z/\n"
    tree: dict[str, str | bytes] = {
        "docker/Dockerfile": text,
        "docker/app.py": "",
        "docker/lib/a": "",
        "docker/my file": "",
    }
    written = own(make, tree)
    assert "COPY --chown=1 docker/app.py docker/lib /srv/\n" in written
    assert 'ADD ["docker/my file", "/x"]\n' in written
    assert "COPY --from=0 app.py /y\n" in written
    assert "ADD https://example.org/app.py docker/lib /z/\n" in written


def test_root_is_the_context_when_the_sources_lie_there(make: Make) -> None:
    text = "FROM debian\nCOPY app.py *.txt /srv/\n"
    written = own(make, {"docker/Dockerfile": text, "app.py": "", "a.txt": "", "docker/b.md": ""})
    assert written.startswith(text)


def test_root_is_the_context_when_everything_is_copied(make: Make) -> None:
    assert own(make, {"docker/Dockerfile": "FROM debian\nCOPY . /srv\n", "app.py": ""}).startswith(
        "FROM debian\nCOPY . /srv\n"
    )


def test_last_stage_from_scratch_gives_way_to_the_one_before(make: Make) -> None:
    written = own(
        make, {"Dockerfile": "FROM debian AS build\nRUN make\nFROM scratch AS end\nCOPY --from=build /a /a\n"}
    )
    assert written.startswith("FROM debian AS build\nRUN make\n")
    assert "scratch" not in written


def test_only_stage_from_scratch_is_kept(make: Make) -> None:
    assert own(make, {"Dockerfile": "FROM scratch\nADD root.tar /\n"}).startswith("FROM scratch\nADD root.tar /\n")


def test_own_dockerfile_ends_in_the_tree_as_root(make: Make) -> None:
    written = own(make, {"Dockerfile": "FROM debian\nUSER nobody\n", "app.py": ""})
    assert written.index("USER nobody") < written.index("USER root") < written.index("COPY . /workspace/thing")
    assert written.rindex("WORKDIR") == written.index("WORKDIR /workspace/thing\n")
    assert written.endswith('ENTRYPOINT []\nCMD ["bash"]\n')


@pytest.mark.parametrize("language", LANGUAGES)
def test_template_has_no_word_left_to_fill_in(make: Make, language: Language) -> None:
    written = template(make, {"README.md": ""}, language)
    assert written.startswith(f"FROM toolchain/{language}:1\n")
    assert not re.search(r"@[a-z_]+@", written)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.Dockerfile")), ids=lambda path: path.stem)
def test_template_needs_no_newer_builder(path: Path) -> None:
    assert not re.search(r"<<|--mount|--chmod|--link|# *syntax", path.read_text())


@pytest.mark.parametrize("language", LANGUAGES)
def test_script_of_a_template_comes_beside_the_tree_and_leaves_the_image(make: Make, language: Language) -> None:
    spec = make({"README.md": ""}, language)[-1][1]
    (script,) = (path.removeprefix(".touchstone/") for path in spec.context_files)
    assert f"mv .touchstone/{script} /tmp/ && rm -rf .touchstone " in spec.dockerfile
    assert re.search(rf"&& rm .*/tmp/{re.escape(script)}", spec.dockerfile)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.py")), ids=lambda path: path.stem)
def test_script_of_a_template_is_one_that_the_oldest_python_reads(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_project_in_a_folder_is_built_there_where_the_root_is_none(make: Make) -> None:
    files: dict[str, str | bytes] = {"web/package.json": "{}", "docs/a/package.json": "{}", "README.md": ""}
    assert "cp -a /workspace/thing/web " in template(make, files, "javascript")
    assert "cp -a /workspace/thing " in template(make, files | {"package.json": "{}"}, "javascript")


def test_toolchain_that_cannot_be_had_gives_way_to_the_usual_one(make: Make, tmp_path: Path) -> None:
    assert template(make, {"go.mod": "module a.org/b\ngo 9.9\n"}, "go").startswith("FROM toolchain/go:1\n")


CONTROL = """Source: thing
# A comment
Build-Depends: debhelper-compat (= 13), libfoo-dev (>= 2) [linux-any], libbar-dev | libbaz-dev,
 dh-golang, python3-qux <!nocheck>, golang-any,
#libgone-dev,
 libc++-dev:native
Build-Depends-Indep: default-jdk-doc, junit4
Standards-Version: 4.6
XS-Go-Import-Path: example.org/some/thing

Package: thing
Depends: libother-dev
"""


def test_libraries_of_debian_build_depends_are_installed_and_packaging_is_not(make: Make) -> None:
    written = template(make, {"debian/control": CONTROL, "Makefile": ""}, "c")
    assert packages(written) == ["junit4", "libbar-dev", "libc++-dev", "libfoo-dev"]


def test_go_tree_is_built_under_the_import_path_of_its_packaging_or_else_of_its_module(make: Make) -> None:
    files: dict[str, str | bytes] = {"debian/control": CONTROL, "go.mod": "module other.org/x\n"}
    assert "build_go.py example.org/some/thing " in template(make, files, "go")
    files["debian/control"] = "Source: x\n"
    assert "build_go.py other.org/x " in template(make, files, "go")


def test_libraries_of_go_are_asked_for_by_the_names_that_debian_gives_them(make: Make) -> None:
    module = "module a.org/b\nrequire (\n\tgithub.com/Spf13/pflag v1.0.5 // indirect\n\tgopkg.in/yaml.v3 v3.0.1\n)\n"
    module += "require golang.org/x/sys v0.1.0\nrequire google.golang.org/grpc v1.2.3\nrequire go.uber.org/zap v1.0.0\n"
    written = template(make, {"go.mod": module}, "go")
    expected = "github-spf13-pflag gopkg-yaml.v3 golang-x-sys google-grpc go.uber-zap"
    for name in expected.split():
        assert f" golang-{name}-dev " in written.replace("\n", " ")


def test_packaging_is_taken_out_of_debian_packages_and_left_in_other_trees(make: Make) -> None:
    files: dict[str, str | bytes] = {"debian/control": CONTROL, "Makefile": ""}
    assert "rm -rf .touchstone .touchstone.Dockerfile debian .pc" in template(make, files, "c", "debian/thing")
    assert "debian .pc" not in template(make, files, "c", "owner/thing")


def test_library_that_a_source_text_asks_for_is_installed(make: Make) -> None:
    sources: dict[str, str | bytes] = {
        "Makefile": "",
        "a.c": '# include <curl/curl.h>\n#include "zlib.h"\n',
        "zlib.h": "",
        "tests/b.c": "#include <lzma.h>",
    }
    assert packages(template(make, sources, "c")) == ["libcurl4-openssl-dev"]


@pytest.mark.parametrize(
    ("files", "language", "package"),
    [
        ({"CMakeLists.txt": "find_package(ZLIB REQUIRED)"}, "c", "zlib1g-dev"),
        ({"CMakeLists.txt": "FetchContent_Declare(googletest URL x)"}, "cpp", "libgtest-dev"),
        ({"CMakeLists.txt": "pkg_check_modules(GLIB REQUIRED glib-2.0)"}, "c", "libglib2.0-dev"),
        ({"configure.ac": "PKG_CHECK_MODULES([X], [libuv >= 1.0])"}, "c", "libuv1-dev"),
        ({"configure.ac": "AX_CXX_COMPILE_STDCXX"}, "c", "autoconf-archive"),
        ({"meson.build": "dependency('json-c')"}, "c", "libjson-c-dev"),
        ({".gitmodules": "\turl = ../fmt.git\n", "a.cc": ""}, "cpp", "libfmt-dev"),
        ({"A.java": "import static com.google.common.base.X.y;"}, "java", "libguava-java"),
        ({"composer.json": '{"require": {"ext-pdo_mysql": "*"}}'}, "php", "php-mysql"),
        ({"composer.json": '{"require": {"psr/log": "1"}}'}, "php", "php-psr-log"),
        ({"requirements.txt": "psycopg2==2.8\n"}, "python", "libpq-dev"),
    ],
)
def test_package_that_a_build_file_asks_for_is_installed(
    make: Make, files: dict[str, str | bytes], language: Language, package: str
) -> None:
    assert package in packages(template(make, files, language))


@pytest.mark.parametrize(
    ("files", "language", "version"),
    [
        ({"go.mod": "module a.org/b\ngo 1.23.1\n"}, "go", "1.23"),
        ({"go.mod": "module a.org/b\ngo 1.17\n"}, "go", "1"),
        ({"pom.xml": "<maven.compiler.release>21</maven.compiler.release>"}, "java", "21"),
        ({"pom.xml": "<java.version>1.8</java.version>"}, "java", "1"),
        ({"package.json": '{"engines": {"node": ">=22.12"}}'}, "javascript", "22"),
        ({"package.json": '{"engines": {"node": "^18 || >=20"}}'}, "javascript", "1"),
        ({"pyproject.toml": 'requires-python = ">=3.12"'}, "python", "3.13"),
        ({"setup.py": "python_requires='>=3.6, <3.10'"}, "python", "3.9"),
        ({"pyproject.toml": 'requires-python = ">=3.9"'}, "python", "1"),
        ({"composer.json": '{"require": {"php": "^8.3"}}'}, "php", "8.4"),
        ({"composer.json": '{"require": {"php": "^7.2 || ^8.0"}}'}, "php", "1"),
    ],
)
def test_toolchain_is_as_new_as_the_tree_asks_for(
    make: Make, files: dict[str, str | bytes], language: Language, version: str
) -> None:
    assert template(make, files, language).startswith(f"FROM toolchain/{language}:{version}\n")


def test_name_of_the_repository_is_made_safe_for_paths(make: Make) -> None:
    assert "COPY . /workspace/some--thing\n" in template(make, {"a": ""}, "c", "owner/Some; Thing")


def test_dockerignore_ignores_nothing_and_stands_in_the_tree_again(make: Make) -> None:
    for _, spec in make({"Dockerfile": "FROM debian", ".dockerignore": "*.md"}):
        assert spec.context_files[".dockerignore"] == ""
        assert spec.context_files[".touchstone/dockerignore"] == "*.md"
        assert "mv -f .touchstone/dockerignore .dockerignore && rm -rf .touchstone " in spec.dockerfile
