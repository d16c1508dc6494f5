#!/usr/bin/python3
"""Alpine's package program over Debian's packages: as much of it as Dockerfiles use. Runs in a build of an image."""

import os
import re
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().with_name("packages.txt")
LISTS = Path("/var/lib/apt/lists")
# Options that have a value as the next word.
VALUED = {"-t", "--virtual", "-X", "--repository", "-p", "--root", "--cache-dir", "--keys-dir", "--repositories-file"}
VALUED |= {"--arch", "--wait", "--progress-fd", "--cache-max-age"}
NUMBERED = re.compile(r"\d+(?:\.\d+)*$")


def main(words):
    if "--version" in words:
        sys.stdout.write("apk-tools 2.14.4, over Debian packages\n")
        return 0
    command, names = parsed(words)
    if command == "add":
        return add(names)
    if command == "info":
        return subprocess.run(["dpkg", "-s", *debian(names)], stdout=subprocess.DEVNULL).returncode if names else 0
    # Packages stay: one of Debian's may belong to several of Alpine's.
    return 0 if command in ("update", "upgrade", "del", "fix", "cache", "stats", "policy", "version") else 1


def parsed(words):
    plain, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in VALUED:
            skip = True
        elif not word.startswith("-"):
            plain.append(word)
    # `name=1.2-r0`, `name~1.2`, `name>1`, `name@edge`: the release is Debian's anyway.
    return (plain or [""])[0], [name for word in plain[1:] if (name := re.split(r"[=~<>@]", word)[0])]


def add(names):
    if not any(LISTS.glob("*_Packages*")):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
    # Virtual packages of Alpine begin with a dot, and are only names for a group.
    wanted = debian([name for name in names if not name.startswith(".")])
    unknown = [name for name in wanted if name.startswith("?")]
    if unknown:
        listed = "".join(f"  {name[1:]} (no such package)\n" for name in unknown)
        sys.stderr.write(f"ERROR: unable to select packages:\n{listed}")
        return len(unknown)
    command = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", *wanted]
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode == 0:
        link("/usr/bin/tini", "/sbin/tini")
        link("/usr/sbin/gosu", "/sbin/su-exec")
    return done.returncode


def link(target, place):
    if os.path.exists(target) and not os.path.lexists(place):
        os.symlink(target, place)


def debian(names):
    """Debian's names; one that has none begins with `?`."""
    table = {}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            alpine, _, packages = line.partition(" ")
            table[alpine] = packages.split()
    found = []
    for name in names:
        if language(name):
            continue
        packages = table.get(name)
        found += [first(name)] if packages is None else packages
    return list(dict.fromkeys(found))


def language(name):
    """Whether this is the language of the image itself, which did not come from Debian's packages."""
    places = {"nodejs": "node", "nodejs-current": "node", "npm": "npm", "yarn": "yarn", "python3": "python3"}
    places |= {"py3-pip": "pip", "py3-setuptools": "pip", "py3-wheel": "pip", "py3-virtualenv": "pip"}
    places |= {"go": "go/bin/go", "composer": "composer"}
    place = places.get(name)
    return place is not None and (Path("/usr/local/bin", place).exists() or Path("/usr/local", place).exists())


def first(name):
    """The first of the likely names that exists."""
    known = set(subprocess.run(["apt-cache", "pkgnames"], stdout=subprocess.PIPE, text=True).stdout.split())
    for guess in guesses(name):
        if guess in known:
            return guess
    return f"?{name}"


def guesses(name):
    if match := re.match(r"php\d*-(.+)$", name):
        yield f"php-{re.sub(r'^pecl-|^pdo_', '', match[1]).replace('mysqli', 'mysql')}"
        yield "php-cli"
    if match := re.match(r"openjdk(\d+)", name):
        kind = "jre" if "jre" in name else "jdk"
        yield f"openjdk-{match[1]}-{kind}-headless"
        yield f"default-{kind}-headless"
    yield name
    if name.startswith(("py3-", "py-")):
        yield f"python3-{name.partition('-')[2]}"
    stem = name.removesuffix("-dev").removesuffix("-static").removesuffix("-libs")
    yield f"lib{stem}-dev" if not stem.startswith("lib") else f"{stem}-dev"
    bare = NUMBERED.sub("", stem)
    for one in (stem, bare, bare.removesuffix("-")):
        yield from (f"{one}-dev", f"lib{one}-dev", f"lib{one}1-dev", f"lib{one}2-dev", f"{one}1-dev")
    for kind in ("-doc", "-lang", "-openrc", "-bash-completion"):
        if name.endswith(kind):
            yield "base-files"
    if name.startswith(("ttf-", "font-")):
        yield f"fonts-{name.partition('-')[2]}"
        yield "fonts-dejavu-core"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
