#!/usr/bin/env bash
# Makes the peers that the sandbox benchmark measures us against and that read our exports, and runs their programs.
#
#   infra/peers.sh                    make or complete all of them (as root, about 10 minutes, then at once)
#   infra/peers.sh trainers           only the trainers (not as root, about 7 minutes)
#   infra/peers.sh enter COMMAND ...  run a command in the root of Harbor
#
# Harbor needs a newer Python than the oldest one we run on, and a compose plug-in: both come in a Debian root of their
# own, peers/root in the data folder. It shares the network and the engine of the project; peers/work has the same path
# inside and outside, since compose hands the engine paths. Mounts live in a mount namespace of their own and end with
# it, also after a kill. A step that was interrupted is repeated by the next call; steps that are done are skipped.
#
# The trainers are Python packages that agree neither with ours nor with each other: each has an environment of its own,
# peers/trainers/NAME, 1.4 to 2.1 GB with a torch for CPUs. Nothing is trained there, only their loaders are called.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PATH=$PATH:/usr/sbin:/sbin
suite=trixie
packages=ca-certificates,docker-buildx,docker-cli,docker-compose,python3,python3-venv
harbor=harbor==0.26.0
certificates=/etc/ssl/certs/touchstone.pem
torch=torch==2.13.0
trainers=(llamafactory==0.9.5 verl==0.9.1 trl==1.16.0)

say() { printf 'peers: %s\n' "$*" >&2; }
die() {
    printf 'peers: error: %s\n' "$@" >&2
    exit 1
}

# Where the data lie and what the settings say, as our own programs understand them: one value a line.
settings() {
    "$project/.venv/bin/python" -c '
from assets.resources import open_workshop
from sandbox.engine import address

workshop = open_workshop()
images, engine = workshop.bases().config, address(workshop.data)
print(workshop.data, engine.socket if engine else "", images.debian_mirror or "", images.ca_bundle or "", sep="\n")
for name, value in images.build_env.items():
    print(f"{name}={value}")'
}

# An address that pip was told, by its environment variable or its files; folders of this machine are not in the root.
pip_address() {
    local variable=PIP_${1^^} value
    variable=${variable//-/_}
    value=${!variable:-$("$project/.venv/bin/python" -m pip config get "global.$1" 2>/dev/null || true)}
    case $value in http*) echo "$variable=$value" ;; esac
}

# ------------------------------------------------------------------------------------------------------------- steps

make_root() {
    [ -e "$root/.stamp-root" ] && return
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap debian-archive-keyring"
    say "installing Debian $suite under $root, log in $peers/debootstrap.log"
    rm -rf "$root"
    # shellcheck disable=SC2086 # the mirror may be absent
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" $mirror >"$peers/debootstrap.log" 2>&1 </dev/null || {
        tail -n 5 "$peers/debootstrap.log" >&2
        die "debootstrap failed; all of its log is in $peers/debootstrap.log"
    }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    touch "$root/.stamp-root"
}

install_harbor() {
    [ "$(cat "$root/.stamp-harbor" 2>/dev/null)" = "$harbor" ] && return
    say "installing $harbor"
    # By its path: the interpreter of a half-made environment is the first on PATH.
    inside /usr/bin/python3 -m venv --clear /opt/harbor
    inside /opt/harbor/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir "$harbor" ||
        die "$harbor cannot be installed, pip says why above"
    echo "$harbor" >"$root/.stamp-harbor"
}

make_trainers() {
    local trainer
    mkdir -p "$peers/trainers"
    exec 8<"$peers/trainers"
    flock 8
    for trainer in "${trainers[@]}"; do make_trainer "$trainer" "$peers/trainers/${trainer%%=*}"; done
}

make_trainer() {
    local wanted="$torch $1" venv=$2 log=$2.log
    [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$wanted" ] && return
    say "installing $1 into $venv"
    "$project/.venv/bin/python" -m venv --clear --without-pip "$venv"
    # uv finds the torch for CPUs by itself where the world can be reached, pip where this machine says that one lies.
    uv_install --torch-backend cpu "$torch" "$1" >"$log" 2>&1 || {
        say "uv cannot do it, going on with pip"
        pip_trainer install --quiet "$torch" "$1" >>"$log" 2>&1
    } || {
        tail -n 15 "$log" >&2
        die "$1 cannot be installed, see above and $log"
    }
    # Built for another torch, they fail when they are imported, and all with them; texts need none of them.
    pip_trainer uninstall --quiet -y torchvision torchaudio >>"$log" 2>&1
    echo "$wanted" >"$venv/.stamp"
}

uv_install() {
    local index
    index=$(pip_address index-url)
    env ${index:+"UV_DEFAULT_INDEX=${index#*=}"} \
        "$project/.venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"
}

pip_trainer() {
    "$project/.venv/bin/python" -m pip --python "$venv/bin/python" --disable-pip-version-check "$@"
}

# --------------------------------------------------------------------------------------------------------- the inside

mounts() {
    local folder
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    if [ -n "$bundle" ]; then cp -L "$bundle" "$root$certificates"; fi
    for folder in "$work" "$(dirname "$socket")"; do
        mkdir -p "$folder" "$root$folder"
        mount --bind "$folder" "$root$folder"
    done
}

# Fills `clean` with all that a program in the root sees of the environment.
clean_environment() {
    local name
    clean=(PATH=/opt/harbor/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
        "DOCKER_HOST=unix://$socket" HARBOR_TELEMETRY=off)
    if [ -n "$bundle" ]; then
        for name in PIP_CERT REQUESTS_CA_BUNDLE SSL_CERT_FILE; do clean+=("$name=$certificates"); done
    fi
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        if [ -n "${!name:-}" ]; then clean+=("$name=${!name}"); fi
    done
    for name in index-url extra-index-url; do mapfile -t -O "${#clean[@]}" clean < <(pip_address "$name"); done
    clean+=("${build_env[@]}")
}

inside() { env -i "${clean[@]}" chroot "$root" "$@"; }

main() {
    if [ "${1:-}" = trainers ]; then
        peers=$("$project/.venv/bin/python" -c 'from assets.resources import open_workshop; print(open_workshop().data)')/peers
        make_trainers
        say "ready: ${trainers[*]} in $peers/trainers"
        return
    fi
    [ "$EUID" = 0 ] || die "making and entering the root of the peers needs root"
    if [ "${1:-}" != --inside ]; then exec unshare --mount -- "${BASH_SOURCE[0]}" --inside "$@"; fi
    shift
    local -a lines clean
    mapfile -t lines < <(settings)
    [ "${#lines[@]}" -ge 4 ] || die "the settings cannot be read, see above; run infra/bootstrap.sh first"
    peers=${lines[0]}/peers socket=${lines[1]} mirror=${lines[2]} bundle=${lines[3]} build_env=("${lines[@]:4}")
    root=$peers/root work=$peers/work
    [ -n "$socket" ] || die "no engine was chosen yet; run infra/bootstrap.sh first"
    if [ "${1:-}" = enter ]; then
        shift
        [ "$(cat "$root/.stamp-harbor" 2>/dev/null)" = "$harbor" ] || die "the root is not complete; run infra/peers.sh first"
        mounts
        clean_environment
        # The program takes the place of this script, so that a signal for one is a signal for the other.
        exec env -i "${clean[@]}" chroot "$root" "$@"
    fi
    mkdir -p "$peers"
    exec 9<"$peers"
    flock 9
    make_root
    mounts
    clean_environment
    install_harbor
    make_trainers
    say "ready: $(inside harbor --version) in $root, ${trainers[*]} in $peers/trainers"
}

main "$@"
