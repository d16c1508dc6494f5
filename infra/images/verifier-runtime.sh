#!/bin/bash
# Assembles the verifier runtime in $1 from the Python installed here. Runs inside a build of verifier-runtime.Dockerfile.
set -euo pipefail
target=$1
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "$target/bin" "$target/lib" "$target/site"

cp "$(readlink -f "$(command -v python3)")" "$target/bin/python3"
cp -r "$library" "$target/lib/"
stdlib="$target/lib/$(basename "$library")"
rm -rf "$stdlib"/{test,idlelib,tkinter,turtledemo,lib2to3,ensurepip,dist-packages} "$stdlib"/config-*
# Its libraries bring a whole family with plug-in folders of their own.
rm -f "$stdlib"/lib-dynload/nis.*
cp -r /usr/lib/python3/dist-packages/. "$target/site/"
cp /build/verifier_runner.py "$target/runner.py"
mkdir -p "$target/site/sandbox/verifier"
cp /build/verifier_guards.py /build/verifier_conditions.py "$target/site/sandbox/verifier/"

# Every shared library that the interpreter and its extension modules need, one that glibc opens by name, and the loader
# under one name for all machines.
find "$target/bin" "$stdlib/lib-dynload" -type f -exec ldd {} + 2>/dev/null \
  | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | xargs -I{} cp -L {} "$target/lib/"
cp -L "$(gcc -print-file-name=libgcc_s.so.1)" "$target/lib/"
cp -L "$(ldd "$target/bin/python3" | awk '$1 ~ /ld-linux/ {print $1}')" "$target/lib/ld.so"
python3 /build/patch.py "$target/lib"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -static -s -o "$target/bin/launch" /build/launch.c

# The interpreter looks for its library in an archive first: an empty one leaves no place for another.
python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1], "w").close()' "$target/lib/$(basename "$library" | tr -d .).zip"
# What OPENSSL_CONF names.
: > "$target/empty"

# Compiled once, and never checked against times: these files are read-only and every verdict starts an interpreter.
find "$target" -name __pycache__ -prune -exec rm -rf {} +
python3 -m compileall -q --invalidation-mode unchecked-hash "$stdlib" "$target/site" "$target/runner.py"
"$target/lib/ld.so" --inhibit-cache --library-path "$target/lib" "$target/bin/python3" -I -S -B -c \
  'import bz2, ctypes, decimal, hashlib, lzma, sqlite3, ssl, sys, zlib; sys.path.append(sys.argv[1]); import pytest' "$target/site"
cd "$target"
find . -type f ! -name MANIFEST | sort | xargs -d '\n' sha256sum > MANIFEST
chmod -R a+rX .
