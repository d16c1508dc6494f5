"""Failed runs told to a webhook: what is said, by which runs, and what a webhook that does not work costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap

from assets.alerts import MAX_REASON, failure_alerts
from assets.resources import webhook_of_environment
from assets.webhook import Webhook, WebhookFailed
from assets.webhook_resource import WebhookResource
from pipeline.errors import ConfigurationError
from tests.unit.webhook_server import ENDLESS, GARBAGE, OK, SILENCE, WebhookServer, status, webhook_server

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


REASON = "[images] base_image: no such image; name another one"


@dg.op(config_schema={"text": dg.Field(str, default_value=REASON)})
def broken(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads annotations, and cannot read late ones
    raise ConfigurationError(context.op_config["text"])


@dg.resource
def dead(_: object) -> None:
    raise ConfigurationError("no engine answers")


@dg.op(required_resource_keys={"dead"})
def never_reached() -> None:
    """Its resource cannot be made."""


@dg.op
def fine() -> None:
    """Nothing fails."""


@dg.job
def main() -> None:
    broken()


@dg.job
def unready() -> None:
    never_reached()


@dg.job
def good() -> None:
    fine()


DEFS = dg.Definitions(jobs=[main, unready, good], resources={"dead": dead}, sensors=[failure_alerts])


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as one:
        yield one


class Daemon:
    """Ticks the sensor as the daemon does, with its cursor."""

    def __init__(self, instance: dg.DagsterInstance, webhook: WebhookResource) -> None:
        self._instance = instance
        self._webhook = webhook
        self._cursor: str | None = None
        self.tick()

    def tick(self) -> str | None:
        """What the UI shows on the tick; a fault of the sensor fails the test."""
        context = dg.build_sensor_context(
            self._instance,
            cursor=self._cursor,
            repository_def=DEFS.get_repository_def(),
            resources={"webhook": self._webhook},
        )
        data = failure_alerts.evaluate_tick(context)
        self._cursor = data.cursor
        assert [one.error.to_string() for one in data.dagster_run_reactions or () if one.error] == []
        return data.skip_message


def fail(instance: dg.DagsterInstance, job: str = "main", text: str | None = None, **tags: str) -> str:
    config = {"ops": {"broken": {"config": {"text": text}}}} if text else {}
    result = DEFS.resolve_job_def(job).execute_in_process(
        instance=instance, run_config=config, tags=tags, raise_on_error=False
    )
    return result.run_id


def test_a_failed_run_is_told_once_with_its_step_and_reason_in_our_words(instance: dg.DagsterInstance) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url, ui_url="https://ui.example.com/"))
        run_id = fail(instance, **{"dagster/partition": "2026-11-05|go"})
        fail(instance, "good")
        assert daemon.tick() == f"told the webhook that run {run_id} failed"
        daemon.tick()
    (message,) = server.messages
    link = f"https://ui.example.com/runs/{run_id}"
    assert message == {
        "text": f"Touchstone: main failed at broken for 2026-11-05|go: {REASON} {link}",
        "job": "main",
        "run_id": run_id,
        "partition": "2026-11-05|go",
        "step": "broken",
        "reason": REASON,
        "url": link,
    }


def test_a_range_of_partitions_is_named_by_its_ends_and_without_an_address_there_is_no_link(
    instance: dg.DagsterInstance,
) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        ends = {
            "dagster/asset_partition_range_start": "2026-11-05|go",
            "dagster/asset_partition_range_end": "2026-11-05|c",
        }
        fail(instance, **ends)
        daemon.tick()
    assert (server.messages[0]["partition"], server.messages[0]["url"]) == ("2026-11-05|go to 2026-11-05|c", None)


def test_a_run_that_fails_before_its_first_step_is_told_too(instance: dg.DagsterInstance) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        fail(instance, "unready")
        daemon.tick()
    assert server.messages[0]["step"] is None and "no engine answers" in str(server.messages[0]["reason"])


def test_a_run_that_was_killed_is_told_when_it_is_marked_as_failed(instance: dg.DagsterInstance) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        run = instance.create_run_for_job(DEFS.resolve_job_def("main"), status=dg.DagsterRunStatus.STARTED)
        instance.report_run_failed(run, "its process is gone")
        daemon.tick()
    assert (server.messages[0]["run_id"], server.messages[0]["reason"]) == (run.run_id, "its process is gone")


def test_what_failed_while_no_daemon_ran_is_told_afterwards_one_a_tick(instance: dg.DagsterInstance) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        runs = [fail(instance), fail(instance)]
        daemon.tick()
        assert len(server.messages) == 1
        daemon.tick()
    assert [message["run_id"] for message in server.messages] == runs


def test_no_secret_leaves_with_a_reason(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOUCHSTONE_GITHUB_TOKENS", "first-token-9f8e,second-token-7d6c")
    monkeypatch.setenv("TOUCHSTONE_MODEL_KEY", "sk-model-key-11aa22bb")
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        known = f"second-token-7d6c sk-model-key-11aa22bb {server.url}"
        fail(instance, text=f"git fetch https://me:hunter2secret@hub.example failed: {TOKEN} {known}")
        daemon.tick()
    told = str(server.messages[0])
    for secret in ("hunter2secret", TOKEN, "S3CR3T", *known.split()):
        assert secret not in told
    assert "git fetch https://" in told and "failed" in told


def test_a_long_reason_is_cut(instance: dg.DagsterInstance) -> None:
    with webhook_server(OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        fail(instance, text="a word and " * 1_000)
        daemon.tick()
    assert len(str(server.messages[0]["reason"])) == MAX_REASON + 2


def test_without_a_webhook_nothing_is_told_and_nothing_fails(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOUCHSTONE_WEBHOOK_URL", raising=False)
    daemon = Daemon(instance, webhook_of_environment())
    fail(instance)
    assert "TOUCHSTONE_WEBHOOK_URL names nobody" in str(daemon.tick())


def test_the_addresses_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOUCHSTONE_WEBHOOK_URL", "https://hooks.example/S3CR3T")
    defs = dg.Definitions(jobs=[good], resources={"webhook": webhook_of_environment()})
    shown = [one.configured_values for one in RepositorySnap.from_def(defs.get_repository_def()).resources or ()]
    assert "TOUCHSTONE_WEBHOOK_URL" in str(shown) and "S3CR3T" not in str(shown)
    with dg.build_resources({"webhook": webhook_of_environment()}) as made:
        assert made.webhook.url == "https://hooks.example/S3CR3T"


def test_a_dead_webhook_is_said_on_the_tick_and_the_next_failure_is_told(instance: dg.DagsterInstance) -> None:
    with webhook_server(status(410), OK) as server:
        daemon = Daemon(instance, WebhookResource(url=server.url))
        first, second = fail(instance), fail(instance)
        said = daemon.tick()
        assert said == f"nobody was told that run {first} failed: the webhook does not take it (status 410)"
        daemon.tick()
    assert server.messages[-1]["run_id"] == second


def post(server: WebhookServer, timeout_s: float = 10.0) -> None:
    Webhook(server.url, timeout_s, pause_s=0.01).post({"text": "x"})


@pytest.mark.parametrize("first", [status(500), status(503), status(429), GARBAGE])
def test_what_may_pass_is_tried_again(first: bytes) -> None:
    with webhook_server(first, OK) as server:
        post(server)
    assert server.requests == 2 and server.messages[1] == {"text": "x"}


def test_a_try_that_nobody_answers_ends_and_is_followed_by_another() -> None:
    with webhook_server(SILENCE, OK) as server:
        post(server, timeout_s=1.0)
    assert server.requests >= 2


def test_an_answer_without_an_end_is_an_answer() -> None:
    with webhook_server(ENDLESS) as server:
        post(server)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("answer", "said", "tries"),
    [
        (status(500), "status 500; status 500; status 500", 3),
        (status(404), "status 404", 1),
        (status(302), "status 302", 1),
        (GARBAGE, "RemoteProtocolError; RemoteProtocolError; RemoteProtocolError", 3),
    ],
)
def test_what_does_not_pass_is_given_up_with_a_reason_that_holds_no_address(
    answer: bytes, said: str, tries: int
) -> None:
    with webhook_server(answer) as server, pytest.raises(WebhookFailed) as caught:
        post(server)
    assert (str(caught.value), server.requests) == (said, tries)


def test_a_server_that_says_nothing_is_given_up_after_three_tries() -> None:
    with webhook_server(SILENCE) as server, pytest.raises(WebhookFailed) as caught:
        post(server, timeout_s=0.2)
    assert str(caught.value) == "; ".join(["no answer within 0.2 s"] * 3)


@pytest.mark.parametrize(
    ("url", "said"), [("http://127.0.0.1:9/S3CR3T", "ConnectError"), ("S3CR3T", "UnsupportedProtocol")]
)
def test_an_address_where_nobody_is_is_given_up(url: str, said: str) -> None:
    with pytest.raises(WebhookFailed, match=said) as caught:
        Webhook(url, pause_s=0.01).post({})
    assert "S3CR3T" not in str(caught.value) and caught.value.__context__ is None
