"""Makes the loader and the libraries in a folder blind to the file system that is judged. Part of verifier-runtime.sh.

Each path that would make them load code, or data that decides which code, is overwritten by one of equal length that
cannot exist: there is no process 0. Where a path is too short for that, it becomes the root, which is no library.
"""

import re
import sys
import sysconfig
from pathlib import Path

TRIPLET = sysconfig.get_config_var("MULTIARCH").encode()
LOADER = (
    # Preloaded libraries, the cache, the folders that are searched last and those that count as trusted.
    rb"/etc/ld\.so\.preload\0",
    rb"/etc/ld\.so\.cache\0",
    rb"(?:/usr)?/lib/" + TRIPLET + rb"/\0",
    rb"(?:/usr)?/lib/\0",
)
LIBRARY = (
    # Which libraries answer look-ups of users and hosts, and the daemon that may answer in their place.
    rb"/etc/nsswitch\.conf\0",
    # Compilers spread short strings over registers: then only the beginning stands there as text.
    rb"/etc/nsswitch\.co(?!nf)",
    rb"/var/run/nscd/so",
    # Modules of character sets, locales, time zones.
    rb"/usr/lib/" + TRIPLET + rb"/gconv[^\0]*\0",
    rb"/usr/lib/locale[^\0]*\0",
    rb"/usr/share/locale\0",
    rb"/usr/share/zoneinfo\0",
    rb"/etc/localtime\0",
)
CRYPTOGRAPHY = (
    # Configuration, which may name modules to load, and the folders of such modules.
    rb"(?<=\0)/usr/lib/ssl[^\0]*\0",
    rb"(?<=\0)/usr/lib/" + TRIPLET + rb"/(?:engines|ossl)-[^\0]*\0",
)
NOWHERE = b"/proc/0/"


def nowhere(match: re.Match[bytes]) -> bytes:
    """A path of equal length that cannot exist."""
    found = match.group()
    end = b"\0" if found.endswith(b"\0") else b""
    room = len(found) - len(end)
    path = NOWHERE.ljust(room, b"/") if room >= len(NOWHERE) else b"/".ljust(room, b"\0")
    # A path of a folder keeps its last character; the others get a name, so that the folder itself is not meant.
    if path.startswith(NOWHERE) and not found.rstrip(b"\0").endswith(b"/"):
        path = NOWHERE.ljust(room, b"x")
    return path + end


def blind(path: Path, patterns: tuple[bytes, ...]) -> None:
    """Overwrite every occurrence; a path that is not there means another release, whose paths nobody has checked."""
    content = path.read_bytes()
    size = len(content)
    for pattern in patterns:
        content, count = re.subn(pattern, nowhere, content)
        assert count, f"{path.name} has no {pattern!r}"
    assert len(content) == size
    path.write_bytes(content)


blind(Path(sys.argv[1]) / "ld.so", LOADER)
blind(Path(sys.argv[1]) / "libc.so.6", LIBRARY)
blind(Path(sys.argv[1]) / "libcrypto.so.3", CRYPTOGRAPHY)
