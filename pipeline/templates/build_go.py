"""Builds and installs the Go project in the current folder.

Usage: build_go.py IMPORT-PATH [--newer=SUITE] PACKAGE …

Modules come from vendor/ or the configured proxy. Where neither has them, the libraries of Debian do: PACKAGE … are
those that the imports may mean. Every module is then replaced by a folder, in a go.mod beside the tree; a tree without
modules stands in a GOPATH. With --newer the libraries come from a later release of Debian. Programs and packages that
cannot be built are named; it fails when nothing else is left.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

GOCODE = Path("/usr/share/gocode/src")
GOPATH = Path("/root/go/src")
LANGUAGE = "1.21"
# Here a project is a folder of an owner.
HOSTS = ("bitbucket.org", "codeberg.org", "github.com", "gitlab.com", "golang.org")
STAND_IN = Path("/usr/local/share/go-stand-in")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def go(*arguments: str, limit: int = 300, quiet: bool = False) -> tuple[bool, str]:
    """Whether it worked, and what it printed."""
    try:
        done = subprocess.run(
            ["go", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return False, "it took too long"
    if done.returncode and not quiet:
        say("$ go", *arguments[:6])
        say(done.stdout[-2500:])
    return done.returncode == 0, done.stdout


def setting(**values: str) -> None:
    go("env", "-w", *(f"{name}={value}" for name, value in values.items()))


def shell(command: str) -> str:
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def install_libraries(wanted: list[str], suite: str) -> None:
    if not wanted:
        return
    option = ""
    if suite:
        # Of the later release only what is a library of sources is taken.
        sources = "/etc/apt/sources.list.d/newer.list"
        shell(
            "{ cat /etc/apt/sources.list.d/*.sources 2> /dev/null | sed -n 's/^URIs: *//p' | head -n 1;"
            " sed -n 's/^deb \\(\\[[^]]*\\] \\)*\\([^ ]*\\) .*/\\2/p' /etc/apt/sources.list; } | head -n 1"
            f" | sed 's/.*/deb & {suite} main/' > {sources}; apt-get update -qq"
        )
        option = f"-t {suite}"
    known = set(shell("apt-cache pkgnames").split())
    names = [name for name in wanted if name in known]
    say("no package of Debian:", *[name for name in wanted if name not in known])
    command = f"DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {option} "
    said = shell(command + " ".join(names) + " || echo FAILED")
    if "FAILED" in said:
        say(said[-500:])
        for name in names:
            shell(command + name)


def module_of(folder: Path) -> str:
    description = folder / "go.mod"
    found = (
        re.search(r'^module\s+"?([\w.~/-]+)', description.read_text(errors="replace"), re.MULTILINE)
        if description.is_file()
        else None
    )
    return found[1] if found else ""


def required(description: Path) -> list[str]:
    """Module paths that a go.mod requires."""
    text = re.sub(r"//.*", "", description.read_text(errors="replace"))
    module = r"[\w.-]+\.[a-z]+(?:/[\w.~-]+)*"
    return re.findall(rf"^\s*(?:require\s+)?\(?\s*[\"']?({module})[\"']?\s+v\d\S*\s*$", text, re.MULTILINE)


def place_of(module: str, known: dict[str, Path]) -> Path:
    """A folder with the sources of a module, whatever version; one without any package where Debian has none."""
    if module in known:
        return known[module]
    bare = re.sub(r"/v\d+$|\.v\d+$", "", module)
    for folder in (
        GOCODE / module,
        GOCODE / bare,
        *(known[one] for one in known if re.sub(r"/v\d+$", "", one) == bare),
    ):
        if folder.is_dir() and not module_of(folder):
            (folder / "go.mod").write_text(f"module {module}\n")
            return folder
        if folder.is_dir():
            copy = STAND_IN / "copies" / module
            shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
            description = (copy / "go.mod").read_text(errors="replace")
            (copy / "go.mod").write_text(re.sub(r"(?m)^module\s+.*", f"module {module}", description))
            return copy
    stub = STAND_IN / "absent" / module
    stub.mkdir(parents=True, exist_ok=True)
    (stub / "go.mod").write_text(f"module {module}\n")
    say("no library of Debian has", module)
    return stub


def modernise(description: Path) -> None:
    """Debian compiles without regard to the language version that a library says it is written in, and so has to be."""
    text = re.sub(r"(?m)^toolchain\s.*\n", "", description.read_text(errors="replace"))
    found = re.search(r"(?m)^go\s+1\.(\d+)\S*$", text)
    if found is None:
        text += f"\ngo {LANGUAGE}\n"
    elif int(found[1]) < int(LANGUAGE.partition(".")[2]):
        text = text.replace(found[0], f"go {LANGUAGE}")
    description.write_text(text)


def running() -> str:
    return go("env", "GOVERSION")[1].strip().removeprefix("go")


def too_new(own: str) -> bool:
    """Whether a go.mod asks for a later patch than this toolchain's, which may do nevertheless."""
    found = re.search(r"(?m)^go\s+([\d.]+)", own)
    return found is not None and numbers(found[1]) > numbers(running())


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def stand_in_modules() -> None:
    """Every module that is asked for, however far away, is replaced by a folder, in a go.mod beside the tree."""
    known = {
        module_of(path.parent): path.parent for path in sorted(GOCODE.rglob("go.mod")) if "/testdata/" not in str(path)
    }
    own = Path("go.mod").read_text(errors="replace")
    if too_new(own):
        own = re.sub(r"(?m)^go\s+\S+", f"go {running()}", own)
    local = set(re.findall(r"^\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s+=>\s+\.", own, re.MULTILINE))
    projects = [folder for host in HOSTS for folder in GOCODE.glob(f"{host}/*/*") if folder.is_dir()]
    for folder in projects:
        if not any(folder.rglob("go.mod")):
            (folder / "go.mod").write_text(f"module {folder.relative_to(GOCODE)}\n")
    waiting, places = required(Path("go.mod")), dict[str, Path]()
    while waiting:
        module = waiting.pop()
        if module not in places and module not in local:
            places[module] = place_of(module, known)
            modernise(places[module] / "go.mod")
            waiting += required(places[module] / "go.mod")
    # Debian's sources import each other by names without versions, and more than their go.mod says.
    for folder in (one for one in projects if (one / "go.mod").is_file()):
        name = str(folder.relative_to(GOCODE))
        for module in {module_of(folder), name} - {"", module_of(Path.cwd()), *places, *local}:
            places[module] = place_of(module, known)
            modernise(places[module] / "go.mod")
    kept = [line for line in own.splitlines() if not re.search(r"=>\s+[^.\s]|^toolchain\s", line)]
    kept += [f"replace {module} => {place}" for module, place in sorted(places.items())]
    STAND_IN.mkdir(parents=True, exist_ok=True)
    (STAND_IN / "go.mod").write_text("\n".join(kept) + "\n")
    (STAND_IN / "go.sum").write_text("")
    flags = f"-buildvcs=false -mod=mod -modfile={STAND_IN}/go.mod"
    setting(GOFLAGS=flags, GOPROXY="off", GOSUMDB="off", GO111MODULE="on")


