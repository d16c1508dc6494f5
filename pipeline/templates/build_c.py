"""Builds and installs the C or C++ project in the current folder, a copy of the tree, into /usr/local.

Usage: build_c.py NAME [--common] [--permissive] [--standard=NN] [--tolerant]

The build systems that the tree has are tried one after the other; where it has none its sources are compiled directly.
Of a project that has nothing to install its programs and libraries are copied, of one that is all headers the headers.
Tests, examples and manuals are not built, and warnings are no errors. With --common old C is compiled as it was meant,
with --permissive also what newer compilers refuse, with --standard C++ by a newer standard than the project names, and
with --tolerant what can be built of it counts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

BUILD = Path("/tmp/build")
PREFIX = Path("/usr/local")
UNWANTED = re.compile(
    r"TEST|EXAMPLE|BENCH|\bDOCS?\b|_DOCS?(_|$)|BUILD_DOC|FUZZ|SAMPLE|WERROR|WARNINGS?_AS_ERR|DEMO|TUTORIAL|COVERAGE|SANITI"
)
NEGATED = re.compile(r"(^|_)(NO|DISABLE|WITHOUT|SKIP)_")
ASIDE = {
    "test", "tests", "testing", "example", "examples", "sample", "samples", "third_party", "thirdparty", "3rdparty",
    "external", "extern", "vendor", "deps", "docs", "doc", "benchmark", "benchmarks", "fuzz", "windows", "win32",
    "node_modules", ".git",
}  # fmt: skip
LINKED = {
    "ncurses": "-lncurses", "curses.h": "-lncurses", "curl/": "-lcurl", "openssl/": "-lssl -lcrypto", "zlib.h": "-lz",
    "sqlite3.h": "-lsqlite3", "X11/": "-lX11", "SDL2/": "-lSDL2", "SDL.h": "-lSDL2", "readline/": "-lreadline",
    "GL/": "-lGL -lGLU -lglut", "pcap": "-lpcap", "png.h": "-lpng", "jpeglib.h": "-ljpeg", "alsa/": "-lasound",
    "bsd/": "-lbsd", "gmp.h": "-lgmp",
}  # fmt: skip
TOLERANT = "--tolerant" in sys.argv
STANDARD = next((word.partition("=")[2].encode() for word in sys.argv if word.startswith("--standard=")), b"")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def run(*command: str, folder: Path | None = None, limit: int = 480, **environment: str) -> tuple[bool, str]:
    """Whether it worked, and what it printed."""
    say("$", *command[:12])
    try:
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=limit,
            text=True,
            errors="replace",
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        say(str(error)[:300])
        return False, ""
    if done.returncode:
        # What went wrong first is what a repair needs; the end alone would be the summary of it.
        errors = [
            line
            for line in done.stdout.splitlines()
            if re.search(
                r"error|not found|No such|cannot find|No package|missing|undefined reference|multiple definition",
                line,
                re.IGNORECASE,
            )
        ]
        say("\n".join(line[:300] for line in errors[:14]))
        say("...", done.stdout[-900:])
    return done.returncode == 0, done.stdout


def prepare() -> None:
    """Warnings are no errors, sources of a framework that Debian has stand where a submodule would."""
    modules = Path(".gitmodules")
    for name in re.findall(r"(?m)^\s*path\s*=\s*(\S+)", modules.read_text()) if modules.is_file() else ():
        # Some build files ask for the folder of a submodule even where they can do without it.
        if not name.startswith(("/", "..")):
            Path(name).mkdir(parents=True, exist_ok=True)
    for path in [
        *Path(".").rglob("CMakeLists.txt"),
        *Path(".").rglob("*.cmake"),
        *Path(".").rglob("[Mm]akefile*"),
        *Path(".").rglob("*.mk"),
        *Path(".").glob("configure*"),
        *Path(".").rglob("meson.build"),
    ]:
        try:
            text = path.read_bytes()
        except OSError:
            continue
        changed = re.sub(rb"(?<![\w-])-Werror(=(?!format-security)[\w-]+)?(?![\w=-])|-pedantic-errors", b"", text)
        changed = re.sub(rb"werror=true", b"werror=false", changed)
        if STANDARD:
            # An older standard was enough once, with other versions of what is included.
            changed = re.sub(rb"(CXX_STANDARD\s+)(?:98|11|14|17)\b", rb"\g<1>" + STANDARD, changed)
            changed = re.sub(rb"(-std=(?:c|gnu)\+\+)(?:98|03|0x|11|1y|14|1z|17)\b", rb"\g<1>" + STANDARD, changed)
        if path.name in ("CMakeLists.txt",) or path.suffix == ".cmake":
            changed = without_absent_folders(path, changed)
        if changed != text:
            path.write_bytes(changed)
    for script in [*Path(".").rglob("*.sh"), *Path(".").glob("configure"), *Path(".").glob("autogen*")]:
        if script.is_file():
            script.write_bytes(script.read_bytes().replace(b"\r\n", b"\n"))
            script.chmod(0o755)


def without_absent_folders(path: Path, text: bytes) -> bytes:
    def replaced(match: re.Match[bytes]) -> bytes:
        name = match[1].decode("utf-8", "replace").strip('"')
        folder = path.parent / name
        if "$" in name or (folder.is_dir() and any(folder.iterdir())):
            return match[0]
        if re.search("g(oogle)?test", name, re.IGNORECASE) and Path("/usr/src/googletest").is_dir():
            shutil.copytree("/usr/src/googletest", folder, dirs_exist_ok=True)
            return match[0]
        say("left out, it is not in the tree:", name)
        return b""

    return re.sub(rb'(?im)^[ \t]*add_subdirectory\s*\(\s*("[^"]*"|[^\s)]+)[^)]*\)', replaced, text)


def folder_of(*names: str) -> Path | None:
    """The shallowest folder that has one of the files."""
    found = [
        path.parent
        for name in names
        for path in Path(".").rglob(name)
        if not ASIDE.intersection(part.lower() for part in path.parent.parts)
    ]
    return min(found, key=lambda path: (len(path.parts), str(path)), default=None)


def cmake_options() -> list[str]:
    chosen = {}
    for path in [*Path(".").rglob("CMakeLists.txt"), *Path(".").rglob("*.cmake")]:
        text = path.read_text(encoding="utf-8", errors="replace")
        for name in re.findall(r"(?i)\b(?:cmake_dependent_)?option\s*\(\s*(\w+)", text):
            if UNWANTED.search(name.upper()):
                chosen[name] = "ON" if NEGATED.search(name.upper()) else "OFF"
    return [f"-D{name}={value}" for name, value in sorted(chosen.items())]


def flags() -> tuple[str, str]:
    chosen = ["-fcommon", "-Wno-implicit-function-declaration"] if "--common" in sys.argv else []
    return " ".join(chosen), " ".join(
        ["-fpermissive", "-include cstdint", "-include limits"] if "--permissive" in sys.argv else []
    )


def with_cmake() -> bool:
    folder = folder_of("CMakeLists.txt")
    if folder is None:
        return False
    c, cxx = flags()
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_INSTALL_PREFIX={PREFIX}",
        "-DBUILD_TESTING=OFF",
        # A shared library knows what else it needs.
        "-DBUILD_SHARED_LIBS=ON",
        "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
        "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
    ]
    options += [f"-DCMAKE_{kind}_FLAGS_RELEASE=-O1 -DNDEBUG {more}" for kind, more in (("C", c), ("CXX", cxx))]
    options += ["-DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=ALWAYS", "-Wno-dev", *cmake_options()]
    command = ["cmake", "-S", str(folder), "-B", str(BUILD), *options]
    shutil.rmtree(BUILD, ignore_errors=True)
    done, said = run(*command)
    if not done and re.search(r"CMake \S+ or higher is required", said):
        pip = "command -v pip3 > /dev/null || apt-get install -y -qq --no-install-recommends python3-pip > /dev/null"
        run("sh", "-c", f"{pip}; pip3 install -q --break-system-packages cmake")
        shutil.rmtree(BUILD, ignore_errors=True)
        done, said = run("/usr/local/bin/cmake" if Path("/usr/local/bin/cmake").exists() else "cmake", *command[1:])
    if not done:
        return False
    build = ["cmake", "--build", str(BUILD), "--parallel", "2", *(["--", "-k"] if TOLERANT else [])]
    done, said = run(*build)
    if not done and re.search(r"undefined reference|recompile with -fPIC|relocation ", said):
        run("cmake", "-DBUILD_SHARED_LIBS=OFF", str(BUILD))
        done, said = run(*build)
    if not done and not TOLERANT:
        return False
    before = installed()
    run("cmake", "--install", str(BUILD))
    return installed() != before or copy_results(BUILD)


def with_autotools() -> bool:
    folder = folder_of("configure", "configure.ac", "configure.in", "autogen.sh", "bootstrap", "buildconf")
    if folder is None:
        return False
    if not (folder / "configure").is_file():
        script = next(
            (name for name in ("autogen.sh", "bootstrap", "bootstrap.sh", "buildconf") if (folder / name).is_file()),
            None,
        )
        if script is not None:
            run("sh", f"./{script}", folder=folder, NOCONFIGURE="1")
        if not (folder / "configure").is_file():
            run("autoreconf", "--force", "--install", folder=folder)
    if not (folder / "configure").is_file():
        return False
    c, cxx = flags()
    settings = [f"CFLAGS=-O1 {c}", f"CXXFLAGS=-O1 {cxx}"]
    command = ["env", *settings, "sh", "./configure", f"--prefix={PREFIX}"]
    done, said = run(*command, "--disable-dependency-tracking", folder=folder)
    if not done and re.search("(unrecognized|unknown|invalid) option", said, re.IGNORECASE):
        done, said = run(*command, folder=folder)
    if not done:
        return False
    return make(folder)


def with_meson() -> bool:
    folder = folder_of("meson.build")
    if folder is None:
        return False
    shutil.rmtree(BUILD, ignore_errors=True)
    options = ["--buildtype=release", f"--prefix={PREFIX}", "--libdir=lib", "-Dwerror=false"]
    if not run("meson", "setup", str(BUILD), str(folder), *options)[0]:
        return False
    if not run("meson", "compile", "-C", str(BUILD), "-j", "2")[0] and not TOLERANT:
        return False
    before = installed()
    run("meson", "install", "-C", str(BUILD))
    return installed() != before or copy_results(BUILD)


def with_make() -> bool:
    folder = folder_of("Makefile", "makefile", "GNUmakefile")
    return folder is not None and make(folder)


def make(folder: Path) -> bool:
    stamp = Path("/tmp/before")
    stamp.touch()
    c, cxx = flags()
    more = [f"CC=gcc {c}"] if c else []
    more += [f"CXX=g++ {cxx}"] if cxx else []
    prefix = [f"prefix={PREFIX}", f"PREFIX={PREFIX}"]
    done, said = run("make", "-j2", *prefix, *more, folder=folder)
    if not done and re.search(r"aclocal|automake|autoconf", said) and (folder / "configure.ac").is_file():
        run("autoreconf", "--force", "--install", folder=folder)
        run("sh", "./configure", f"--prefix={PREFIX}", folder=folder)
        done, said = run("make", *prefix, *more, folder=folder)
    if not done:
        # Rules that lack a dependency fail only when several run at once.
        done, said = run("make", *(["-k"] if TOLERANT else []), *prefix, *more, folder=folder)
    if not done and not TOLERANT:
        return False
    before = installed()
    if (
        subprocess.run(
            ["make", "-n", *prefix, "install"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    ):
        run("make", *prefix, *more, "install", folder=folder)
    return installed() != before or copy_results(Path("."), stamp)


def installed() -> list[str]:
    return sorted(
        str(path) for name in ("bin", "lib", "include", "sbin", "games", "share") for path in (PREFIX / name).rglob("*")
    )


def copy_results(folder: Path, stamp: Path | None = None) -> bool:
    """Whether there were programs or libraries in a folder to be copied."""
    since = stamp.stat().st_mtime if stamp else 0
    found = False
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_mtime < since or "CMakeFiles" in path.parts:
            continue
        with path.open("rb") as file:
            head = file.read(20)
        if path.suffix == ".a" or re.search(r"\.so(\.\d+)*$", path.name):
            shutil.copy(path, PREFIX / "lib")
            found = True
        elif path.stat().st_mode & 0o111 and (
            (head.startswith(b"\x7fELF") and head[16] in (2, 3)) or (stamp and head.startswith(b"#!"))
        ):
            shutil.copy(path, PREFIX / "bin")
            found = True
    if found:
        copy_headers()
    return found


def copy_headers() -> bool:
    folder = next(
        (
            name
            for name in ("include", "single_include", "inc", "src")
            if Path(name).is_dir() and any(Path(name).rglob("*.h*"))
        ),
        None,
    )
    found = False
    for path in sorted(
        Path(folder or ".").rglob("*.h*")
        if folder in ("include", "single_include", "inc")
        else Path(folder or ".").glob("*.h*")
    ):
        if path.suffix in (".h", ".hpp", ".hh", ".hxx") and path.is_file():
            place = PREFIX / "include" / path.relative_to(folder or ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            found = True
    return found


def with_compiler() -> bool:
    """Every source with a `main` becomes a program, together with the sources that have none where that links."""
    kinds = (".c", ".cc", ".cpp", ".cxx")
    files = [
        path
        for path in sorted(Path(".").rglob("*"))
        if path.suffix in kinds and not ASIDE.intersection(part.lower() for part in path.parts[:-1])
    ][:300]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    programs = [path for path in files if re.search(r"^[\w\s*]*\bmain\s*\(", texts[path], re.MULTILINE)]
    others = [path for path in files if path not in programs]
    includes = sorted({f"-I{path.parent}" for path in Path(".").rglob("*.h*") if path.suffix in (".h", ".hpp", ".hh")})[
        :60
    ]
    every = "\n".join(texts.values())
    libraries = [
        word
        for sign, name in LINKED.items()
        if re.search(rf'#\s*include\s*[<"]{re.escape(sign)}', every)
        for word in name.split()
    ]
    libraries += ["-lm", "-lpthread", "-ldl"]
    built = 0
    for path in programs[:40]:
        cxx = path.suffix != ".c" or any(other.suffix != ".c" for other in others)
        compiler = ["g++", "-fpermissive"] if cxx else ["gcc", "-fcommon"]
        target = str(PREFIX / "bin" / (sys.argv[1] if len(programs) == 1 else path.stem))
        for together in ([*others], [other for other in others if other.parent == path.parent], []):
            done, _ = run(
                *compiler, "-O1", "-w", "-o", target, str(path), *map(str, together), *includes, *libraries, limit=240
            )
            if done:
                built += 1
                break
    if built or programs:
        return built > 0
    objects: list[str] = []
    for path in others:
        single = "gcc" if path.suffix == ".c" else "g++"
        place = f"/tmp/object-{len(objects)}.o"
        if run(single, "-O1", "-w", "-fPIC", "-c", "-o", place, str(path), *includes, limit=120)[0]:
            objects.append(place)
    if objects and len(objects) * 2 >= len(others):
        name = sys.argv[1].removeprefix("lib")
        run("ar", "rcs", str(PREFIX / "lib" / f"lib{name}.a"), *objects)
        copy_headers()
        return True
    return not others and copy_headers()


SYSTEMS = (
    (with_cmake, ("CMakeLists.txt",)),
    (with_autotools, ("configure", "configure.ac", "configure.in", "autogen.sh", "bootstrap", "buildconf")),
    (with_meson, ("meson.build",)),
    (with_make, ("Makefile", "makefile", "GNUmakefile")),
)


def main() -> None:
    prepare()
    ways = [way for way, names in SYSTEMS if folder_of(*names) is not None]
    if not ways or TOLERANT:
        ways.append(with_compiler)
    for way in ways:
        if way():
            run("ldconfig")
            say("built", way.__name__.replace("_", " "))
            return
    sys.exit("nothing could be built")


main()
