"""Trees of repositories behind an address, through git: one commit, without history, work tree, hooks or filters.

Submodules of the same host become part of the tree, at the commits that are recorded. Nothing is ever checked out, so a
repository has no path to write to. Which repositories there are is not asked here.
"""

from __future__ import annotations

import base64
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from os import killpg
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from pipeline import git_tree
from pipeline.checkout import CheckoutConfig, Collected, collect, examples, printable
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.types import Submodule

MAX_SUBMODULES = 30
"""Of one repository, those within submodules included."""

MAX_DEPTH = 3
"""Submodules within submodules."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LFS = re.compile(rb"\Aversion https?://\S*git-lfs\S*/spec/v\d+\n(?:ext-[^\n]*\n)*oid sha256:[0-9a-f]{64}\nsize \d+\n")
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)$")
_REDIRECTED = re.compile(r"^warning: redirecting to (\S+)", re.MULTILINE)
_POLL_S = 0.05
_OVERHEAD = 8 * 2**20
"""What a repository holds beside the compressed files."""

_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.https.allow": "always",
}

_FAULTS: tuple[tuple[str, str], ...] = (
    (r"error: (451|403)", "blocked"),
    (r"access to this repository has been disabled|dmca|unavailable due to", "blocked"),
    (r"error: (404|410|30[12378])|repository .* not found|terminal prompts disabled|authentication failed", "gone"),
    (r"not our ref|unadvertised object|remote ref|no such remote ref|did not send all necessary", "changed"),
)
"""What git says, and the failure class it stands for; anything else is the network's or the hub's."""


class CloneConfig(BaseModel):
    """How long git may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds for one repository, each of its submodules apart."""


@dataclass(frozen=True)
class Cloned:
    """The tree at one commit, submodules included."""

    tree: Collected
    submodules: tuple[Submodule, ...]
    """Those that could not be had too."""
    warnings: tuple[str, ...] = ()
    """Beside those of the tree."""


class Cloner:
    """Makes trees of addresses. Safe to use from many threads."""

    def __init__(
        self,
        folder: Path,
        config: CloneConfig,
        checkout: CheckoutConfig,
        authorization: SecretStr | None = None,
    ) -> None:
        """`folder` is for what lasts no longer than a call; `authorization` is a token for the hosts that are asked."""
        self._folder = folder
        self._config = config
        self._checkout = checkout
        self._authorization = authorization

    def clone(self, url: str, commit: str, name: str) -> Cloned:
        """The tree of `commit` at `url`. `name` is that of the working folder: two calls at once need two names.

        Raises ItemRejected: gone (also moved, where a token must not follow), blocked, changed (the commit is not there
        any more), too_large, and those of `checkout.collect`; InfrastructureFailure for the network, the time limit and
        the disk.
        """
        found: list[Submodule] = []
        tree = self._tree(url, commit, name, found, MAX_DEPTH)
        pointers = [member.name for member in tree.members.values() if member.size < 1024 and _LFS.match(member.read())]
        warnings = (*examples("Git LFS pointers instead of their files", pointers), *tree.warnings)
        return Cloned(replace(tree, warnings=warnings), tuple(found))

    def head(self, url: str) -> str:
        """The commit of the default branch. Raises as `clone` does; ItemRejected (empty_repository) without one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        said = self._git(url, self._folder, "ls-remote", "--exit-code", "--", url, "HEAD")
        commit = said.split()[0] if said.split() else ""
        if not _COMMIT.fullmatch(commit):
            raise ItemRejected("empty_repository", "the git repository has no commit")
        return commit

    def _tree(self, url: str, commit: str, name: str, found: list[Submodule], depth: int) -> Collected:
        if not _COMMIT.fullmatch(commit):
            raise ItemRejected("gone", f"{printable(commit)} is no commit")
        with self._working(name) as directory:
            warnings = self._fetch(url, commit, directory)
            tree, links = git_tree.read_bare(directory, self._checkout)
        for number, link in enumerate(links):
            if len(found) >= MAX_SUBMODULES:
                warnings.append(f"more than {MAX_SUBMODULES} submodules; the others are not part of the tree")
                break
            address = submodule_address(link.url, url)
            shown = printable(address or link.url)
            found.append(Submodule(path=printable(link.path), url=shown, commit=link.commit))
            if address is None or depth == 0:
                warnings.append(f"submodule {printable(link.path)} is of another host and not part of the tree")
                continue
            try:
                inner = self._tree(address, link.commit, f"{name}.{number}", found, depth - 1)
            except ItemRejected as rejection:
                warnings.append(f"submodule {printable(link.path)} is not part of the tree: {rejection}")
                continue
            members = (replace(member, name=f"{link.path}/{member.name}") for member in inner.members.values())
            tree = collect(chain(tree.members.values(), members), self._checkout)
        return replace(tree, warnings=(*warnings, *tree.warnings))

    @contextmanager
    def _working(self, name: str) -> Iterator[Path]:
        # The name is the same for every attempt, so what a killed run left is removed by the next one.
        directory = self._folder / name
        try:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise InfrastructureFailure(f"a clone could not be stored in the data folder: {error.strerror}") from error
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _fetch(self, url: str, commit: str, directory: Path) -> list[str]:
        """One commit into an empty bare repository. Returns what a row should say of it."""
        self._git(url, directory, "init", "--quiet", "--bare", "--template=", str(directory))
        if self._authorization is not None:
            self._authorize(url, directory, self._authorization)
        said = self._git(url, directory, "fetch", "--depth=1", "--no-tags", "--", url, commit)
        (directory / "HEAD").write_text(f"{commit}\n")
        moved = _REDIRECTED.search(said)
        return [f"the address was redirected to {printable(moved[1])}"] if moved else []

    def _authorize(self, url: str, directory: Path, token: SecretStr) -> None:
        """In a file that only we can read: arguments and environments of processes are for all to see."""
        split = urlsplit(url)
        value = base64.b64encode(f"x-access-token:{token.get_secret_value()}".encode()).decode()
        with (directory / "config").open("a") as file:
            file.write(f'[http "{split.scheme}://{split.netloc}/"]\n\textraHeader = "Authorization: Basic {value}"\n')

    def _git(self, url: str, directory: Path, *arguments: str) -> str:
        """What git said. Its environment is ours, for the proxies and certificates that it needs."""
        if shutil.which("git") is None:
            raise ConfigurationError("git is not installed, and repositories are to be cloned; install `git`")
        settings = {**_SETTINGS, **({"protocol.http.allow": "always"} if url.startswith("http://") else {})}
        if self._authorization is not None:
            settings["http.followRedirects"] = "false"  # a token must not follow to another host
        command = [
            *(
                "env",
                "-u",
                "GIT_INDEX_FILE",
                "-u",
                "GIT_WORK_TREE",
                "-u",
                "GIT_CONFIG_PARAMETERS",
                "-u",
                "GIT_CONFIG_COUNT",
            ),
            *("LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"),
            *(f"GIT_DIR={directory}", "git", *(word for item in settings.items() for word in ("-c", "=".join(item)))),
            *arguments,
        ]
        log = directory / "said.txt" if arguments[0] != "ls-remote" else None
        if log is None:
            return self._listed(command)
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
            )
            try:
                self._watch(process, directory)
            finally:
                if process.poll() is None:
                    killpg(process.pid, signal.SIGKILL)
                    process.wait()
        said = log.read_text("utf-8", "replace")
        if process.returncode != 0:
            raise _fault(said)
        return said

    def _listed(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._config.timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise InfrastructureFailure(f"git took longer than {self._config.timeout_s:g} s") from error
        if done.returncode == 2:  # --exit-code: it answers, and has no such branch
            return ""
        if done.returncode != 0:
            raise _fault(done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace")

    def _watch(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        """Raises InfrastructureFailure for the time limit, ItemRejected (too_large) for a pack beyond the limits."""
        ends = time.monotonic() + self._config.timeout_s
        running = True
        while running:
            try:
                process.wait(_POLL_S)
                running = False
            except subprocess.TimeoutExpired:
                if time.monotonic() > ends:
                    raise InfrastructureFailure(f"git took longer than {self._config.timeout_s:g} s") from None
            if _bytes_below(directory) > self._checkout.max_bytes + _OVERHEAD:
                raise ItemRejected("too_large", f"more than {self._checkout.max_bytes:,} bytes are sent for it")


def submodule_address(url: str, parent: str) -> str | None:
    """The https address of a submodule; None for another host than its parent's, or what is no address at all.

    Relative addresses, `git@host:path`, ssh:// and git:// lead to the way in which the parent is reached.
    """
    base = urlsplit(parent)
    if url.startswith(("./", "../")):
        joined = urlsplit(urljoin(f"{parent.rstrip('/')}/", url))
        return joined.geturl() if joined.netloc == base.netloc else None
    scp = None if "://" in url else _SCP.match(url)
    split = urlsplit(f"ssh://{scp[1]}/{scp[2].lstrip('/')}" if scp else url)
    if split.scheme not in ("https", "http", "ssh", "git", "git+ssh") or split.hostname != base.hostname:
        return None
    return f"{base.scheme}://{base.netloc}/{split.path.lstrip('/')}"


def _fault(said: str) -> Exception:
    """What a failure of git means."""
    text = " ".join(said.split())[-300:] or "no reason given"
    for pattern, failure_class in _FAULTS:
        if re.search(pattern, said, re.IGNORECASE):
            return ItemRejected(failure_class, f"git: {text}")
    return InfrastructureFailure(f"git: {text}")


def _bytes_below(directory: Path) -> int:
    total = 0
    for path in (directory / "objects").rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue  # git renames its files while it works
    return total
