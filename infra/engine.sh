# Finds, starts and ends the Docker engine of one data folder. Read by bootstrap.sh, which sets the variables
#   root     the project        key      hash of the data folder          socket   of our engine, in run
#   data     the data folder    run      run folder of our engine
#   python   an interpreter of the system, without our packages
# and the functions say and die.
#
# Our engine lives in a network namespace of its own that has no way out: a bridge for its containers, and nothing else.
# What it pulls and what builds download comes through a proxy, which listens in that namespace and connects from the
# machine's own; who may reach what is decided there (sandbox/egress). Nothing on the machine's network is changed.
# shellcheck shell=bash disable=SC2154

answers() {
    "$python" -I -S - "$1" 2>/dev/null <<'PYTHON'
import socket, sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(5)
    connection.connect(sys.argv[1])
    connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
    sys.exit(b" 200 " not in connection.recv(64))
PYTHON
}

# Prints one field of engine.json; nothing when the file is absent or broken.
recorded() {
    "$python" -I -S - "$data/engine.json" "$1" 2>/dev/null <<'PYTHON' || true
import json, sys

value = json.load(open(sys.argv[1]))[sys.argv[2]]
print(value if isinstance(value, str) else json.dumps(value))
PYTHON
}

record() {
    "$python" -I -S - "$1" "$2" "$data/egress" >"$data/engine.json.new" <<'PYTHON'
import json, sys

socket, owned, egress = sys.argv[1:]
ours = {"egress": egress} if owned == "true" else {}
print(json.dumps({"socket": socket, "owned": bool(ours)} | ours))
PYTHON
    mv "$data/engine.json.new" "$data/engine.json"
}

# Succeeds when engine.json names an engine that answers, after choosing a foreign one if need be.
engine_found() {
    local candidate reason
    candidate=$(recorded socket)
    # Our images are in our own engine: once there is one, it is started again and never swapped for another.
    if [ "$(recorded owned)" = true ]; then
        answers "$candidate" && egress_served || return
        # An older file does not name the folder of the proxy.
        if [ -z "$(recorded egress)" ]; then record "$candidate" true; fi
        return
    fi
    if [ -n "$candidate" ] && answers "$candidate"; then return 0; fi
    case ${DOCKER_HOST:-} in
    '') ;;
    unix://*)
        candidate=${DOCKER_HOST#unix://}
        if answers "$candidate"; then record "$candidate" false; return 0; fi
        say "DOCKER_HOST is $DOCKER_HOST, where no engine answers; looking further"
        ;;
    *) die "DOCKER_HOST is $DOCKER_HOST; sandboxes need an engine on this machine, so unset it or name a unix:// socket" ;;
    esac
    # The engine of the system lets builds reach whatever the machine reaches: one of our own is better.
    reason=$(unfitness)
    if [ -z "$reason" ]; then return 1; fi
    candidate=/var/run/docker.sock
    if [ -S "$candidate" ] && [ ! -w "$candidate" ]; then
        die "$candidate is there, and you may not use it; join the group docker (usermod -aG docker NAME) or run as root"
    fi
    if answers "$candidate"; then
        say "using the engine at $candidate, where builds are not kept from the network; none of our own: ${reason%%$'\n'*}"
        record "$candidate" false
        return 0
    fi
    return 1
}

# Why no engine of our own can run here, and the remedies, one a line; nothing when one can.
unfitness() {
    if [ "$(uname -s)" != Linux ]; then
        printf '%s\n' "no Docker engine answers; start one and call again (a private one needs Linux)"
        return
    fi
    if [ "$EUID" != 0 ]; then
        printf '%s\n' "no Docker engine answers, and only root can start one" \
            "install one (Debian/Ubuntu: apt-get install docker.io) and join the group docker, or run this script as root"
        return
    fi
    # The layers of an engine are an overlay file system, and overlays cannot be nested.
    case $(stat -f -c %T "$data") in
    overlayfs | overlay)
        printf '%s\n' "$data is on overlayfs, where an engine cannot keep images" \
            "name a folder on another disk with --data or TOUCHSTONE_DATA (in a container: a mounted volume)"
        return
        ;;
    esac
    if ! unshare --mount --net true 2>/dev/null; then
        printf '%s\n' "root may not make namespaces here (a container without privileges?)" \
            "start the container with --privileged, or hand it the socket of an engine at /var/run/docker.sock"
        return
    fi
    # A command in a container starts at the root of the container's mount namespace. For the containers of an engine in
    # a chroot that is the root of the machine, with everything on it.
    if [ "$(nsenter --mount=/proc/self/ns/mnt stat -c %d:%i / 2>/dev/null)" != "$(stat -c %d:%i /)" ]; then
        printf '%s\n' "this is a chroot, where the commands of a container would run outside of it" \
            "call this outside of the chroot, or hand it the socket of an engine at /var/run/docker.sock"
    fi
}

