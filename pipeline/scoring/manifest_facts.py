"""What the build files of each ecosystem ask for, as numbers: how much, how exactly, and what tends to be missing.

Everything is read as text or data and nothing is looked up; what cannot be parsed gives zeros. Dockerfiles are in
dockerfile_facts.py.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping

from pipeline.checkout import Tree

MAX_READ = 2**17

_EXACT = re.compile(r"^[v=]*\d+\.\d+(\.\d+)?$")
_FROM_GIT = re.compile(r"^git|github:|\bgit\+|@ ?git|\.git\b|^[\w-]+/[\w.-]+$|^(?:file|link|workspace):")
_NATIVE_NODE = re.compile(
    r"^(?:node-gyp|node-sass|bcrypt|sqlite3|canvas|sharp|grpc|fibers|leveldown|nan|node-pre-gyp)$"
)
_BROWSER_NODE = re.compile(r"^(?:puppeteer|phantomjs.*|electron|cypress|playwright.*|chromedriver|nightmare)$")
_OF_GIT = r"git describe|git rev-parse"
_SCM = re.compile(rf"setuptools[_-]scm|versioneer|hatch-vcs|pdm-scm|setuptools[_-]git|\bpbr\b|{_OF_GIT}")
_NATIVE_PYTHON = re.compile(
    r"ext_modules|\bExtension\(|cythonize|pybind11|maturin|setuptools[_-]rust|cffi_modules|scikit-build"
)
_OLD_PYTHON = re.compile(
    r"\bpkg_resources\b|\bfrom distutils|\bimport (?:imp|distutils|urllib2|ConfigParser)\b|use_2to3|basestring"
)
_QUOTED = re.compile(r"['\"]([A-Za-z][\w.-]*(?:\[\w+\])?\s*(?:[<>=!~][^'\"]*)?)['\"]")
_JAVA_SOURCE = re.compile(r"(?:<source>|<maven\.compiler\.source>|sourceCompatibility\s*=?\s*['\"]?)(?:1\.)?(\d{1,2})")
_GRADLE_DEPENDENCY = re.compile(r"^\s*(?:implementation|compile|api|testCompile)\b", re.M)
_FETCHES = re.compile(r"FetchContent|ExternalProject_Add|\bgit clone\b|\bcurl\s|\bwget\s|file\(DOWNLOAD|CPMAddPackage")
_REQUIRED = re.compile(
    r"find_package\s*\([^)]{0,200}REQUIRED|pkg_check_modules|PKG_CHECK_MODULES|AC_CHECK_LIB|AC_SEARCH_LIBS|dependency\s*\(",
    re.I,
)
_NAMES = (
    *("npm_dependencies", "npm_dev_dependencies", "npm_pinned", "npm_from_git", "npm_native", "npm_browser"),
    *("npm_install_script", "npm_build_script", "npm_bin", "npm_main_there", "npm_main_absent", "npm_workspaces"),
    *("py_dependencies", "py_pinned", "py_from_git", "py_native", "py_version_from_git", "py_old", "py_program"),
    *("py_backend_setuptools", "py_backend_other", "go_minor", "go_requires", "go_replaces", "php_requires"),
    *("php_extensions", "php_major", "php_program", "jvm_dependencies", "jvm_modules", "jvm_parent", "jvm_snapshots"),
    *("jvm_old_source", "jvm_repositories", "c_required", "c_fetches", "c_version_from_git", "deb_build_depends"),
    *("deb_patches",),
)


def manifest_facts(tree: Tree) -> dict[str, float]:
    """All facts, 0 where there is no such file at the root of the tree or one folder below."""
    facts = dict.fromkeys(_NAMES, 0.0)
    for read in (_npm, _python, _go, _php, _jvm, _c, _debian):
        facts |= read(tree)
    return facts


def nearest(tree: Tree, name: str) -> str | None:
    """The file of that name that lies nearest to the root, at most one folder below it."""
    if name in tree.files:
        return name
    return min((path for path in tree.files if path.count("/") == 1 and path.endswith(f"/{name}")), default=None)


def text_of(tree: Tree, path: str | None) -> str:
    """Its beginning as text; empty for none."""
    return "" if path is None else tree.read(path, max_bytes=MAX_READ).decode("utf-8", "replace")


def _object(tree: Tree, name: str) -> Mapping[str, object]:
    try:
        found = json.loads(text_of(tree, nearest(tree, name)) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _share(parts: Iterable[bool], whole: int) -> float:
    return sum(parts) / whole if whole else 0.0


def _npm(tree: Tree) -> dict[str, float]:
    path = nearest(tree, "package.json")
    package = _object(tree, "package.json")
    wanted = _table(package.get("dependencies"))
    both = {**_table(package.get("devDependencies")), **wanted}
    scripts = _table(package.get("scripts"))
    main = package.get("main")
    folder = (path or "").rpartition("/")[0]
    there = isinstance(main, str) and _is_module(tree, folder, main)
    return {
        "npm_dependencies": float(len(wanted)),
        "npm_dev_dependencies": float(len(both) - len(wanted)),
        "npm_pinned": _share((_EXACT.match(str(version)) is not None for version in both.values()), len(both)),
        "npm_from_git": float(sum(_FROM_GIT.search(str(version)) is not None for version in both.values())),
        "npm_native": float(sum(_NATIVE_NODE.match(name) is not None for name in both)),
        "npm_browser": float(sum(_BROWSER_NODE.match(name) is not None for name in both)),
        "npm_install_script": float(not scripts.keys().isdisjoint({"preinstall", "install", "postinstall", "prepare"})),
        "npm_build_script": float(not scripts.keys().isdisjoint({"build", "compile", "dist"})),
        "npm_bin": float(bool(package.get("bin"))),
        "npm_main_there": float(there),
        "npm_main_absent": float(isinstance(main, str) and not there),
        "npm_workspaces": float("workspaces" in package),
    }


def _is_module(tree: Tree, folder: str, main: str) -> bool:
    path = "/".join(part for part in (*folder.split("/"), *main.split("/")) if part not in ("", "."))
    return any(f"{path}{ending}" in tree.files for ending in ("", ".js", ".cjs", ".mjs", "/index.js"))


def _python(tree: Tree) -> dict[str, float]:
    project_text = text_of(tree, nearest(tree, "pyproject.toml"))
    setup = text_of(tree, nearest(tree, "setup.py")) + "\n" + text_of(tree, nearest(tree, "setup.cfg"))
    try:
        project = tomllib.loads(project_text)
    except (tomllib.TOMLDecodeError, RecursionError):
        project = {}
    main = _table(project.get("project"))
    poetry = _table(_table(project.get("tool")).get("poetry"))
    listed = main.get("dependencies")
    wanted = [str(one) for one in listed] if isinstance(listed, list) else []
    wanted += [f"{name}{version}" for name, version in _table(poetry.get("dependencies")).items() if name != "python"]
    wanted += _requirements(text_of(tree, nearest(tree, "requirements.txt")))
    if "install_requires" in setup:
        # A list in setup.py ends with its bracket; in setup.cfg what follows are words as well.
        wanted += _QUOTED.findall(setup.partition("install_requires")[2].partition("]")[0][:4000])
    usual = "setuptools" if setup.strip() else ""
    backend = str(_table(project.get("build-system")).get("build-backend", usual))
    whole = project_text + setup
    return {
        "py_dependencies": float(len(wanted)),
        "py_pinned": _share(("==" in one for one in wanted), len(wanted)),
        "py_from_git": float(sum("git+" in one or " @ " in one for one in wanted)),
        "py_native": float(_NATIVE_PYTHON.search(whole) is not None),
        "py_version_from_git": float(_SCM.search(whole) is not None),
        "py_old": float(_OLD_PYTHON.search(whole) is not None),
        "py_program": float(bool(main.get("scripts") or poetry.get("scripts") or "console_scripts" in setup)),
        "py_backend_setuptools": float("setuptools" in backend),
        "py_backend_other": float(bool(backend) and "setuptools" not in backend),
    }


def _requirements(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("-r", "-c", "--"))]


def _go(tree: Tree) -> dict[str, float]:
    text = text_of(tree, nearest(tree, "go.mod"))
    version = re.search(r"^go 1\.(\d{1,3})", text, re.M)
    return {
        "go_minor": float(version[1]) if version else 0.0,
        "go_requires": float(len(re.findall(r"^[ \t]*(?:require[ \t]+)?\S+[ \t]+v\d", text, re.M))),
        "go_replaces": float(len(re.findall(r"=>\s*\.", text))),
    }


def _php(tree: Tree) -> dict[str, float]:
    package = _object(tree, "composer.json")
    wanted = _table(package.get("require"))
    major = re.search(r"(\d)", str(wanted.get("php", "")))
    return {
        "php_requires": float(sum("/" in name for name in wanted)),
        "php_extensions": float(sum(name.startswith("ext-") for name in wanted)),
        "php_major": float(major[1]) if major else 0.0,
        "php_program": float(bool(package.get("bin"))),
    }


def _jvm(tree: Tree) -> dict[str, float]:
    pom = text_of(tree, nearest(tree, "pom.xml"))
    gradle = text_of(tree, nearest(tree, "build.gradle") or nearest(tree, "build.gradle.kts"))
    source = _JAVA_SOURCE.search(pom + gradle)
    dependencies = pom.count("<dependency>") + len(_GRADLE_DEPENDENCY.findall(gradle))
    return {
        "jvm_dependencies": float(dependencies),
        "jvm_modules": float(pom.count("<module>")),
        "jvm_parent": float("<parent>" in pom),
        "jvm_snapshots": float(pom.count("-SNAPSHOT</version>")),
        "jvm_old_source": float(source is not None and int(source[1]) < 8),
        "jvm_repositories": float(pom.count("<repository>") + gradle.count("maven {")),
    }


def _c(tree: Tree) -> dict[str, float]:
    names = ("CMakeLists.txt", "configure.ac", "configure.in", "meson.build", "Makefile", "GNUmakefile")
    text = "\n".join(text_of(tree, path) for name in names if (path := nearest(tree, name)) is not None)
    return {
        "c_required": float(len(_REQUIRED.findall(text))),
        "c_fetches": float(len(_FETCHES.findall(text))),
        "c_version_from_git": float(re.search(rf"{_OF_GIT}|GIT_EXECUTABLE", text) is not None),
    }


def _debian(tree: Tree) -> dict[str, float]:
    control = text_of(tree, "debian/control" if "debian/control" in tree.files else None)
    needed = re.search(r"^Build-Depends(?:-Indep)?:(.*(?:\n[ \t].*)*)", control, re.M)
    return {
        "deb_build_depends": float(len([one for one in needed[1].split(",") if one.strip()])) if needed else 0.0,
        "deb_patches": float(sum(path.startswith("debian/patches/") for path in tree.files)),
    }
