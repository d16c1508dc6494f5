"""The git objects of a simulated repository: its files, its tree and its one commit, computed without git.

The commit of a repository that was pushed n times differs from that of n - 1 pushes in one line of its README.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from tests.github_server.world import World

MAIN_FILES = {
    "Python": ("main.py", "print('{name}')\n"),
    "JavaScript": ("index.js", "console.log('{name}');\n"),
    "Java": ("Main.java", "class Main {{ /* {name} */ }}\n"),
    "Go": ("main.go", "package main // {name}\n\nfunc main() {{}}\n"),
    "C++": ("main.cpp", "int main() {{ return 0; }} // {name}\n"),
    "PHP": ("index.php", "<?php echo '{name}';\n"),
    "C": ("main.c", "int main(void) {{ return 0; }} /* {name} */\n"),
    "HTML": ("index.html", "<!doctype html><title>{name}</title>\n"),
}
LFS_POINTER = (
    "version https://git-lfs.example.org/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


@dataclass(frozen=True)
class Objects:
    """Everything a clone needs."""

    commit: str
    blobs: dict[str, bytes]
    """Path -> content, one folder deep at most."""
    links: dict[str, str]
    """Path -> commit of a submodule."""
    loose: dict[str, bytes]
    """Object id -> what git hashes, header included."""
    root_tree: str


def objects(world: World, repository_id: int) -> Objects:
    """The present state of a repository that is not empty."""
    blobs, links = files(world, repository_id)
    loose: dict[str, bytes] = {}
    root_tree = _tree(blobs, links, loose)
    moment = int(world.pushed[repository_id - 1])
    who = f"Someone <someone@example.org> {moment} +0000"
    text = f"tree {root_tree}\nauthor {who}\ncommitter {who}\n\nversion {world.version[repository_id - 1]}\n"
    commit = _keep("commit", text.encode(), loose)
    return Objects(commit, blobs, links, loose, root_tree)


def files(world: World, repository_id: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """Contents by path, and submodules by path."""
    if repository_id in world.contents:
        return dict(world.contents[repository_id]), {}
    name, kind = world.first_name(repository_id), world.kind_of(repository_id)
    main, text = MAIN_FILES[world.language_of(repository_id)]
    digest = world.digest(repository_id)
    found = {
        "README.md": f"# {name}\n\nRun `make`.\n\nVersion {world.version[repository_id - 1]}.\n",
        main: text.format(name=name),
        "Makefile": f"all:\n\techo {name}\n",
        "docs/usage.md": "Run it.\n",
    }
    if digest[6] % 3 == 0:
        found["Dockerfile"] = "FROM debian:bookworm-slim\nCOPY . /src\n"
    if world.licence(repository_id) == "MIT":
        found["LICENSE"] = "MIT License\n"
    links: dict[str, str] = {}
    if kind == "lfs":
        found["data/model.bin"] = LFS_POINTER
    if kind == "export_ignore":
        found[".gitattributes"] = "*.md export-ignore\n"
    if kind == "submodule":
        child = submodule_of(world, repository_id)
        links["vendor/child"] = objects(world, child).commit
        url = f"git@{world.submodule_host}:{world.first_name(child)}.git"
        found[".gitmodules"] = f'[submodule "child"]\n\tpath = vendor/child\n\turl = {url}\n'
    return {path: content.encode() for path, content in found.items()}, links


def submodule_of(world: World, repository_id: int) -> int:
    """The next repository after it that is of the usual kind."""
    others = (*range(repository_id + 1, world.count + 1), *range(1, repository_id))
    return next(other for other in others if world.kind_of(other) == "usual")


def write(found: Objects, folder: Path) -> None:
    """A bare repository of loose objects."""
    for object_id, data in found.loose.items():
        path = folder / "objects" / object_id[:2] / object_id[2:]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.compress(data, 1))
    heads = folder / "refs" / "heads"
    heads.mkdir(parents=True, exist_ok=True)
    (heads / "main").write_text(f"{found.commit}\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[uploadpack]\n\tallowAnySHA1InWant = true\n"
    )


def write_empty(folder: Path) -> None:
    """A bare repository without a commit."""
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")


def _keep(kind: str, data: bytes, loose: dict[str, bytes]) -> str:
    whole = f"{kind} {len(data)}\0".encode() + data
    object_id = hashlib.sha1(whole).hexdigest()
    loose[object_id] = whole
    return object_id


def _tree(blobs: dict[str, bytes], links: dict[str, str], loose: dict[str, bytes]) -> str:
    entries: dict[str, tuple[str, str]] = {}
    folders = {path.split("/", 1)[0] for path in (*blobs, *links) if "/" in path}
    for folder in folders:
        within = {path.split("/", 1)[1]: data for path, data in blobs.items() if path.startswith(f"{folder}/")}
        linked = {path.split("/", 1)[1]: oid for path, oid in links.items() if path.startswith(f"{folder}/")}
        entries[folder] = ("40000", _tree(within, linked, loose))
    for path, data in blobs.items():
        if "/" not in path:
            entries[path] = ("100644", _keep("blob", data, loose))
    for path, object_id in links.items():
        if "/" not in path:
            entries[path] = ("160000", object_id)
    # git sorts a folder as if its name ended in a slash.
    order = sorted(entries, key=lambda name: f"{name}/" if entries[name][0] == "40000" else name)
    data = b"".join(f"{entries[name][0]} {name}\0".encode() + bytes.fromhex(entries[name][1]) for name in order)
    return _keep("tree", data, loose)