refuse_unfit_machine() {
    local -a reasons
    mapfile -t reasons < <(unfitness)
    if [ ${#reasons[@]} -gt 0 ]; then die "${reasons[@]}"; fi
}

# Processes of our engine, known by our run folder in their command line (the pattern comes by a pipe, so that grep
# does not find itself): the engine, its containerd, one shim for each container, and the proxy.
engine_processes() {
    local file program
    # shellcheck disable=SC2013,SC2062 # no spaces in these paths; they are files and no pattern
    for file in $(grep -alsF --file=- /proc/[0-9]*/cmdline <<<"$run/"); do
        program=$(tr '\0' '\n' <"$file" 2>/dev/null | head -n 1 || true)
        case ${program##*/} in
        dockerd | containerd | containerd-shim*) ;;
        python*) grep -qsaF sandbox.egress.proxy "$file" || continue ;;
        *) continue ;;
        esac
        basename "$(dirname "$file")"
    done
}

# The first process of each container is a child of its shim; the others end with it.
end_containers() {
    local pid child
    for pid in $(engine_processes); do
        grep -qsa containerd-shim "/proc/$pid/cmdline" || continue
        for child in $(cat "/proc/$pid/task/"*/children 2>/dev/null || true); do
            kill -9 "$child" 2>/dev/null || true
        done
    done
}

# What a killed engine left running. A new one has its own mount namespace and could not use it.
end_leftovers() {
    local pid
    end_containers
    for pid in $(engine_processes); do
        kill -9 "$pid" 2>/dev/null || true
    done
}

# The engine's end of its bridge, as in sandbox/egress/egress.py. Each engine has a network to itself, so all have the same.
gateway=198.18.0.1
proxy_port=3128

# Runs as `bash -c` in mount and network namespaces of the engine's own, which end with it: nothing is left on the machine.
# shellcheck disable=SC2016 # expanded there
mounting='
set -eu
while read -r type options target; do
    if [ -z "$type" ]; then continue; fi
    mkdir -p "$target"
    mount -t "$type" -o "$options" "$type" "$target"
done <<<"$1"
shift
'
# shellcheck disable=SC2016 # expanded there
groups_gone=$mounting'
find /sys/fs/cgroup -depth -type d -path "*/$1*" -exec rmdir {} + 2>/dev/null || true
[ -z "$(find /sys/fs/cgroup -type d -name "$1" -print -quit)" ]
'
# shellcheck disable=SC2016 # expanded there
inside=$mounting'
# In a container with control groups version 2 no process may stay in the group that hands out controllers.
groups=/sys/fs/cgroup
if [ -e "$groups/cgroup.type" ] && ! grep -qw memory "$groups/cgroup.subtree_control"; then
    mkdir -p "$groups/init"
    while read -r pid; do echo "$pid" >"$groups/init/cgroup.procs" || true; done <"$groups/cgroup.procs"
    sed "s/[^ ]*/+&/g" "$groups/cgroup.controllers" >"$groups/cgroup.subtree_control"
fi
# The engine would share the containerd of a system-wide engine, and that one its names, if it saw it.
if [ -d /run/containerd ]; then mount -t tmpfs tmpfs /run/containerd; fi
ip link set lo up
ip link add touchstone type bridge
ip address add "$bridge_address/24" dev touchstone
ip link set touchstone up
# Containers meet neither over the bridge, whose only reachable end is ours, nor by way of it.
ebtables -P FORWARD DROP
iptables -P FORWARD DROP
# What asks for an address without the proxy is told at once that there is no way, however often it asks.
echo 0 >/proc/sys/net/ipv4/icmp_ratelimit
cd /
exec "$@"
'

start_engine() {
    local mounts pid waited registry proxy
    local -a options=()
    end_leftovers
    # As after a reboot: from what a killed engine left there, a new one would call for containers that are gone.
    # What it remembers of its networks would win over the bridge that is made for it now.
    rm -rf "$run" "$data/docker/network"
    mkdir -p "$run" "$data/docker" "$data/egress"
    make_token
    proxy=http://engine:$(cat "$data/egress/token")@$gateway:$proxy_port
    registry=$(head -n 1 "$data/egress/registry" 2>/dev/null || true)
    if [ -n "$registry" ]; then options+=(--insecure-registry "$registry"); fi
    mounts=$(cgroup_mounts)
    # Settings in /etc/docker/daemon.json are for another engine, and clash with ours.
    echo '{}' >"$run/daemon.json"
    say "starting an engine, log in $data/docker.log"
    # Signals that a caller ignores would stay ignored in every container, and lock files open in the engine. Names are
    # the proxy's work: at the gateway no name server answers, which tells a program so at once.
    bridge_address=$gateway HTTP_PROXY=$proxy HTTPS_PROXY=$proxy NO_PROXY='' \
        setsid env --default-signal -u http_proxy -u https_proxy -u no_proxy -u all_proxy -u ALL_PROXY \
        unshare --mount --net --propagation slave bash -c "$inside" inside "$mounts" \
        dockerd --config-file "$run/daemon.json" --host "unix://$socket" --data-root "$data/docker" \
        --exec-root "$run/exec" --pidfile "$run/docker.pid" --storage-driver overlay2 \
        --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/touchstone-$key" \
        --bridge touchstone --iptables=false --ip6tables=false --ip-masq=false \
        --dns "$gateway" "${options[@]}" \
        >"$data/docker.log" 2>&1 </dev/null 8>&- 9>&- &
    pid=$!
    for ((waited = 0; waited < 300; waited++)); do
        if [ -S "$socket" ] && answers "$socket"; then
            start_proxy
            record "$socket" true
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$data/docker.log" >&2
    stop_engine
    die "the engine did not start; the end of its log is above, all of it in $data/docker.log"
}

