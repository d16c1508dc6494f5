"""The tracked files of a git repository as `Member`s (pipeline/checkout.py), read from its objects and its index.

Never through `git archive`, which leaves out what `export-ignore` names, and no git command touches the work tree, so
nothing that a repository configures (filters, hooks, monitors) runs. Cloning is not done here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.checkout import (
    CheckoutConfig,
    Collected,
    Member,
    collect,
    examples,
    printable,
    require_size,
    safe_name,
)
from pipeline.directory_tree import member_on_disk
from pipeline.errors import ConfigurationError, ItemRejected

_SUBMODULE = "160000"
_SYMLINK = "120000"
_EXECUTABLE = "100755"
_TIMEOUT_S = 60

_SETTINGS = (
    # Reading objects runs nothing of the repository, so one that belongs to another user may be read as well.
    ("-c", "safe.directory=*"),
    ("-c", "core.fsmonitor=false"),
    # A partial clone must not fetch what it lacks: reading is local.
    ("-c", "protocol.allow=never"),
)

_ENVIRONMENT = {"LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
"""Nothing of ours: GIT_DIR or GIT_INDEX_FILE of a calling git hook would name another repository."""

_Entry = tuple[str, str]
"""Mode and object id."""

_ABSOLUTE = re.compile(r"(?<![\w.…])/[^\s'\":]+")


@dataclass(frozen=True, slots=True)
class Link:
    """A submodule as a commit records it."""

    path: str
    commit: str
    url: str
    """As `.gitmodules` says it; empty where it does not."""


def git_directory(root: Path) -> Path | None:
    """The git directory of a clone or a bare repository, None for a plain directory."""
    if (root / ".git").exists():
        return root / ".git"
    if (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir():
        return root
    return None


def read(root: Path, directory: Path, config: CheckoutConfig) -> tuple[str, Collected]:
    """Commit and tracked files: those at HEAD, or as they lie in the work tree when that differs from it.

    The commit then ends in `-dirty-<hash>`. `directory` is what `git_directory(root)` gave. Raises ItemRejected
    (empty_repository when there is no commit, unreadable, and those of `checkout.collect`) and ConfigurationError when
    git is not installed.
    """
    repository = _Repository(directory, config)
    head = repository.head()
    committed = repository.committed(head)
    modules = [name for name, (mode, _) in committed.items() if mode == _SUBMODULE]
    warnings = examples("submodules, which are not part of the tree", modules)
    if directory != root:
        members, differs, missing = _work_tree(root, repository.tracked(), committed, config)
        if differs:
            tree = collect(members, config)
            warnings.append("the work tree differs from HEAD; its tracked files were taken")
            warnings += examples("tracked files missing in the work tree", missing)
            return f"{head}-dirty-{tree.sha256[:12]}", replace(tree, warnings=(*warnings, *tree.warnings))
    tree = collect(repository.blobs(committed), config)
    return head, replace(tree, warnings=(*warnings, *tree.warnings))


def read_bare(directory: Path, config: CheckoutConfig) -> tuple[Collected, tuple[Link, ...]]:
    """The files at HEAD of a bare repository, and its submodules, which are not among them. Raises as `read` does."""
    repository = _Repository(directory, config)
    committed = repository.committed(repository.head())
    return collect(repository.blobs(committed), config), repository.links(committed)


def _work_tree(
    root: Path, tracked: Mapping[str, _Entry], committed: Mapping[str, _Entry], config: CheckoutConfig
) -> tuple[list[Member], bool, list[str]]:
    """The tracked files as they lie there, whether anything differs from HEAD, and the names of the missing ones.

    Raises ItemRejected (file_too_large, too_many_files, special_file, unreadable).
    """
    members: list[Member] = []
    missing: list[str] = []
    differs = tracked.keys() != committed.keys()
    within = _Within(root)
    _require_count(tracked, config)
    for name, (mode, _) in tracked.items():
        if mode == _SUBMODULE:
            continue
        if not within.holds(name):
            missing.append(name)
            continue
        member = member_on_disk(root, name, os.lstat(root / name))
        if member.kind == "directory":
            missing.append(name)
            continue
        require_size(name, member.size, config)
        members.append(member)
        differs = differs or _differs(member, committed.get(name))
    return members, differs or bool(missing), missing


class _Within:
    """Whether a path exists in a directory without a symlink on the way, which could lead out of it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._parents: dict[str, bool] = {"": True}

    def holds(self, name: str) -> bool:
        parent = name.rpartition("/")[0]
        if parent not in self._parents:
            self._parents[parent] = (self._root / parent).resolve() == self._root / parent
        return self._parents[parent] and os.path.lexists(self._root / name)


