"""Which of our recipes stands in for a public image, and in which version: pure decisions by the reference alone.

Only images that everybody knows get a stand-in, by the family of their name; the nearest version that can be had is
taken. A private image has none. Nothing is built or asked for here; see base_images.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import docker

_SUITES = ("bullseye", "bookworm", "trixie")
# Releases that are gone, or another distribution's, have the nearest of ours.
_RELEASES = {
    "bullseye": {"11", "10", "9", "8", "buster", "stretch", "jessie", "20.04", "18.04", "16.04", "14.04"}
    | {"focal", "bionic", "xenial", "trusty", "oldoldstable"},
    "bookworm": {"12", "22.04", "22.10", "23.04", "jammy", "lunar", "oldstable"},
    "trixie": {"13", "23.10", "24.04", "24.10", "25.04", "25.10", "26.04", "noble", "oracular", "plucky", "questing"}
    | {"stable", "testing", "sid", "unstable", "forky"},
}
PYTHON = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie"}
JAVA = {"11": "bullseye", "17": "bookworm", "21": "trixie"}
PHP = {"7.4": "bullseye", "8.2": "bookworm", "8.4": "trixie"}
_GCC = {"10": "bullseye", "12": "bookworm", "14": "trixie"}
GO = ("1.21.13", "1.22.10", "1.23.9", "1.24.11", "1.25.5", "1.26.6", "1.27.3")
NODE = ("12.22.12", "14.21.3", "16.20.2", "18.20.8", "20.20.2", "22.22.3", "24.22.3")
_NODE_NAMES = {"erbium": "12", "fermium": "14", "gallium": "16", "hydrogen": "18", "iron": "20", "jod": "22"}
_NODE_NAMES |= {"krypton": "24", "lts": "22"}
# Languages of which every Debian release has one version.
_BY_SUITE: Mapping[str, Mapping[str, str]] = {
    "python": PYTHON,
    "java": JAVA,
    "php": PHP,
    "c": _GCC,
    "cpp": _GCC,
    "buildpack": _GCC,
}
# Languages of which a package index has many versions.
_BY_INDEX: Mapping[str, Sequence[str]] = {"go": GO, "javascript": NODE}

# Family -> the names of its images, as the hub and others spell them.
_FAMILIES: Mapping[str, str] = {
    "debian": "debian ubuntu busybox bash base static base-nossl base-debian static-debian base-nossl-debian cc-debian"
    " phusion/baseimage bitnami/minideb linuxserver/baseimage-ubuntu linuxserver/baseimage-debian nvidia/cuda",
    "alpine": "alpine linuxserver/baseimage-alpine",
    "bun": "oven/bun",
    "python": "python pypy python3-debian bitnami/python cimg/python circleci/python tiangolo/uvicorn-gunicorn"
    " tiangolo/uvicorn-gunicorn-fastapi tiangolo/uwsgi-nginx-flask tiangolo/uwsgi-nginx",
    "javascript": "node nodejs-debian javascript-node typescript-node bitnami/node cimg/node circleci/node",
    "go": "golang go bitnami/golang cimg/go circleci/golang",
    "java": "openjdk eclipse-temurin amazoncorretto maven gradle adoptopenjdk java java-debian tomcat sapmachine"
    " ibm-semeru-runtimes azul/zulu-openjdk azul/zulu-openjdk-alpine bellsoft/liberica-openjdk-alpine"
    " bellsoft/liberica-openjdk-debian cimg/openjdk circleci/openjdk",
    "php": "php composer composer/composer bitnami/php-fpm cimg/php circleci/php dunglas/frankenphp webdevops/php"
    " webdevops/php-nginx webdevops/php-apache serversideup/php trafex/php-nginx mlocati/php-extension-installer",
    "buildpack": "gcc buildpack-deps cpp silkeh/clang cimg/base",
    "nginx": "nginx nginxinc/nginx-unprivileged bitnami/nginx",
    "httpd": "httpd bitnami/apache",
    "uv": "astral-sh/uv",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}
# The first number in a tag of these is the tool's own version, not the language's.
_TOOLS = frozenset(
    {
        "maven",
        "gradle",
        "tomcat",
        "composer",
        "composer/composer",
        "trafex/php-nginx",
        "mlocati/php-extension-installer",
    }
)
# Folders under which registries other than the hub publish images for everybody.
_PUBLIC_FOLDERS = ("docker/library/", "library/", "vscode/devcontainers/", "devcontainers/", "distroless/")
_PUBLIC_NAMES = frozenset({"astral-sh/uv", "mlocati/php-extension-installer"}) | {
    f"linuxserver/baseimage-{name}" for name in ("alpine", "debian", "ubuntu")
}
# What lies below the images of a language unless their tag says that they are slim.
_FULL = {"python": "buildpack", "javascript": "buildpack", "go": "cpp", "php": "cpp"}
# What images of a language have besides its tools: users and folders that Dockerfiles rely on.
_PLACES = {"javascript": "node", "go": "golang"}
_WINDOWS = re.compile(r"windows|nanoserver|servercore|ltsc20\d\d", re.IGNORECASE)
_JAVA_TAG = re.compile(r"(?:jdk|jre|temurin|corretto|openjdk|java)-?(\d+(?:\.\d+)*)")
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True)
class Layer:
    """One recipe of ours over the one before; `version` is its build argument VERSION."""

    recipe: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class StandIn:
    """What is built in the place of an image: a Debian release (None: the configured one) and the layers above it."""

    suite: str | None
    layers: tuple[Layer, ...] = ()


def is_windows(reference: str) -> bool:
    """Whether an image can only run on Windows."""
    return _WINDOWS.search(reference) is not None


def stand_in(reference: str) -> StandIn | None:
    """What can take the place of an image; None for one that is private or of no family of ours."""
    name, tag = _public_name(reference)
    family = _FAMILY.get(name or "")
    if name is None or family is None or is_windows(reference) or (family == "python" and re.match(r"2\b", tag)):
        return None
    alpine = [Layer("alpine")] if "alpine" in f"{name}:{tag}" else []
    if family == "debian":
        return StandIn(_suite(tag, numbered=True))
    if family == "alpine":
        return StandIn(_suite(tag), tuple(alpine))
    if family == "bun":
        return StandIn(_suite(tag), (Layer("javascript"), Layer("node"), Layer("bun"), *alpine))
    if family in ("nginx", "httpd"):
        return StandIn(_suite(tag), (Layer(family), *alpine))
    if family == "uv":
        if "python" not in tag:
            return StandIn(_suite(tag), (Layer("uv"), *alpine))
        return StandIn(versioned("python", _version(tag))[0], (Layer("python"), Layer("uv"), *alpine))
    return _of_language(family, None if name in _TOOLS and not _JAVA_TAG.search(tag) else _version(tag), tag)


def versioned(language: str, version: str | None) -> tuple[str | None, str | None]:
    """Debian release and VERSION for a language's toolchain: the nearest to `version`, not older where possible.

    Without a version both are None: the recipe's own default.
    """
    if version is None:
        return None, None
    if (suites := _BY_SUITE.get(language)) is not None:
        found = nearest(version, tuple(suites))
        return suites[found], found if language == "java" else None
    if (known := _BY_INDEX.get(language)) is not None:
        # The newest patch of a Node series runs what its older ones run.
        return None, nearest(version.partition(".")[0] if known is NODE else version, known)
    return None, None


def nearest(wanted: str, available: Sequence[str]) -> str:
    """The newest that begins like `wanted`; else the oldest above it; else the newest of all. Ascending `available`."""
    number = _numbers(wanted)
    alike = [one for one in available if _numbers(one)[: len(number)] == number]
    if alike:
        return alike[-1]
    # A patch release that we lack is served by another of the same series.
    series = [one for one in available if _numbers(one)[:2] == number[:2] and len(number) > 2]
    later = [one for one in available if _numbers(one) > number]
    return (series or later or list(available))[-1 if series or not later else 0]


def _of_language(family: str, version: str | None, tag: str) -> StandIn:
    if family == "javascript":
        version = version or next((_NODE_NAMES[name] for name in _NODE_NAMES if name in tag), NODE[-1])
    elif family == "go":
        version = version or GO[-1]
    elif family == "java" and version is not None:
        version = version.removeprefix("1.")
    elif version in ("3", "8"):
        version = None  # Any of the series will do: that of the configured release is there already.
    suite, exact = versioned(family, version)
    layers = [Layer(family, exact)]
    if family in _FULL and not re.search(r"slim|alpine", tag):
        layers.insert(0, Layer(_FULL[family]))
    if family in _PLACES:
        layers.append(Layer(_PLACES[family]))
    if family == "php" and "apache" in tag:
        layers.append(Layer("apache"))
    if "alpine" in tag:
        layers.append(Layer("alpine"))
    return StandIn(suite or _suite(tag), tuple(layers))


def _public_name(reference: str) -> tuple[str | None, str]:
    """The name without its registry, and the tag; no name when the image is not one that everybody can have."""
    path, tag = docker.utils.parse_repository_tag(reference.partition("@")[0])
    host, name = docker.auth.resolve_repository_name(path.lower())
    if host == docker.auth.INDEX_NAME:
        return name.removeprefix("library/").removeprefix("amd64/"), tag or "latest"
    for folder in _PUBLIC_FOLDERS:
        if name.startswith(folder):
            # Language and release are part of some names: `nodejs20-debian12`.
            inner = name.removeprefix(folder)
            found = re.fullmatch(r"([a-z-]+?)(\d*)-debian(\d+)", inner)
            return (f"{found[1]}-debian", f"{found[2] or found[3]}-slim") if found else (inner, tag or "latest")
    return (name if name in _PUBLIC_NAMES else None), tag or "latest"


def _version(tag: str) -> str | None:
    """The language's version in a tag: `3.11-slim`; that of `3-jdk-11` stands behind the language's name."""
    found = _JAVA_TAG.search(tag) or re.search(r"(?:python|php)-?(\d+(?:\.\d+)*)", tag) or _VERSION.search(tag)
    return found[1] if found else None


def _suite(tag: str, *, numbered: bool = False) -> str | None:
    """The Debian release that a tag names by its name (or its number), None when it names none."""
    split = re.split(r"[-_]", tag.replace("ubuntu", "").replace("debian", ""))
    words = {word for word in split if not word[:1].isdigit() or numbered}
    for suite in _SUITES:
        if suite in words or words & _RELEASES[suite]:
            return suite
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
