"""Licences are recognised by their texts, and never guessed."""

from __future__ import annotations

import hashlib
import json

import pytest

from pipeline.curation.licences import identify, is_licence_file

MIT = b"""Copyright (c) 2020 Someone

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

BSD_TWO_CLAUSES = b"""Redistribution and use in source and binary forms, with or without modification, are permitted
provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following
disclaimer.
2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following
disclaimer in the documentation and/or other materials provided with the distribution.
"""

BSD_THIRD_CLAUSE = b"""3. Neither the name of the copyright holder nor the names of its contributors may be used to
endorse or promote products derived from this software without specific prior written permission.
"""

BSD_DISCLAIMER = b"""
THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES,
INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY,
WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF
THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
"""

BSD_2 = BSD_TWO_CLAUSES + BSD_DISCLAIMER
BSD_3 = BSD_TWO_CLAUSES + BSD_THIRD_CLAUSE + BSD_DISCLAIMER

ISC = b"""Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.
"""

ZLIB = b"""This software is provided 'as-is', without any express or implied warranty. In no event will the authors be
held liable for any damages arising from the use of this software.

Permission is granted to anyone to use this software for any purpose, including commercial applications, and to alter
it and redistribute it freely, subject to the following restrictions:

1. The origin of this software must not be misrepresented; you must not claim that you wrote the original software. If
you use this software in a product, an acknowledgment in the product documentation would be appreciated but is not
required.
2. Altered source versions must be plainly marked as such, and must not be misrepresented as being the original
software.
3. This notice may not be removed or altered from any source distribution.
"""

DEBIAN_COPYRIGHT = b"""Format: 1.0
Upstream-Name: x

Files: *
Copyright: 2020 Someone
License: Expat

Files: debian/*
Copyright: 2021 Packager
License: GPL-2+
"""


@pytest.mark.parametrize(
    ("text", "spdx"), [(MIT, "MIT"), (BSD_2, "BSD-2-Clause"), (BSD_3, "BSD-3-Clause"), (ISC, "ISC"), (ZLIB, "Zlib")]
)
def test_a_text_is_recognised_and_its_path_and_hash_are_kept(text: bytes, spdx: str) -> None:
    found = identify({"LICENSE": text})
    assert (found.license, found.path, found.sha256) == (spdx, "LICENSE", hashlib.sha256(text).hexdigest())
    assert found.warnings == ()


def test_crlf_markup_and_a_headline_do_not_hide_a_text() -> None:
    assert identify({"LICENSE.md": b"# The MIT License (MIT)\r\n\r\n" + MIT.replace(b"\n", b"\r\n")}).license == "MIT"


def test_no_licence_is_none_with_a_warning() -> None:
    found = identify({"package.json": b'{"name": "x"}'})
    assert (found.license, found.warnings) == (None, ("no licence file was found",))


def test_an_unknown_text_is_none_even_when_the_metadata_names_a_licence() -> None:
    found = identify({"LICENSE": b"All rights reserved. Ask us.", "package.json": b'{"license": "MIT"}'})
    assert found.license is None and found.path == "LICENSE"
    assert found.warnings == ("the licence text in LICENSE is not known",)


@pytest.mark.parametrize("files", [{"LICENSE-A": MIT, "LICENSE-B": BSD_3}, {"LICENSE": MIT + b"\n---\n" + ZLIB}])
def test_several_licences_are_none_with_a_warning(files: dict[str, bytes]) -> None:
    found = identify(files)
    assert found.license is None and found.warnings[0].startswith("several licences: ")


def test_two_copies_of_one_licence_are_one_licence() -> None:
    assert identify({"COPYING": MIT, "LICENSE": MIT.replace(b"Someone", b"Others")}).license == "MIT"


def test_a_text_goes_before_metadata_that_differs_and_says_so() -> None:
    found = identify({"LICENSE": BSD_2, "debian/copyright": DEBIAN_COPYRIGHT})
    assert found.license == "BSD-2-Clause"
    assert found.warnings == ("LICENSE is BSD-2-Clause, but debian/copyright says MIT",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", json.dumps({"license": "MIT"}).encode()),
        ("pyproject.toml", b'[project]\nlicense = "MIT"\n'),
        ("pyproject.toml", b'[project]\nlicense = {text = "MIT"}\n'),
        ("PKG-INFO", b"Metadata-Version: 2.4\nName: x\nLicense-Expression: MIT\n\nReadme\n"),
        ("debian/copyright", DEBIAN_COPYRIGHT),
    ],
)
def test_metadata_counts_where_there_is_no_text(name: str, text: bytes) -> None:
    found = identify({name: text})
    assert (found.license, found.path) == ("MIT", name)
    assert found.warnings == (f"no licence text; {name} says MIT",)


@pytest.mark.parametrize("said", ["SEE LICENSE IN x", "MIT OR Apache-2.0", "UNLICENSED"])
def test_metadata_that_names_no_single_known_licence_is_none(said: str) -> None:
    found = identify({"package.json": json.dumps({"license": said}).encode()})
    assert found.license is None and "names no single licence" in found.warnings[0]


@pytest.mark.parametrize("broken", [b"{", b"[]", b'{"license": 7}', b"\xff\xfe"])
def test_broken_metadata_says_nothing(broken: bytes) -> None:
    assert identify({"package.json": broken, "pyproject.toml": broken}).warnings == ("no licence file was found",)


def test_only_texts_at_the_top_and_metadata_are_asked_for() -> None:
    wanted = [
        "LICENSE",
        "licence.txt",
        "LICENSE-MIT",
        "COPYING.LESSER",
        "UNLICENSE",
        "package.json",
        "debian/copyright",
    ]
    others = ["vendor/LICENSE", "license.py", "copying.go", "src/package.json", "licensed-people.txt"]
    assert [name for name in wanted + others if is_licence_file(name)] == wanted
