"""Finds what was compiled from the project's classes (names in classes.json beside this file) and prints it as JSON.

`path` is a class path, `classes` those that are on it, `programs` jars that can be started. The argument is the tree.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = ("/usr/local/lib", "/usr/local/share", "/app", "/opt", "/srv", "/usr/src", "/build", "/home")
FOLDERS = ("target/classes", "build/classes/java/main", "build/classes", "bin", "out", "classes")
LIBRARIES = ("/usr/share/java", os.path.expanduser("~/.m2/repository"), os.path.expanduser("~/.gradle/caches"))
SKIPPED = ("-sources.jar", "-javadoc.jar", "-tests.jar", "original-")
MOST_LIBRARIES = 300
MOST_CLASSES = 200

Found = dict[str, list[str]]


def jars(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        for folder, folders, names in os.walk(place):
            folders[:] = [one for one in folders if one not in ("node_modules", "jdk", "jvm", ".git")]
            for name in names:
                if name.endswith(".jar") and not any(part in name for part in SKIPPED):
                    yield os.path.join(folder, name)


def unpacked(jar: str, prefix: str) -> list[str]:
    """The class path inside a jar that holds its classes and libraries below a folder of its own."""
    target = os.path.join(HERE, "unpacked-" + os.path.basename(jar))
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(target)
    return [os.path.join(target, prefix, "classes"), os.path.join(target, prefix, "lib", "*")]


def main_class(archive: zipfile.ZipFile) -> str:
    if "META-INF/MANIFEST.MF" not in archive.namelist():
        return ""
    lines = archive.read("META-INF/MANIFEST.MF").decode("utf-8", "replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Main-Class:")), "")


def look_into(jar: str, wanted: dict[str, str], found: Found) -> None:
    """Adds a jar when it has classes of the project."""
    try:
        with zipfile.ZipFile(jar) as archive:
            names = set(archive.namelist())
            starts = main_class(archive)
    except (OSError, zipfile.BadZipFile):
        return
    prefix = next((p for p in ("BOOT-INF", "WEB-INF") if any(n.startswith(f"{p}/classes/") for n in names)), "")
    inside = f"{prefix}/classes/" if prefix else ""
    own = [name for path, name in wanted.items() if inside + path in names]
    if not own:
        return
    folder = os.path.dirname(jar)
    found["classes"] += own
    found["path"] += unpacked(jar, prefix) if prefix else [jar, f"{folder}/*", f"{folder}/lib/*"]
    if starts and (prefix or starts in own):
        found["programs"].append(jar)


def look_for_folders(tree: str, wanted: dict[str, str], found: Found) -> None:
    """Adds folders of compiled classes in the tree."""
    for folder, folders, _ in os.walk(tree):
        folders[:] = [one for one in folders if one not in ("node_modules", ".git")]
        for place in (os.path.join(folder, one) for one in FOLDERS):
            own = [name for path, name in wanted.items() if os.path.isfile(os.path.join(place, path))]
            if own:
                found["classes"] += own
                found["path"].append(place)


def main(tree: str) -> None:
    with open(os.path.join(HERE, "classes.json"), encoding="utf-8") as listed:
        wanted = {name.replace(".", "/") + ".class": name for name in json.load(listed)}
    found: Found = {"path": [], "classes": [], "programs": []}
    for jar in sorted(set(jars((tree, *PLACES)))):
        look_into(jar, wanted, found)
    look_for_folders(tree, wanted, found)
    if found["path"]:
        found["path"] += sorted({os.path.dirname(jar) + "/*" for jar in jars(LIBRARIES)})[:MOST_LIBRARIES]
    found["path"] = list(dict.fromkeys(found["path"]))
    # What an answer can hold is bounded.
    found["classes"] = list(dict.fromkeys(found["classes"]))[:MOST_CLASSES]
    sys.stdout.write(json.dumps(found) + "\n")


main(sys.argv[1])