class _Repository:
    """One git directory."""

    def __init__(self, directory: Path, config: CheckoutConfig) -> None:
        self._directory = directory
        self._config = config

    def head(self) -> str:
        """Commit at HEAD. Raises ItemRejected (empty_repository, unreadable)."""
        try:
            return self._run("rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        except ItemRejected:
            if not self._run("for-each-ref", "--count=1"):
                raise ItemRejected("empty_repository", "the git repository has no commit") from None
            raise

    def committed(self, commit: str) -> dict[str, _Entry]:
        """Name -> (mode, object id) of each file of a commit."""
        return _entries(self._run("ls-tree", "-r", "-z", "--full-tree", commit))

    def tracked(self) -> dict[str, _Entry]:
        """Name -> (mode, object id) of each file of the index."""
        return _entries(self._run("ls-files", "--stage", "-z"))

    def blobs(self, committed: Mapping[str, _Entry]) -> tuple[Member, ...]:
        """The files of a commit. All are read in one go: one process for each would be slow."""
        files = {name: entry for name, entry in committed.items() if entry[0] != _SUBMODULE}
        _require_count(files, self._config)
        ids = "".join(f"{object_id}\n" for _, object_id in files.values()).encode()
        sizes = []
        # The limits are looked at before any content is read.
        checks = self._run("cat-file", "--batch-check=%(objectsize)", stdin=ids).splitlines()
        for name, line in zip(files, checks, strict=True):
            if not line.isdigit():
                raise ItemRejected("unreadable", f"{printable(name)}: its git object is missing")
            sizes.append(int(line))
            require_size(name, sizes[-1], self._config)
        if sum(sizes) > self._config.max_bytes:
            raise ItemRejected("too_large", f"more than {self._config.max_bytes:,} bytes in all")
        contents = self._run("cat-file", "--batch=%(objecttype)", stdin=ids)
        members = []
        start = 0
        for (name, (mode, _)), size in zip(files.items(), sizes, strict=True):
            start += len(b"blob\n")
            members.append(_from_blob(name, mode, contents[start : start + size]))
            start += size + len(b"\n")
        return tuple(members)

    def links(self, committed: Mapping[str, _Entry]) -> tuple[Link, ...]:
        """The submodules of the commit at HEAD, in the order of their paths."""
        commits = {name: object_id for name, (mode, object_id) in committed.items() if mode == _SUBMODULE}
        if not commits:
            return ()
        said: dict[str, dict[str, str]] = {}
        if ".gitmodules" in committed:
            for line in self._run("config", "--blob=HEAD:.gitmodules", "--null", "--list").split(b"\0"):
                key, _, value = line.decode("utf-8", "replace").partition("\n")
                section, _, name = key.rpartition(".")
                said.setdefault(section, {})[name] = value
        urls = {module.get("path", "").strip("/"): module.get("url", "") for module in said.values()}
        return tuple(Link(path, commits[path], urls.get(path, "")) for path in sorted(commits))

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Raises ItemRejected (unreadable) with git's own words, ConfigurationError when there is no git."""
        git = shutil.which("git")
        if git is None:
            raise ConfigurationError("git is not installed, and a local git repository is listed; install `git`")
        settings = [word for setting in _SETTINGS for word in setting]
        command = [git, *settings, "--no-replace-objects", f"--git-dir={self._directory}", *arguments]
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False, env=_ENVIRONMENT
            )
        except subprocess.TimeoutExpired as error:
            raise ItemRejected("unreadable", f"git {arguments[0]} took longer than {_TIMEOUT_S} s") from error
        if done.returncode != 0:
            said = _ABSOLUTE.sub("…", done.stderr.decode("utf-8", "replace").strip()[-300:])
            raise ItemRejected("unreadable", f"git {arguments[0]} failed: {said or 'no reason given'}")
        return done.stdout


def _require_count(files: Mapping[str, _Entry], config: CheckoutConfig) -> None:
    if len(files) > config.max_files:
        raise ItemRejected("too_many_files", f"more than {config.max_files:,} files")


def _entries(listing: bytes) -> dict[str, _Entry]:
    """The lines of `ls-tree -z` (mode type id) or `ls-files --stage -z` (mode id stage), each with a tab and the name.

    Raises ItemRejected (path_outside_tree) for names that no checkout would write.
    """
    entries = {}
    for line in listing.split(b"\0"):
        if line:
            about, _, name = line.partition(b"\t")
            mode, second, third = about.decode().split()
            entries[safe_name(os.fsdecode(name))] = (mode, third if second in ("blob", "commit") else second)
    return entries


def _differs(member: Member, committed: _Entry | None) -> bool:
    if committed is None:
        return True
    mode, object_id = committed
    if member.kind == "symlink":
        return mode != _SYMLINK or _blob_id(os.fsencode(member.target), object_id) != object_id
    if mode == _SYMLINK or member.executable != (mode == _EXECUTABLE):
        return True
    data = member.read()
    # git may have written CRLF into the work tree; that is no change.
    return object_id not in (_blob_id(data, object_id), _blob_id(data.replace(b"\r\n", b"\n"), object_id))


def _blob_id(data: bytes, like: str) -> str:
    """The id that git gives this content, in the hash of the repository (SHA-1 or SHA-256)."""
    blob = b"blob %d\0" % len(data) + data
    return hashlib.sha256(blob).hexdigest() if len(like) == 64 else hashlib.sha1(blob).hexdigest()


def _from_blob(name: str, mode: str, data: bytes) -> Member:
    if mode == _SYMLINK:
        return Member(name, "symlink", target=os.fsdecode(data))
    return Member(name, "file", size=len(data), executable=mode == _EXECUTABLE, read=lambda: data)
