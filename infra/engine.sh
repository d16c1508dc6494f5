# Finds, starts and ends the Docker engine of one data folder. Read by bootstrap.sh, which sets the variables
#   root     the project        key      hash of the data folder          socket   of our engine, in run
#   data     the data folder    run      run folder of our engine         bridge   network device of our engine
#   python   an interpreter of the system, without our packages
# and the functions say and die.
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
    "$python" -c 'import json, sys; print(json.dumps({"socket": sys.argv[1], "owned": sys.argv[2] == "true"}))' \
        "$1" "$2" >"$data/engine.json.new"
    mv "$data/engine.json.new" "$data/engine.json"
}

# Succeeds when engine.json names an engine that answers, after choosing a foreign one if need be.
engine_found() {
    local candidate
    candidate=$(recorded socket)
    if [ -n "$candidate" ] && answers "$candidate"; then return 0; fi
    # Our images are in our own engine: once there is one, it is started again and never swapped for another.
    if [ "$(recorded owned)" = true ]; then return 1; fi
    case ${DOCKER_HOST:-} in
    '') ;;
    unix://*)
        candidate=${DOCKER_HOST#unix://}
        if answers "$candidate"; then record "$candidate" false; return 0; fi
        say "DOCKER_HOST is $DOCKER_HOST, where no engine answers; looking further"
        ;;
    *) die "DOCKER_HOST is $DOCKER_HOST; sandboxes need an engine on this machine, so unset it or name a unix:// socket" ;;
    esac
    candidate=/var/run/docker.sock
    if [ -S "$candidate" ] && [ ! -w "$candidate" ]; then
        die "$candidate is there, and you may not use it; join the group docker (usermod -aG docker NAME) or run as root"
    fi
    if answers "$candidate"; then record "$candidate" false; return 0; fi
    return 1
}

refuse_unfit_machine() {
    [ "$(uname -s)" = Linux ] || die "no Docker engine answers; start one and call again (a private one needs Linux)"
    [ "$EUID" = 0 ] || die "no Docker engine answers, and only root can start one" \
        "install one (Debian/Ubuntu: apt-get install docker.io) and join the group docker, or run this script as root"
    # The layers of an engine are an overlay file system, and overlays cannot be nested.
    case $(stat -f -c %T "$data") in
    overlayfs | overlay) die "$data is on overlayfs, where an engine cannot keep images" \
        "name a folder on another disk with --data or TOUCHSTONE_DATA (in a container: a mounted volume)" ;;
    esac
    unshare --mount true 2>/dev/null || die "root may not make namespaces here (a container without privileges?)" \
        "start the container with --privileged, or hand it the socket of an engine at /var/run/docker.sock"
    # A command in a container starts at the root of the container's mount namespace. For the containers of an engine in
    # a chroot that is the root of the machine, with everything on it.
    [ "$(nsenter --mount=/proc/self/ns/mnt stat -c %d:%i / 2>/dev/null)" = "$(stat -c %d:%i /)" ] ||
        die "this is a chroot, where the commands of a container would run outside of it" \
            "call this outside of the chroot, or hand it the socket of an engine at /var/run/docker.sock"
}

