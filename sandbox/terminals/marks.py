"""The shell that a terminal starts, and the marks by which it says where it stands.

The marks are those of semantic prompts (OSC 133): no screen shows them. They arrive among the output, so a program can
forge them; that misleads the agent that ran it about its own command, and nobody else. They are hints for waiting, and
no verdict may rest on them.
"""

from __future__ import annotations

import re

# Installs the marks in whatever prompts the start-up files of the image chose, and again when a program changes them.
# The value of `$?` stands in the prompt itself. A nested bash inherits this; other shells leave it alone.
_PROMPT_COMMAND = r"""case ${PS1-} in *133\;B*) ;; *) PS1="\[\e]133;D;\$?\a\e]133;A\a\]${PS1-}\[\e]133;B\a\]" ;; esac
case ${PS2-} in *133\;P*) ;; *) PS2="\[\e]133;P;k=c\a\]${PS2-}" ;; esac
case ${PS0-} in *133\;C*) ;; *) PS0="\e]133;C\a${PS0-}" ;; esac"""
ENVIRONMENT = {"TERM": "xterm-256color", "PROMPT_COMMAND": _PROMPT_COMMAND}
# $1 working directory, $2 rows, $3 columns. Bash finds the size already set. The first output names the process.
START = r"""cd -- "$1" 2>/dev/null || cd /
unset OLDPWD
stty rows "$2" cols "$3" 2>/dev/null
printf '\033]1337;shell=%s\007' "$$"
if command -v bash >/dev/null; then exec bash -i; fi
exec sh -i"""
STARTED = re.compile(rb"\x1b\]1337;shell=(\d+)\x07")
_MARK = re.compile(r"\x1b\]133;(?:(?P<prompt>B)|(?P<continuation>P;k=c)|(?P<running>C)|D;(?P<code>\d{1,3}))\x07")


def start_command(workdir: str, rows: int, columns: int) -> list[str]:
    """Program and arguments that start the shell on a terminal that is its standard input, output and error."""
    return ["sh", "-c", START, "sh", workdir, str(rows), str(columns)]


class Marks:
    """Where the shell stands, by what it last said."""

    def __init__(self) -> None:
        self.place = ""
        """`prompt`, `continuation` or `running`; empty when the shell says nothing of the kind."""
        self.exit_code: int | None = None
        """Of the last command."""
        self.fresh = False
        """Whether the shell has asked for input since this was last set to False."""

    def look(self, text: str) -> None:
        """Take what the marks in the next output say."""
        for match in _MARK.finditer(text):
            if match["code"] is not None:
                self.exit_code = int(match["code"])
                continue
            self.place = match.lastgroup or ""
            self.fresh = self.place != "running"
