"""Which version of its language's toolchain a tree asks for; None where the usual one does.

Only what a tree says that the usual version cannot do counts. Which versions can be had is the sandbox package's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pipeline.checkout import Tree
from pipeline.recipes import text_of
from pipeline.types import Language

Version = tuple[int, ...]

USUAL: dict[Language, Version] = {
    "go": (1, 19),
    "java": (17,),
    "javascript": (20,),
    "html": (20,),
    "php": (8, 2),
    "python": (3, 11),
}
"""What `toolchain(language)` without a version gives at least."""
_PYTHONS = ("3.9", "3.11", "3.13")


def version_for(language: Language, tree: Tree, folder: str = "") -> str | None:
    """As `toolchain(language, version)` takes it."""
    below = f"{folder}/" if folder else ""
    if language == "go":
        return _go(text_of(tree, f"{below}go.mod"))
    if language == "java":
        return _java(tree)
    if language in ("javascript", "html"):
        return _node(text_of(tree, f"{below}package.json"))
    if language == "php":
        return _php(text_of(tree, f"{below}composer.json"))
    if language == "python":
        return _python(tree, below)
    return None


def _numbers(text: str) -> Version:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _go(go_mod: str) -> str | None:
    found = re.search(r"^go\s+(\d+\.\d+)", go_mod, re.MULTILINE)
    return found[1] if found and _numbers(found[1]) > USUAL["go"] else None


def _java(tree: Tree) -> str | None:
    pattern = re.compile(
        r"<(?:maven\.compiler\.(?:release|source|target)|java\.version|release|jdk\.version)>\s*(?:1\.)?(\d+)"
        r"|JavaLanguageVersion\.of\(\s*(\d+)|VERSION_(\d+)\b|(?:source|target)Compatibility\s*=\s*['\"]?(?:1\.)?(\d+)"
    )
    asked = [
        int(number)
        for name in tree.files
        if name.count("/") <= 1 and name.rpartition("/")[2] in ("pom.xml", "build.gradle", "build.gradle.kts")
        for groups in pattern.findall(text_of(tree, name))
        for number in groups
        if number
    ]
    newest = max((one for one in asked if one < 40), default=0)
    return "21" if newest > USUAL["java"][0] else None


def _node(package_json: str) -> str | None:
    try:
        description = json.loads(package_json or "{}")
    except (ValueError, RecursionError):
        return None
    engines = description.get("engines") if isinstance(description, dict) else None
    wanted = str(engines.get("node", "")) if isinstance(engines, dict) else ""
    lowest = [min((int(n) for n in re.findall(r"(\d+)(?:\.[\dx*]+)*", part)), default=0) for part in wanted.split("||")]
    least = min((one for one in lowest if one), default=0)
    return str(least) if least > USUAL["javascript"][0] else None


def _php(composer_json: str) -> str | None:
    found = re.search(r'"php"\s*:\s*"([^"]+)"', composer_json)
    if found is None:
        return None
    versions = [_numbers(one) for one in re.findall(r"\d+(?:\.\d+)?", found[1])]
    least = min(versions, default=USUAL["php"])
    if least > USUAL["php"]:
        return "8.4"
    return "7.4" if versions and max(versions)[0] < 8 and ">" not in found[1] else None


def _python(tree: Tree, below: str) -> str | None:
    """Of Python the oldest that fits where the usual one does not."""
    said = ""
    for name, pattern in (
        ("pyproject.toml", r"requires-python\s*=\s*[\"']([^\"']+)"),
        ("pyproject.toml", r"(?m)^python\s*=\s*[\"']([^\"']+)"),
        ("setup.cfg", r"python_requires\s*=\s*([^\n]+)"),
        ("setup.py", r"python_requires\s*=\s*[\"']([^\"']+)"),
        ("Pipfile", r"python_version\s*=\s*[\"']([^\"']+)"),
    ):
        found = re.search(pattern, text_of(tree, f"{below}{name}"))
        said = said or (found[1] if found else "")
    if not said or _fits(USUAL["python"], said):
        return None
    return next((one for one in reversed(_PYTHONS) if _fits(_numbers(one), said)), None)


def _fits(version: Version, wanted: str) -> bool:
    return all(_satisfies(version, sign, number) for sign, number in _clauses(wanted.partition("||")[0]))


def _clauses(wanted: str) -> Iterator[tuple[str, Version]]:
    for sign, number in re.findall(r"([<>=!~^]*)\s*(\d+(?:\.\d+)*)", wanted):
        yield sign, _numbers(number)


def _satisfies(version: Version, sign: str, number: Version) -> bool:
    if sign in (">=", "~=", "^", "~"):
        return version >= number and (sign != "~" or version == number)
    if sign == ">":
        return version >= number
    if sign == "<":
        return version < number
    if sign == "<=":
        return version <= number
    if sign in ("", "=="):
        return version[: len(number)] == number
    return True