# Processes of our engine, known by our run folder in their command line (the pattern comes by a pipe, so that grep
# does not find itself): the engine, its containerd and one shim for each container.
engine_processes() {
    local file program
    # shellcheck disable=SC2013,SC2062 # no spaces in these paths; they are files and no pattern
    for file in $(grep -alsF --file=- /proc/[0-9]*/cmdline <<<"$run/"); do
        program=$(tr '\0' '\n' <"$file" 2>/dev/null | head -n 1 || true)
        case ${program##*/} in dockerd | containerd | containerd-shim*) basename "$(dirname "$file")" ;; esac
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

# One of 512 small networks in the range reserved for tests of network equipment, which no real network uses; the
# first free one, counted from our hash. Routes wider than /8 are those of a VPN for everything: no hindrance.
free_subnet() {
    ip -4 route show table all | "$python" -c '
import ipaddress, re, sys

used = [ipaddress.ip_network(word, strict=False) for word in re.findall(r"\d+\.\d+\.\d+\.\d+(?:/\d+)?", sys.stdin.read())]
subnets = list(ipaddress.ip_network("198.18.0.0/15").subnets(new_prefix=24))
first = int(sys.argv[1], 16) % len(subnets)
for subnet in subnets[first:] + subnets[:first]:
    if not any(subnet.overlaps(network) for network in used if network.prefixlen >= 8):
        print(subnet)
        break
' "$key"
}

drop_rules() {
    local table rule
    for table in nat filter; do
        iptables -w -t "$table" -S 2>/dev/null | grep -F -- " $bridge " | sed 's/^-A/-D/' | while read -r rule; do
            # shellcheck disable=SC2086 # the words of one rule
            iptables -w -t "$table" $rule
        done || true
    done
}

drop_bridge() {
    drop_rules
    if ip link show "$bridge" >/dev/null 2>&1; then ip link delete "$bridge"; fi
}

# The engine is told to leave the firewall alone: it would flush the chains of any other engine on this machine.
make_bridge() {
    local subnet
    drop_bridge
    subnet=$(free_subnet)
    [ -n "$subnet" ] || die "no free address range in 198.18.0.0/15 for the bridge of the engine"
    ip link add "$bridge" type bridge
    ip address add "${subnet%.0/24}.1/24" dev "$bridge"
    ip link set "$bridge" up
    iptables -w -t nat -I POSTROUTING -s "$subnet" ! -o "$bridge" -j MASQUERADE
    iptables -w -I FORWARD -i "$bridge" ! -o "$bridge" -j ACCEPT
    iptables -w -I FORWARD -o "$bridge" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
}

# Runs as `bash -c` in a mount namespace of the engine's own, which ends with it: no mount is left on the machine.
# shellcheck disable=SC2016 # expanded there
inside='
set -eu
while read -r type options target; do
    if [ -z "$type" ]; then continue; fi
    mkdir -p "$target"
    mount -t "$type" -o "$options" "$type" "$target"
done <<<"$1"
shift
# In a container with control groups version 2 no process may stay in the group that hands out controllers.
groups=/sys/fs/cgroup
if [ -e "$groups/cgroup.type" ] && ! grep -qw memory "$groups/cgroup.subtree_control"; then
    mkdir -p "$groups/init"
    while read -r pid; do echo "$pid" >"$groups/init/cgroup.procs" || true; done <"$groups/cgroup.procs"
    sed "s/[^ ]*/+&/g" "$groups/cgroup.controllers" >"$groups/cgroup.subtree_control"
fi
# The engine would share the containerd of a system-wide engine, and that one its names, if it saw it.
if [ -d /run/containerd ]; then mount -t tmpfs tmpfs /run/containerd; fi
cd /
exec "$@"
'

start_engine() {
    local mounts pid waited
    end_leftovers
    # As after a reboot: from what a killed engine left there, a new one would call for containers that are gone.
    rm -rf "$run"
    mkdir -p "$run" "$data/docker"
    (
        flock 7
        make_bridge
    ) 7>/run/touchstone.lock
    mounts=$(cd "$root" && "$python" -B -c '
from pathlib import Path
from sandbox.cgroups import missing_mounts
for mount in missing_mounts(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()):
    print(mount.type, mount.options, mount.target)')
    # Settings in /etc/docker/daemon.json are for another engine, and clash with ours.
    echo '{}' >"$run/daemon.json"
    say "starting an engine, log in $data/docker.log"
    # Signals that a caller ignores would stay ignored in every container, and lock files open in the engine.
    setsid env --default-signal unshare --mount --propagation slave bash -c "$inside" inside "$mounts" \
        dockerd --config-file "$run/daemon.json" --host "unix://$socket" --data-root "$data/docker" \
        --exec-root "$run/exec" --pidfile "$run/docker.pid" --storage-driver overlay2 \
        --bridge "$bridge" --iptables=false --ip6tables=false \
        >"$data/docker.log" 2>&1 </dev/null 8>&- 9>&- &
    pid=$!
    for ((waited = 0; waited < 300; waited++)); do
        if [ -S "$socket" ] && answers "$socket"; then
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

ensure_engine() (
    local waited
    exec 9<"$data"
    flock 9
    if engine_found; then return; fi
    refuse_unfit_machine
    # A busy engine may be slow to answer, and its containers must not pay for that.
    for ((waited = 0; waited < 30; waited++)); do
        engine_runs || break
        if answers "$socket"; then record "$socket" true; return; fi
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
    drop_bridge
    rm -rf "$run"
}
