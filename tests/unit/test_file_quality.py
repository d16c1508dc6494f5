"""The quality of single files, and that harm on purpose lowers it, kind by kind."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from pipeline.scoring.corruptions import KINDS, Kind, corrupted
from pipeline.scoring.file_quality import COMPLETENESS, EXECUTABILITY, judge, language_of

PYTHON = '''"""Counts words."""

import collections
import sys


def count(text):
    return collections.Counter(text.split())


def main():
    for word, number in count(sys.stdin.read()).most_common(10):
        print(number, word)


if __name__ == "__main__":
    main()
'''
C = """#include <stdio.h>
#include "list.h"

/* Prints a list. */
static void show(const struct list *one) {
    for (; one; one = one->next) {
        printf("%s (%d)\\n", one->name, one->number);
    }
}

int main(int argc, char **argv) {
    struct list *all = read_list(argc > 1 ? argv[1] : "-");
    if (!all) {
        return 1;
    }
    show(all);
    return 0;
}
"""
GO = """package main

import (
\t"fmt"
\t"os"
)

type shape struct{ name string }

func (s shape) greet() string {
\treturn fmt.Sprintf("hello %s", s.name)
}

func main() {
\tif len(os.Args) < 2 {
\t\tos.Exit(1)
\t}
\tfmt.Println(shape{os.Args[1]}.greet())
}
"""
JAVA = """package one.two;

import java.util.ArrayList;
import java.util.List;

public class Basket {
    private final List<String> fruits = new ArrayList<>();

    public void add(String fruit) {
        if (fruit.isEmpty()) {
            throw new IllegalArgumentException("a fruit has a name {");
        }
        fruits.add(fruit);
    }

    public int size() {
        return fruits.size();
    }
}
"""
JAVASCRIPT = """'use strict';

const fs = require('fs');
const { join } = require('path');

function read(folder) {
  return fs.readdirSync(folder).filter((name) => /[.}]js$/.test(name)).map((name) => join(folder, name));
}

module.exports = { read };
"""
PHP = """<?php

namespace App;

use App\\Http\\Request;
use InvalidArgumentException;

class Handler
{
    public function handle(Request $request): string
    {
        if ($request->isEmpty()) {
            throw new InvalidArgumentException("nothing {$request->path()}");
        }
        return Request::body($request);
    }
}
"""
HTML = """<!DOCTYPE html>
<html>
<head>
  <title>Pears</title>
  <link rel="stylesheet" href="style.css">
  <script src="pears.js"></script>
</head>
<body>
  <div class="box">
    <ul><li>one</li><li>two</li></ul>
    <button onclick="add()">more</button>
  </div>
</body>
</html>
"""
CPP = """#include <string>
#include <vector>

namespace pears {

class Basket {
  public:
    void add(const std::string &name) {
        names_.push_back(name);
    }
    std::size_t size() const {
        return names_.size();
    }

  private:
    std::vector<std::string> names_;
};

}  // namespace pears
"""
SHELL = """#!/bin/sh
set -eu

case "$1" in
    build) make all ;;
    test | check)
        if [ -d tests ]; then
            make check
        fi
        ;;
    *) echo "usage: $0 build|test" >&2; exit 2 ;;
