"""What is mended in a Dockerfile after it failed, by the last words of real logs."""

from __future__ import annotations

import pytest

from pipeline.own_repairs import mended

HEAD = "FROM debian:buster-slim\n"


@pytest.mark.parametrize(
    ("step", "log", "name", "expected"),
    [
        (
            "RUN apt-get install -y curl",
            "E: Unable to locate package curl",
            "package_lists",
            "RUN apt-get update && apt-get install -y curl",
        ),
        (
            "RUN apt-get update && apt-get install -y python-pip=9.0 make",
            "E: Unable to locate package python-pip",
            "package_renamed",
            "RUN apt-get update && apt-get install -y python3-pip make",
        ),
        (
            "RUN apt-get update && apt-get install -y gone make",
            "E: Package 'gone' has no installation candidate",
            "package_renamed",
            "RUN apt-get update && apt-get install -y  make",
        ),
        (
            "RUN apt-get update && apt-get install -y git=1:2.20 make",
            "E: Version '1:2.20' for 'git' was not found",
            "package_unpinned",
            "RUN apt-get update && apt-get install -y git make",
        ),
        (
            "RUN npm ci",
            "npm error The `npm ci` command can only install with an existing package-lock.json",
            "lock_file_of_npm",
            "RUN npm install",
        ),
        (
            "RUN npm ci --production",
            "npm ERR! `npm ci` can only install packages when your package.json and package-lock.json are in sync",
            "lock_file_of_npm",
            "RUN npm install --production",
        ),
        (
            "RUN yarn install --frozen-lockfile && yarn build",
            "error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.",
            "frozen_lock_file",
            "RUN yarn install && yarn build",
        ),
        (
            "RUN poetry install --no-root --no-dev",
            'The option "--no-dev" does not exist',
            "options_of_poetry",
            "RUN poetry install --no-root --only main",
        ),
        (
            "RUN pipenv install --system --deploy",
            "Warning: Your Pipfile requires 'python_version' 3.7, but you are using 3.11.2",
            "python_of_pipenv",
            "RUN pipenv install --system",
        ),
        (
            "COPY package.json yarn.lock ./",
            "COPY failed: file not found in build context: stat yarn.lock: file does not exist",
            "absent_file",
            "COPY package.json ./",
        ),
        (
            "RUN true && curl -sSL https://get.example/poetry/ | POETRY_HOME=/opt python3 - && poetry install",
            "/bin/sh: 1: poetry: not found",
            "tool_of_a_registry",
            "RUN true && python3 -m pip install poetry && poetry install",
        ),
        (
            "RUN curl -fsSL https://deb.example/setup_18.x | bash - && apt-get install -y nodejs",
            "curl: (56) CONNECT tunnel failed, response 403",
            "tool_of_a_registry",
            "RUN apt-get install -y npm && apt-get install -y nodejs",
        ),
        (
            "COPY package.json .npmrc /app/",
            'failed to compute cache key: "/.npmrc" not found: not found',
            "absent_file",
            "COPY package.json /app/",
        ),
        (
            "COPY .git app /app/",
            "COPY failed: file not found in build context: stat .git: file does not exist",
            "no_history",
            "COPY app /app/",
        ),
    ],
)
def test_a_step_is_mended(step: str, log: str, name: str, expected: str) -> None:
    found = mended(f"{HEAD}{step}\n", log, ())
    assert found == (f"{HEAD}{expected}\n", name)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("error: externally-managed-environment", "ARG PIP_BREAK_SYSTEM_PACKAGES=1"),
        ("npm error Error: Failed to set up chrome! puppeteer", "ARG PUPPETEER_SKIP_DOWNLOAD=1"),
        ("go: updates to go.mod needed", "ARG GOFLAGS=-mod=mod"),
        ("code: 'ERR_OSSL_EVP_UNSUPPORTED'", "ARG NODE_OPTIONS=--openssl-legacy-provider"),
        ("npm ERR! ERESOLVE unable to resolve dependency tree", "ARG npm_config_legacy_peer_deps=true"),
        ("setuptools-scm was unable to detect version for /app", "ARG SETUPTOOLS_SCM_PRETEND_VERSION=0.0.1"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "ARG PIP_CONSTRAINT=/tmp/constraints.txt"),
    ],
)
def test_a_variable_is_declared_in_every_stage(log: str, line: str) -> None:
    found = mended("FROM a AS one\nRUN x\nFROM b\nRUN y\n", log, ())
    assert found is not None
    assert found[0].count(f"{line}\n") == 2
    assert found[0].index(line) < found[0].index("RUN x")


def test_git_is_asked_in_an_empty_repository() -> None:
    log = "fatal: not a git repository (or any of the parent directories): .git"
    found = mended(f"{HEAD}COPY go.mod ./\nCOPY --chown=1 . /src\nRUN make\n", log, ())
    assert found is not None
    assert [line.split()[0] for line in found[0].splitlines()] == ["FROM", "COPY", "COPY", "RUN", "RUN"]
    assert "git init" in found[0].splitlines()[3]


@pytest.mark.parametrize("log", ["/bin/sh: 1: ./build.sh: not found", r"env: 'bash\r': No such file or directory"])
def test_scripts_with_the_line_ends_of_another_system_lose_them(log: str) -> None:
    found = mended(f"{HEAD}COPY --chown=1 build.sh /\nCOPY --from=0 /a /a\nRUN ./build.sh\n", log, ())
    assert found is not None
    assert [line.split()[0] for line in found[0].splitlines()] == ["FROM", "COPY", "RUN", "COPY", "RUN"]
    assert r"s/\r$//" in found[0]


def test_a_file_that_is_copied_alone_is_needed() -> None:
    log = "COPY failed: file not found in build context: stat dist/program: file does not exist"
    assert mended(f"{HEAD}COPY dist/program /\n", log, ()) is None


def test_a_release_that_is_gone_gives_way_to_a_newer_one() -> None:
    log = "E: The repository 'http://archive.invalid/debian buster Release' does not have a Release file."
    found = mended(f"{HEAD}RUN echo buster\n", log, ())
    assert found == ("FROM debian:bookworm-slim\nRUN echo buster\n", "newer_release")


def test_a_rule_is_applied_once_unless_it_names_a_word() -> None:
    text, log = f"{HEAD}RUN npm ci && npm ci\n", "`npm ci` can only install"
    assert mended(text, log, ("lock_file_of_npm",)) is None
    gone = f"{HEAD}RUN apt-get update && apt-get install -y one two\n"
    assert mended(gone, "E: Unable to locate package two", ("package_lists", "package_renamed")) == (
        f"{HEAD}RUN apt-get update && apt-get install -y one \n",
        "package_renamed",
    )


def test_a_failure_that_no_rule_knows_changes_nothing() -> None:
    assert mended(f"{HEAD}RUN make\n", "make: *** No rule to make target 'all'.  Stop.", ()) is None
