#!/usr/bin/python3
"""adduser and addgroup as busybox has them; calls in Debian's manner go on to Debian's own. Runs in images."""

import getopt
import os
import subprocess
import sys


def main(program, words):
    if any(word.startswith("--") for word in words):
        os.execv(f"/usr/sbin/{program}", [program, *words])
    given, names = getopt.gnu_getopt(words, "h:g:s:G:SDHu:k:")
    options = dict(given)
    if program == "addgroup":
        return add_group(options, names)
    return add_user(options, names)


def add_group(options, names):
    if len(names) == 2:
        return subprocess.run(["usermod", "-aG", names[1], names[0]]).returncode
    command = ["groupadd", *(["--system"] if "-S" in options else [])]
    command += ["--gid", options["-g"]] if "-g" in options else []
    return subprocess.run([*command, *names]).returncode


def add_user(options, names):
    if len(names) == 2:
        return subprocess.run(["usermod", "-aG", names[1], names[0]]).returncode
    command = ["useradd", *(["--system"] if "-S" in options else [])]
    command += ["--no-create-home"] if "-H" in options else ["--create-home"]
    pairs = {"-h": "--home-dir", "-g": "--comment", "-s": "--shell", "-u": "--uid", "-k": "--skel"}
    command += [word for short, long in pairs.items() if short in options for word in (long, options[short])]
    if "-G" in options:
        command += ["--gid", options["-G"]]
    elif "-S" in options:
        command += ["--gid", "nogroup"]
    else:
        command += ["--user-group"]
    return subprocess.run([*command, *names]).returncode


if __name__ == "__main__":
    sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