# With it our own recipes and the engine itself are known to the proxy. It outlives the engine, not the data folder.
make_token() {
    local token=$data/egress/token
    if [ -s "$token" ]; then return; fi
    (
        umask 077
        "$python" -c 'import secrets; print(secrets.token_hex(16))' >"$token.new"
    )
    mv "$token.new" "$token"
}

start_proxy() {
    local waited pid
    # One that an interrupted call started, and that does not serve yet.
    for pid in $(engine_processes); do
        if grep -qsaF sandbox.egress.proxy "/proc/$pid/cmdline"; then kill -9 "$pid" 2>/dev/null || true; fi
    done
    rm -f "$run/proxy.pid"
    # In the machine's own namespaces, and with its own proxy settings.
    (
        cd "$root" || exit 1
        exec setsid env --default-signal "$python" -B -m sandbox.egress.proxy --folder "$data/egress" \
            --engine "$(cat "$run/docker.pid")" --ready "$run/proxy.pid" --listen "$gateway:$proxy_port"
    ) >"$data/egress/proxy.log" 2>&1 </dev/null 8>&- 9>&- &
    for ((waited = 0; waited < 100; waited++)); do
        if proxy_runs; then return; fi
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$data/egress/proxy.log" >&2
    die "the proxy of the engine did not start; the end of its log is above, all of it in $data/egress/proxy.log"
}

proxy_runs() {
    local pid
    pid=$(cat "$run/proxy.pid" 2>/dev/null || true)
    [ -n "$pid" ] && grep -qsaF -- "$run/proxy.pid" "/proc/$pid/cmdline"
}

# Mounts that the engine needs and this machine lacks, one a line.
cgroup_mounts() {
    (cd "$root" && "$python" -B -c '
from pathlib import Path
from sandbox.cgroups import missing_mounts
for mount in missing_mounts(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()):
    print(mount.type, mount.options, mount.target)')
}

# Whether the engine that answers has its proxy, or is from before there was one and shares the machine's network.
egress_served() {
    local pid
    if proxy_runs; then return; fi
    pid=$(cat "$run/docker.pid" 2>/dev/null || true)
    [ -n "$pid" ] && [ "$(readlink "/proc/$pid/ns/net")" = "$(readlink /proc/self/ns/net)" ]
}

ensure_engine() (
    local waited
    exec 9<"$data"
    flock 9
    if engine_found; then return; fi
    refuse_unfit_machine
    # A busy engine may be slow to answer, and its containers must not pay for that.
    for ((waited = 0; waited < 30; waited++)); do
        engine_runs || break
        if answers "$socket"; then
            if ! egress_served; then start_proxy; fi
            record "$socket" true
            return
        fi
        sleep 1
    done
    if engine_runs; then die "our engine runs and does not answer; \"infra/bootstrap.sh down\" ends it"; fi
    start_engine
)

engine_runs() {
    local pid
    pid=$(cat "$run/docker.pid" 2>/dev/null || true)
    [ -n "$pid" ] && grep -qsaF -- "$data/docker" "/proc/$pid/cmdline"
}

# Ends the engine that was started for this data folder, and nothing else.
stop_engine() {
    local waited
    if engine_runs; then
        # The engine would give each container ten seconds to end by itself.
        end_containers
        kill "$(cat "$run/docker.pid")"
        for ((waited = 0; waited < 300; waited++)); do
            engine_runs || break
            sleep 0.1
        done
    fi
    end_leftovers
    remove_groups
    rm -rf "$run"
}

# The control groups of the engine's containers, of which a killed one leaves some. They go once their processes are gone.
remove_groups() {
    local mounts waited
    mounts=$(cgroup_mounts)
    for ((waited = 0; waited < 50; waited++)); do
        unshare --mount bash -c "$groups_gone" groups "$mounts" "touchstone-$key" && break
        sleep 0.1
    done
}