def stand_in_gopath(import_path: str) -> None:
    """The tree under its import path, and every library whose module path ends in a version that its folder lacks."""
    place = GOPATH / import_path
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(Path.cwd())
    for description in GOCODE.rglob("go.mod"):
        module = module_of(description.parent)
        if module and not (GOCODE / module).exists() and not (GOPATH / module).exists():
            (GOPATH / module).parent.mkdir(parents=True, exist_ok=True)
            (GOPATH / module).symlink_to(description.parent)
    setting(GO111MODULE="off", GOPATH=f"/root/go:{GOCODE.parent}", GOFLAGS="-buildvcs=false")


def build() -> bool:
    """Whether anything could be built; programs go to /usr/local/bin."""
    _, said = go("list", "-e", "-f", "{{.ImportPath}}\t{{.Name}}\t{{.Dir}}", "./...", quiet=True)
    rows = [line.split("\t") for line in said.splitlines() if line.count("\t") == 2]
    skipped = re.compile(r"/(_?examples?|testdata|tests?|hack|tools?|docs?|benchmarks?|internal/tools)(/|$)")
    rows = [row for row in rows if row[1]]
    everything, _ = go("build", "./...", limit=400)
    programs = [row for row in rows if row[1] == "main"]
    main = [row for row in programs if not skipped.search(row[2].removeprefix(str(Path.cwd())) + "/")] or programs
    installed = []
    for row in main:
        target = f"/usr/local/bin/{program_name(row)}"
        done = subprocess.run(
            ["go", "build", "-o", target, "."], cwd=row[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode == 0:
            installed.append(row)
        else:
            say("program", row[0], "cannot be built:", done.stdout[-600:])
    if main:
        return bool(installed)
    if everything:
        return bool(rows)
    libraries = [row for row in rows if not skipped.search(row[2])]
    good = [
        row
        for row in libraries
        if subprocess.run(
            ["go", "build", "."], cwd=row[2], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    ]
    say("packages that can be built:", *(row[0] for row in good))
    return len(good) * 2 >= len(libraries) and bool(good)


def program_name(row: list[str]) -> str:
    name = row[2].rstrip("/").rpartition("/")[2]
    if Path(row[2]) == Path.cwd():
        parts = [part for part in sys.argv[1].split("/") if not re.fullmatch(r"v\d+", part)]
        name = re.sub(r"\.v\d+$", "", parts[-1])
    return name


def main() -> None:
    import_path, *rest = sys.argv[1:]
    suite = rest.pop(0).partition("=")[2] if rest and rest[0].startswith("--newer=") else ""
    setting(GOTOOLCHAIN="local", GOFLAGS="-buildvcs=false")
    if not shell("command -v gcc"):
        setting(CGO_ENABLED="0")
    modules = Path("go.mod").is_file()
    if modules:
        text = Path("go.mod").read_text(errors="replace")
        needs = re.search(r"^require\b", text, re.MULTILINE) is not None
        possible = Path("vendor").is_dir() or not needs or go("mod", "download", limit=120)[0]
        if possible and not too_new(text):
            if build():
                return
            if not needs:
                sys.exit("nothing could be built")
    install_libraries(rest, suite)
    if modules:
        stand_in_modules()
        if build():
            return
        sys.exit("nothing could be built")
    stand_in_gopath(import_path)
    if not build():
        sys.exit("nothing could be built")


main()
