"""What an image offers before anything is done in it: working directory, programs, their help texts, libraries."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pipeline.errors import ItemRejected
from sandbox.protocol import Sandbox

MAX_HELP_CALLS = 24
SURVEY_TIMEOUT_S = 90
SYSTEM_FOLDERS = ("/usr/bin/", "/bin/", "/sbin/", "/usr/sbin/")
TOOLCHAIN = {"node", "npm", "npx", "pip", "pip3", "python", "python3", "php", "go", "java", "javac", "cmake", "make"}


@dataclass(frozen=True)
class Survey:
    """One image, looked at once."""

    workdir: str
    hostname: str
    programs: dict[str, str]
    """Name -> path of the programs asked about that exist."""
    libraries: tuple[str, ...] = ()
    """Names, as a linker takes them, of the libraries that the image installed for the repository."""
    files: frozenset[str] = frozenset()
    """Names below the working directory, relative to it."""
    help_texts: dict[str, str] = field(default_factory=dict)
    """`name` or `name subcommand` -> what it prints with `--help`, for the programs of the repository."""

    @property
    def own(self) -> set[str]:
        """Programs that belong to the repository, not to the system."""
        return {n for n, path in self.programs.items() if not path.startswith(SYSTEM_FOLDERS) and n not in TOOLCHAIN}


SCRIPT = """
printf 'workdir\\t%s\\n' "$PWD"
printf 'hostname\\t%s\\n' "$(cat /proc/sys/kernel/hostname)"
for word in {words}; do
  path=$(type -P -- "$word") && printf 'program\\t%s\\t%s\\n' "$word" "$path"
done
for library in /usr/local/lib/lib*.so /usr/local/lib/lib*.a; do
  test -f "$library" && basename "$library" | sed -E 's/^lib(.*)\\.(so|a)$/library\\t\\1/'
done
find . -name .git -prune -o -name node_modules -prune -o -type f -printf 'file\\t%P\\n' | head -20000
"""
HELP = """
cd "$(mktemp -d)"
count=0
while read -r program sub; do
  count=$((count + 1))
  {{ printf '\\n@@help %s\\n' "$program${{sub:+ $sub}}"
    timeout 10 "$program" $sub --help </dev/null 2>&1 | head -c 20000; }} > "$count" &
done <<'CALLS'
{calls}
CALLS
wait
cat -- *
"""


def survey(sandbox: Sandbox, words: Iterable[str]) -> Survey:
    """Look around in a fresh sandbox.

    Raises ItemRejected when the image has no usable shell, SandboxUnavailable when the machinery fails.
    """
    asked = sorted(w for w in words if re.fullmatch(r"[\w./+@-]{1,60}", w) and not w.startswith("-"))
    text = _output(sandbox, SCRIPT.format(words=" ".join(map(shlex.quote, asked)) or "''"))
    rows = [line.split("\t") for line in text.splitlines()]
    programs = {r[1]: r[2] for r in rows if r[0] == "program" and len(r) == 3}
    single = {r[0]: r[1] for r in rows if r[0] in {"workdir", "hostname"} and len(r) == 2}
    if "workdir" not in single:
        raise ItemRejected("no_shell", f"the image does not run bash commands: {text[:200]!r}")
    files = frozenset(r[1] for r in rows if r[0] == "file" and len(r) == 2)
    libraries = tuple(dict.fromkeys(r[1] for r in rows if r[0] == "library" and len(r) == 2))
    return Survey(single["workdir"], single.get("hostname", ""), programs, libraries, files)


def with_help(sandbox: Sandbox, found: Survey, calls: Iterable[str]) -> Survey:
    """Add the help texts of the given calls, `program` or `program subcommand`, of the repository's own programs.

    Raises SandboxUnavailable.
    """
    asked = sorted({call for call in calls if call.split()[0] in found.own})[:MAX_HELP_CALLS]
    if not asked:
        return found
    shown = _output(sandbox, HELP.format(calls="\n".join(asked)))
    parts = re.split(r"^@@help (\S.*)\n", shown, flags=re.MULTILINE)[1:]
    return replace(found, help_texts=dict(zip(parts[::2], parts[1::2], strict=True)))


def _output(sandbox: Sandbox, script: str) -> str:
    target = "/tmp/survey.txt"
    sandbox.execute(f"( {script}\n) > {target} 2>&1", timeout_s=SURVEY_TIMEOUT_S)
    try:
        content = sandbox.get(target, max_bytes=4_000_000)
    except ValueError as error:
        raise ItemRejected("no_shell", f"the survey of the image gave too much: {error}") from error
    return (content or b"").decode("utf-8", "replace")


def option_names(help_text: str) -> dict[str, tuple[str, bool]]:
    """Option as written (`-c`) -> (its long name without dashes, whether it takes a value), read from a help text."""
    found: dict[str, tuple[str, bool]] = {}
    for line in help_text.splitlines():
        match = re.match(r"\s*(-{1,2}[\w?][\w-]*)(.*)", line)
        if not match:
            continue
        head = re.split(r"\s{2,}", line.strip())[0]
        names = re.findall(r"(?<![\w-])(-{1,2}[\w?][\w-]*)", head)
        value = bool(re.search(r"-[\w-]+[ =]\[?(?:[A-Z][A-Z_0-9]*\b|<|\{|\[)", head)) or bool(
            re.search(r"\b(TEXT|INTEGER|FILE|PATH)\b", head)
        )
        long = next((n for n in names if n.startswith("--")), names[0])
        for name in names:
            found.setdefault(name, (long.lstrip("-"), value))
    return found
