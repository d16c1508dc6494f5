#!/usr/bin/env bash
# What the containers of infra/compose.yaml run.
#
#   infra/service.sh worker|webserver|daemon    the service in the foreground
#   infra/service.sh healthy SERVICE            exit code 0 when the service in this container works
#   infra/service.sh COMMAND ...                `touchstone COMMAND ...`, e.g. backup and restore
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

port=4000

healthy() {
    case $1 in
    worker)
        python -c '
import sys
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[1])
answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="DagsterApi"), timeout=10)
sys.exit(answer.status != health_pb2.HealthCheckResponse.SERVING)' "$port"
        python -c '
from pathlib import Path
from sandbox.engine import connect
connect(Path("/data"), timeout_s=10).close()'
        ;;
    webserver) python -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:3000/server_info", timeout=10)' ;;
    daemon) dagster-daemon liveness-check ;;
    *) exit 2 ;;
    esac
}

worker() {
    local target type options
    # What is not privileged may only look at its control groups, unless it may mount. Sandboxes have groups of their own.
    while read -r _ target type options _; do
        case $type:$options in cgroup*:ro*) mount -o remount,bind,rw "$target" ;; esac
    done </proc/self/mounts
    infra/bootstrap.sh engine
    # Creates the tables of the storage; the others wait until this service is healthy.
    python -c 'from assets.resources import open_workshop; open_workshop().dagster_instance()'
    # An engine that ended is started again, and its proxy too.
    while sleep 30; do infra/bootstrap.sh engine || true; done &
    # Runs are processes of this server: they start where the engine is.
    exec dagster api grpc --host 0.0.0.0 --port "$port" --module-name assets.definitions
}

case ${1:-} in
worker) worker ;;
webserver) exec dagster-webserver --host 0.0.0.0 --port 3000 --workspace infra/workspace.yaml ;;
daemon) exec dagster-daemon run --workspace infra/workspace.yaml ;;
healthy) healthy "${2:-}" ;;
*) exec touchstone "$@" ;;
esac