esac
"""
SOUND = {
    "count.py": PYTHON,
    "list.c": C,
    "main.go": GO,
    "Basket.java": JAVA,
    "read.js": JAVASCRIPT,
    "Handler.php": PHP,
    "index.html": HTML,
    "basket.cpp": CPP,
    "run.sh": SHELL,
    "package.json": '{\n  "name": "x",\n  "scripts": {\n    "test": "node test.js"\n  },\n  "files": ["a", "b"]\n}\n',
    "pyproject.toml": '[project]\nname = "x"\nversion = "1"\ndependencies = [\n  "flask",\n  "rich",\n]\n',
    "ci.yml": "on: push\njobs:\n  test:\n    steps:\n      - run: make\n      - run: [make, check]\n",
    "pom.xml": "<project>\n  <artifactId>x</artifactId>\n  <version>1</version>\n  <build>\n  </build>\n</project>\n",
    "Makefile": "all: x\n\nx: x.o $(OBJECTS)\n\t$(CC) -o $@ $^\n\n.PHONY: all\n",
    "Dockerfile": "FROM debian:12\nRUN apt-get update \\\n    && apt-get install -y make\nCOPY . /x\nRUN make\n",
    "README.md": "# Pears\n\nBuild it:\n\n```sh\nmake\n```\n\nThat is all there is to it.\n",
}
"""Small whole files, one of each kind."""


@pytest.mark.parametrize("name", SOUND)
def test_a_whole_file_has_hardly_a_flaw(name: str) -> None:
    found = judge(name, SOUND[name])
    assert found.quality > 0.85, found.flaws


@pytest.mark.parametrize("kind", KINDS)
def test_harm_lowers_the_quality_of_small_whole_files_in_every_language(kind: Kind) -> None:
    judged = 0
    for name, text in SOUND.items():
        for seed in range(8):
            if (harmed := corrupted(text, language_of(name), kind, seed)) is not None:
                judged += 1
                # A cut exactly between two statements leaves a whole file.
                if kind != "truncated" or not harmed.endswith("\n"):
                    assert judge(name, harmed).quality < judge(name, text).quality, (name, kind, seed, harmed)
    assert judged >= 40


@pytest.mark.parametrize("kind", KINDS)
def test_harm_lowers_the_quality_of_real_python_files_in_19_of_20_cases(kind: Kind) -> None:
    folder = Path(sysconfig.get_path("stdlib"))
    lower = []
    for path in sorted(folder.glob("[a-z]*.py"))[::4]:
        text = path.read_text(encoding="utf-8", errors="replace")
        if 200 <= len(text) <= 30_000 and (harmed := corrupted(text, "python", kind, 7)) is not None:
            lower.append(judge(path.name, harmed).quality < judge(path.name, text).quality)
    assert len(lower) >= 20
    assert sum(lower) / len(lower) >= 0.95


def test_every_flaw_has_a_weight_and_lies_between_0_and_1() -> None:
    for name, text in SOUND.items():
        for harmed in (text, text[: len(text) // 2], "", "\x00\n", "(" * 5000, text * 3):
            flaws = judge(name, harmed).flaws
            assert flaws.keys() == {*COMPLETENESS, *EXECUTABILITY}
            assert all(0.0 <= flaw <= 1.0 for flaw in flaws.values()), (name, flaws)


@pytest.mark.parametrize(
    ("name", "text", "flaw"),
    [
        ("old.py", "print 'two'\n", "unparsed"),
        ("x.json", '{"a": 1', "unparsed"),
        ("x.c", "int main(void) {\n  return 0;\n", "unbalanced"),
        ("x.c", "int x; /* and\n", "cut"),
        ("x.js", "let text = 'a (b';\ncall(text;\n", "unbalanced"),
        ("x.go", 'package x\n\nfunc y() {\n\tfmt.Println("a")\n}\n', "unresolved"),
        ("x.java", "class X {\n  List<String> all;\n}\n", "unresolved"),
        ("x.py", "def x():\n    raise NotImplementedError\n", "hollow"),
        ("x.sh", "make\n", "unstartable"),
        ("x.sh", "#!/bin/sh\nif true; then\n  make\n", "unbalanced"),
        ("x.md", "# A\n\n```sh\nmake\n", "unbalanced"),
        ("x.html", "<div><span></div>\n", "unbalanced"),
        ("x.py", "# only a remark\n", "empty"),
        ("Dockerfile", "FROM debian:12\nRUN\n", "unparsed"),
        ("x.py", "x = 1\n# TODO: the rest\n", "placeholders"),
    ],
)
def test_each_flaw_is_found(name: str, text: str, flaw: str) -> None:
    assert judge(name, text).flaws[flaw] > 0.0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.js", "const a = b.split(/[(]/);\nconst c = `${a.map((x) => `<${x}>`)} (`;\n"),
        ("x.cpp", 'auto a = R"(un(balanced)";\nint b = 1\'000;\n'),
        ("x.php", "<p>a ( b</p>\n<?php\n$a = <<<EOT\n ( {$b}\nEOT;\n?>\n"),
        ("x.sh", "#!/bin/sh\ncat <<EOF\n( {\nEOF\necho ${#x} # (\n"),
        ("x.go", "package x\n\nvar a = `{(`\n"),
        ("x.java", 'class X {\n  String a = """\n    { (\n    """;\n}\n'),
    ],
)
def test_brackets_in_literals_and_comments_are_no_brackets(name: str, text: str) -> None:
    assert judge(name, text).flaws["unbalanced"] == 0.0


def test_the_same_harm_comes_from_the_same_seed() -> None:
    assert corrupted(C, "c", "placeholders", 3) == corrupted(C, "c", "placeholders", 3)
    assert len({corrupted(C, "c", "truncated", seed) for seed in range(10)}) > 5


def test_a_script_without_an_ending_is_known_by_its_first_line() -> None:
    assert language_of("bin/run", "#!/usr/bin/env python3\n") == "python"
    assert language_of("bin/run", "#!/bin/bash\n") == "shell"
    assert language_of("bin/run", "words\n") == "text"


@pytest.mark.parametrize(
    ("name", "piece"),
    [("x.go", "1, "), ("x.go", "a"), ("x.js", ",/["), ("x.cpp", 'R"('), ("x.html", "<?"), ("x.html", "<script>")],
)
def test_a_text_that_was_made_to_take_for_ever_is_judged_all_the_same(name: str, piece: str) -> None:
    assert 0.0 < judge(name, piece * (200_000 // len(piece))).quality < 1.0
