"""The process that holds a local model; local_server.py starts it and says there what it is for.

It imports nothing of ours and is told everything through one argument, so that it begins at once. Its standard output
carries one line, the address; all that the engine logs goes to standard error.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
from typing import Any


def main() -> None:
    """Load the weights, say where they are served, and last until the process that started this one is gone."""
    _end_with_starter()
    said = os.dup(1)
    os.dup2(2, 1)
    server = _server(json.loads(sys.argv[1]))
    os.write(said, f"{server.listening_address}\n".encode())
    while os.read(0, 1):
        pass
    # The engine's threads have nothing to finish for anybody.
    os._exit(0)


def _end_with_starter() -> None:
    """Have the kernel end this process when the other end of standard input is closed, however that came about.

    Loading holds Python's lock, so that no thread could watch. A death signal would come with the end of the thread
    that started this process, and that may be one of many.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:
        os._exit(0)


def _server(settings: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    if "adapter" in settings:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(settings["adapter"], 1.0)]
    # The engine divides one context among its slots.
    params.n_ctx = settings["context"] * settings["slots"]
    params.n_parallel = settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = settings["cache_mb"]
    # What a request does not say stays out of the way: rows record how their tokens were chosen.
    params.sampling.top_k = 0
    params.sampling.min_p = 0.0
    params.port = 0
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
