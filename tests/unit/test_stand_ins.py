"""Which recipe stands in for which image. That the recipes build is tests/contract/test_base_images.py."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox.building.base_images import RECIPES, BaseImageConfig
from sandbox.building.stand_ins import GO, NODE, is_windows, nearest, stand_in, versioned


def layers(reference: str) -> list[str]:
    found = stand_in(reference)
    assert found is not None
    return [f"{layer.recipe} {layer.version or ''}".strip() for layer in found.layers]


def suite(reference: str) -> str | None:
    found = stand_in(reference)
    assert found is not None
    return found.suite


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("debian:bookworm-slim", []),
        ("alpine:3.19", ["alpine"]),
        ("python:3.11-slim", ["python"]),
        ("python:3.11", ["buildpack", "python"]),
        ("python:3-alpine", ["python", "alpine"]),
        ("node:18-alpine", ["javascript 18.20.8", "node", "alpine"]),
        ("node:lts-slim", ["javascript 22.22.3", "node"]),
        ("node:hydrogen-slim", ["javascript 18.20.8", "node"]),
        ("golang:1.22-alpine", ["go 1.22.10", "golang", "alpine"]),
        ("golang:1.22.3", ["cpp", "go 1.22.10", "golang"]),
        ("maven:3.9-eclipse-temurin-17", ["java 17"]),
        ("maven:3", ["java"]),
        ("gradle:8.5-jdk21", ["java 21"]),
        ("openjdk:1.8", ["java 11"]),
        ("php:8.2-apache", ["cpp", "php", "apache"]),
        ("composer:2", ["cpp", "php"]),
        ("gcc:12", ["buildpack"]),
        ("oven/bun:1-alpine", ["javascript", "node", "bun", "alpine"]),
        ("tomcat:9-jdk11", ["java 11"]),
        ("amd64/alpine:3", ["alpine"]),
        ("tiangolo/uvicorn-gunicorn-fastapi:python3.11", ["buildpack", "python"]),
        ("forge.example/mlocati/php-extension-installer:2", ["cpp", "php"]),
        ("nginx:stable-alpine", ["nginx", "alpine"]),
        ("httpd:2.4", ["httpd"]),
        ("forge.example/astral-sh/uv:latest", ["uv"]),
        ("forge.example/astral-sh/uv:python3.13-bookworm-slim", ["python", "uv"]),
        ("registry.example/distroless/nodejs20-debian12", ["javascript 20.20.2", "node"]),
        ("registry.example/distroless/static:nonroot", []),
        ("registry.example/devcontainers/python:3.11", ["buildpack", "python"]),
        ("registry.example/docker/library/nginx:1", ["nginx"]),
    ],
)
def test_family_and_version_are_in_the_name(reference: str, expected: list[str]) -> None:
    assert layers(reference) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("debian:12", "bookworm"),
        ("debian:stretch-slim", "bullseye"),
        ("debian:8", "bullseye"),
        ("ubuntu:24.04", "trixie"),
        ("ubuntu", None),
        ("nvidia/cuda:12.2.0-devel-ubuntu22.04", "bookworm"),
        ("python:3.8", "bullseye"),
        ("python:3.10", "bookworm"),
        ("python:3.12", "trixie"),
        ("python", None),
        ("php:7.4", "bullseye"),
        ("gradle:8", None),
        ("golang:1.24-bookworm", "bookworm"),
    ],
)
def test_release_is_the_nearest_that_has_the_version(reference: str, expected: str | None) -> None:
    assert suite(reference) == expected


def test_digest_of_a_pinned_image_does_not_matter() -> None:
    assert stand_in("node:20@sha256:" + "0" * 64) == stand_in("node:20")


@pytest.mark.parametrize(
    "reference",
    ["python:2.7", "acme/python:3", "registry.example/python:3", "registry.example/acme/node", "postgres", "rust:1"],
)
def test_private_and_foreign_images_have_none(reference: str) -> None:
    assert stand_in(reference) is None


@pytest.mark.parametrize("reference", ["python:3.11-windowsservercore", "registry.example/windows/nanoserver:1809"])
def test_images_of_windows_have_none(reference: str) -> None:
    assert is_windows(reference)
    assert stand_in(reference) is None


def test_every_layer_has_a_recipe() -> None:
    for name in (
        "alpine",
        "python",
        "node",
        "golang",
        "openjdk",
        "php:apache",
        "gcc",
        "nginx",
        "httpd",
        "forge.example/astral-sh/uv",
    ):
        for layer in layers(name):
            assert (RECIPES / f"{layer.partition(' ')[0]}.Dockerfile").is_file()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("3.9", "3.9"),
        ("3", "3.13"),
        ("3.10", "3.11"),
        ("3.14", "3.13"),
        ("2.7", "3.9"),
        ("3.11.4", "3.11"),
        ("", "3.13"),
    ],
)
def test_the_nearest_version_is_not_older_where_there_is_a_newer_one(wanted: str, expected: str) -> None:
    assert nearest(wanted, ("3.9", "3.11", "3.13")) == expected


def test_toolchains_of_old_and_new_versions() -> None:
    assert versioned("python", "3.12") == ("trixie", None)
    assert versioned("java", "21") == ("trixie", "21")
    assert versioned("javascript", "20.9") == (None, "20.20.2")
    assert versioned("go", "1.18") == (None, GO[0])
    assert versioned("javascript", "99") == (None, NODE[-1])
    assert versioned("python", None) == (None, None)


@pytest.mark.parametrize("mirrors", [{"a/*/*": "b/*"}, {"a": "b/*"}, {"a/*": "b/*/*"}])
def test_mirror_patterns_that_say_nothing_clear_are_refused(mirrors: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="at most one"):
        BaseImageConfig(mirrors=mirrors)
