"""Compiles the main sources of the Java tree in the current folder into one jar, with the jars of Debian as class path.

Usage: build_java.py JAR [--tolerant]

Sources that need libraries which are not there are left out and named; when fewer than a third remain (a
twentieth with --tolerant), it fails. Test
sources need frameworks of their own versions and are not compiled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JARS = "/usr/share/java"
CLASSES = Path("/tmp/classes")
# Jars that hold the same classes as another one beside them, in other versions, or whole tools.
UNWANTED = re.compile(
    r"(ant-.*|maven-.*|gradle.*|.*-(sources|javadoc|tests)|ecj.*|libintl|java-atk-wrapper|groovy-.*)\.jar"
)
SKIPPED = re.compile(
    r"(^|/)(tests?|androidTest|testFixtures|jmh|benchmarks?|examples?|samples?|demos?|it|integrationTest|java(9|[12]\d)|target|build|generated|archetype-resources|node_modules|\.[^/]+)(/|$)"
)
ERROR = re.compile(r"^(\S.*?\.java):\d+: error: (.*)$", re.MULTILINE)
ROUNDS = 25


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def fill_in_templates() -> None:
    """Sources in which a build replaces words by values, as a plug-in of Maven does, get the words themselves."""
    for path in list(Path(".").rglob("src/main/java-templates/**/*.java")):
        place = Path(str(path).replace("src/main/java-templates/", "src/main/java/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8", errors="replace")
        place.write_text(re.sub(r"\$\{([\w.]+)\}", r"\1", text), encoding="utf-8")


def sources() -> list[str]:
    every = [
        str(path)
        for path in sorted(Path(".").rglob("*.java"))
        if path.name not in ("module-info.java", "package-info.java")
    ]
    main = [path for path in every if "src/main/java/" in path and not SKIPPED.search(path.split("src/main/java/")[0])]
    chosen = main or [path for path in every if not SKIPPED.search(path)] or every
    # A class that is there twice is that of the first module: javac takes one of each.
    seen: set[str] = set()
    unique: list[str] = []
    for path in chosen:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        package = re.search(r"^\s*package\s+([\w.]+)\s*;", text, re.MULTILINE)
        name = f"{package[1] if package else ''}.{Path(path).stem}"
        if name not in seen and not (package is None and "${" in text):
            seen.add(name)
            unique.append(path)
    return unique


def class_path() -> str:
    jars = [
        str(path) for path in sorted(Path(JARS).glob("*.jar")) if not UNWANTED.fullmatch(path.name) and path.exists()
    ]
    # Of `thing.jar` and `thing-1.2.jar` one is a link to the other.
    real: dict[str, str] = {}
    for jar in jars:
        real.setdefault(os.path.realpath(jar), jar)
    local = [
        str(path)
        for path in sorted(Path(".").rglob("*.jar"))
        if "wrapper" not in path.name and path.stat().st_size > 1000
    ]
    return ":".join([*local[:200], *real.values()])


def javac(files: list[str], encoding: str) -> subprocess.CompletedProcess[str]:
    shutil.rmtree(CLASSES, ignore_errors=True)
    CLASSES.mkdir(parents=True)
    Path("/tmp/sources").write_text("\n".join(f'"{path}"' for path in files))
    lombok = Path(JARS, "lombok.jar")
    processing = ["-processorpath", str(lombok)] if lombok.exists() else ["-proc:none"]
    command = ["javac", "-nowarn", *processing, "-encoding", encoding, "-Xmaxerrs", "20000", "-implicit:none"]
    command += ["-cp", class_path() or ".", "-d", str(CLASSES), "@/tmp/sources"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def compile_most(files: list[str]) -> tuple[list[str], str]:
    """The files that compile together, and what was said about the others."""
    left, encoding, said = list(files), "UTF-8", ""
    for _ in range(ROUNDS):
        if not left:
            break
        done = javac(left, encoding)
        if done.returncode == 0:
            return left, said
        if "unmappable character" in done.stdout and encoding == "UTF-8":
            encoding = "ISO-8859-1"
            continue
        said = said or done.stdout
        broken = {path for path, _ in ERROR.findall(done.stdout)}
        if not broken.intersection(left):
            say(done.stdout[-3000:])
            return [], said
        left = [path for path in left if path not in broken]
    return [], said


def resources() -> None:
    for folder in sorted(Path(".").rglob("src/main/resources")):
        if not SKIPPED.search(str(folder)):
            shutil.copytree(folder, CLASSES, dirs_exist_ok=True)
    if not Path("src/main").is_dir():
        for path in Path(".").rglob("*.properties"):
            for root in ("src", "source", "java"):
                if path.parts[0] == root:
                    place = CLASSES / path.relative_to(root)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, place)


def main() -> None:
    jar = sys.argv[1]
    fill_in_templates()
    files = sources()
    if not files:
        sys.exit("there is no Java source")
    compiled, said = compile_most(files)
    missing = sorted(set(re.findall(r"error: package ([\w.]+) does not exist", said)))
    out = sorted(set(files) - set(compiled))
    if out:
        say(said[:1500])
        say("packages that are not there:", *missing[:60])
        say(f"left out, since they need what is not there: {len(out)} of {len(files)} sources:", *out[:20])
    least = 0.05 if "--tolerant" in sys.argv else 0.34
    if len(compiled) < max(1, least * len(files)):
        sys.exit("too few of the sources can be compiled")
    resources()
    Path(jar).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["jar", "--create", "--file", jar, "-C", str(CLASSES), "."], check=True)
    say(f"compiled {len(compiled)} sources")


main()
