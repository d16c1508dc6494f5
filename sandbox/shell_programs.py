"""What a sandbox's shell runs inside: a supervisor that starts a shell on request, and the loop in that shell.

The supervisor is a POSIX script with three streams: requests come in, output goes out, status lines go out apart:
`ready PID` (a shell waits for commands), `exit NUMBER CODE` (command NUMBER is over), `gone CODE` (the shell itself is
over). A request is `shell` and the two loops below, or, while a shell runs, a number and a command, one line each. A
mark behind the number is written to the output after the status, for drivers to whom the two come on separate ways. The
supervisor starts nothing that it is not asked for, buries orphans where it is PID 1, and ends with its requests.
Programs of the sandbox can reach the descriptors of these streams and write anything there. So every line that counts
begins after a newline, and a line that is none of these counts for nothing.
The driver's side is shell.py.
"""

from __future__ import annotations

ABANDON = 39
"""The signal (a real-time one, which nothing else uses) on which a bash abandons its command and goes on living."""
# The text of every program becomes one line, so that the shell's messages say `line 1` for a command's first.
_SUPERVISOR = r"""
exec 8<&0 9>&2 </dev/null 2>/dev/null;
trap : HUP INT QUIT TERM USR1 USR2 ALRM;
while IFS= read -r __touchstone_request <&8; do
  [ "$__touchstone_request" = shell ] || continue;
  (cd -- "$1" || cd /;
  if command -v bash >/dev/null;
  then exec bash -c 'IFS= read -r __touchstone_loop <&8; read -r _ <&8; eval "$__touchstone_loop"' bash 2>&1; fi;
  exec sh -c 'read -r _ <&8; IFS= read -r __touchstone_loop <&8; eval "$__touchstone_loop"' sh 2>&1);
  printf '\ngone %s\n' "$?" >&9;
done
"""
# Private descriptors are high, since `exec 3>file` in a command must last; a command does not inherit them.
# A bash that is told to abandon its command while it waits for one runs its trap only after the next `read`: what is
# abandoned is therefore never a command that is still being read. In its POSIX mode the `read` fails instead.
# Options that would break or betray the loop (-a, -e, -u, -x) hold within commands only. The inner `while` begins with
# the end of the command before, so that a `break` or `continue` of a command changes nothing.
_BASH_LOOP = r"""
exec 250<&8 251>&9 252>&1 8<&- 9>&-;
unset __touchstone_loop OLDPWD;
__touchstone_number= __touchstone_command= __touchstone_code=0 __touchstone_options=;
__touchstone_mark= __touchstone_running= __touchstone_abandoned=;
__touchstone_last() { case $- in *e*) builtin return 0;; esac; builtin return "$__touchstone_code"; };
trap 'if [[ ${__touchstone_running-} ]]; then __touchstone_abandoned=1;
  [[ ${FUNCNAME+x} ]] || builtin continue 1000; builtin return 130; fi' ABANDON;
trap : INT;
printf '\nready %s\n' "$$" >&251;
while :; do while {
  __touchstone_code=$? __touchstone_options=$__touchstone_options${-//[!aeux]/};
  builtin set +aeux;
  __touchstone_running=;
  [[ -z $__touchstone_abandoned ]] || __touchstone_code=130;
  [[ -z $__touchstone_number ]] || builtin printf '\nexit %s %s\n' "$__touchstone_number" "$__touchstone_code" >&251;
  [[ -z $__touchstone_mark ]] || builtin printf %s "$__touchstone_mark" >&252;
  __touchstone_number= __touchstone_mark= __touchstone_abandoned=;
  builtin declare +x __touchstone_code __touchstone_options;
  while :; do
    IFS=' ' builtin read -r -u 250 __touchstone_number __touchstone_mark;
    case $?/$__touchstone_number in 0/|0/*[!0-9]*) ;; 0/*) builtin break;; 1/*) builtin exit 0;; esac;
  done;
  IFS= builtin read -r -u 250 __touchstone_command || builtin exit 0;
  builtin printf -v __touchstone_command %b "$__touchstone_command";
  __touchstone_running=1;
} >/dev/null 2>&1; do
  if [[ $__touchstone_options ]];
  then builtin eval "{ builtin set -$__touchstone_options; __touchstone_options=; __touchstone_last; } >/dev/null 2>&1;
    $__touchstone_command" 250<&- 251>&- 252>&-;
  else __touchstone_last; builtin eval "$__touchstone_command" 250<&- 251>&- 252>&-; fi;
done; done
"""
# The same for any other shell, whose descriptors have one digit. It cannot abandon a command: the signal ends it.
_SH_LOOP = r"""
exec 7>&1;
unset __touchstone_loop OLDPWD;
__touchstone_number= __touchstone_mark= __touchstone_command= __touchstone_code=0 __touchstone_options=;
__touchstone_last() { case $- in *e*) return 0;; esac; return "$__touchstone_code"; };
trap : INT;
printf '\nready %s\n' "$$" >&9;
while :; do while {
  __touchstone_code=$?;
  case $- in *a*) __touchstone_options=a$__touchstone_options;; esac;
  case $- in *e*) __touchstone_options=e$__touchstone_options;; esac;
  case $- in *u*) __touchstone_options=u$__touchstone_options;; esac;
  case $- in *x*) __touchstone_options=x$__touchstone_options;; esac;
  command set +aeux;
  [ -z "$__touchstone_number" ] || command printf '\nexit %s %s\n' "$__touchstone_number" "$__touchstone_code" >&9;
  [ -z "$__touchstone_mark" ] || command printf %s "$__touchstone_mark" >&7;
  __touchstone_number= __touchstone_mark=;
  while :; do
    IFS=' ' command read -r __touchstone_number __touchstone_mark <&8 || command exit 0;
    case $__touchstone_number in ''|*[!0-9]*) ;; *) command break;; esac;
  done;
  IFS= command read -r __touchstone_command <&8 || command exit 0;
  __touchstone_command=$(command printf %b. "$__touchstone_command");
  __touchstone_command=${__touchstone_command%.};
} >/dev/null 2>&1; do
  if [ -n "$__touchstone_options" ];
  then command eval "{ command set -$__touchstone_options; __touchstone_options=; __touchstone_last; } >/dev/null 2>&1;
    $__touchstone_command" 8<&- 9>&- 7>&-;
  else __touchstone_last; command eval "$__touchstone_command" 8<&- 9>&- 7>&-; fi;
done; done
"""


def _one_line(program: str) -> bytes:
    return " ".join(line.strip() for line in program.strip().splitlines()).encode() + b"\n"


SUPERVISOR = _one_line(_SUPERVISOR)
START_SHELL = b"\nshell\n" + _one_line(_BASH_LOOP.replace("ABANDON", str(ABANDON))) + _one_line(_SH_LOOP)
