"""Limits of the hub, and tokens: what is waited for, how long, and what ends a run with a remedy."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.sources.github_client import HubClient
from pipeline.sources.github_limits import REFUSALS
from tests.github_server.limits import Fault
from tests.github_server.rest import node_id
from tests.github_server.world import World
from tests.unit.crawled_hub import Hub, hub

SEARCH = "/search/repositories"
QUESTION = {"q": "language:Go"}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path, World(40)) as one:
        yield one


@pytest.mark.parametrize("status", [403, 429])
def test_retry_after_is_waited_for(small: Hub, status: int) -> None:
    small.limits.faults.append(
        Fault("search", status, {"Retry-After": "7"}, "You have exceeded a secondary rate limit")
    )
    assert small.client().get(SEARCH, QUESTION).status == 200
    assert sum(small.clock.waits) == 7


def test_a_429_that_says_nothing_is_waited_for_longer_each_time(small: Hub) -> None:
    small.limits.faults.append(Fault("search", 429, times=3))
    assert small.client().get(SEARCH, QUESTION).status == 200
    assert sum(small.clock.waits) == 60 + 120 + 240


def test_a_secondary_limit_is_known_by_its_words(small: Hub) -> None:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    small.limits.faults.append(Fault("search", 403, message=message))
    assert small.client().get(SEARCH, QUESTION).status == 200
    assert sum(small.clock.waits) == 60


def test_a_budget_that_is_used_up_is_waited_for_before_the_hub_has_to_refuse(small: Hub) -> None:
    small.limits.budgets["search"] = (3, 600.0)
    client = small.client()
    for _ in range(7):
        assert client.get(SEARCH, QUESTION).status == 200
    assert 403 not in {status for _, _, status in small.server.requests}
    assert 1_100 <= sum(small.clock.waits) <= 1_210


def test_the_budgets_of_search_and_of_the_rest_are_apart(small: Hub) -> None:
    small.limits.budgets["search"] = (1, 60.0)
    client = small.client()
    client.get(SEARCH, QUESTION)
    assert client.get("/repositories/1").status == 200
    assert small.clock.waits == []


def test_graphql_says_its_limit_with_status_200(small: Hub) -> None:
    body = b'{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}'
    small.limits.faults.append(Fault("graphql", 200, {"Retry-After": "9"}, body=body))
    answer = small.client().graphql("query($ids: [ID!]!) { nodes(ids: $ids) { databaseId } }", {"ids": [node_id(3)]})
    assert answer.data["data"]["nodes"] == [{"databaseId": 3}]
    assert sum(small.clock.waits) == 9


@pytest.mark.parametrize("silent", [True, False])
def test_a_limit_that_never_resets_ends_with_a_remedy(small: Hub, silent: bool) -> None:
    small.limits.budgets["search"] = (0, 60.0)
    small.limits.stuck, small.limits.silent = True, silent
    with pytest.raises(InfrastructureFailure, match=r"limit for search requests does not reset.*set TOKENS"):
        small.client().get(SEARCH, QUESTION)
    assert len(small.server.requests) == REFUSALS


def test_a_token_whose_limit_never_resets_leaves_the_work_to_the_others(
    small: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    small.limits.faults.append(Fault("search", 403, {"Retry-After": "1"}, times=-1, token="one"))
    client = small.client("one", "two")
    small.limits.budgets["search"] = (5, 60.0)
    for _ in range(30):
        assert client.get(SEARCH, QUESTION).status == 200
    assert f"token 1 was refused {REFUSALS} times in a row" in caplog.text


def test_a_limit_that_resets_too_late_ends_at_once_with_the_setting(small: Hub) -> None:
    small.limits.budgets["search"] = (0, 90_000.0)
    with pytest.raises(InfrastructureFailure, match=r"resets only in 90,00\d s.*sources.github.max_wait_s"):
        small.client().get(SEARCH, QUESTION)
    assert small.clock.waits == []


@pytest.mark.parametrize("years", [-30, 10])
def test_a_clock_that_is_wrong_by_years_changes_no_wait(small: Hub, years: int) -> None:
    small.server.skew_s = years * 365 * 86_400.0
    small.limits.budgets["search"] = (1, 600.0)
    client = small.client()
    client.get(SEARCH, QUESTION)
    client.get(SEARCH, QUESTION)
    assert 550 <= sum(small.clock.waits) <= 605


def test_a_clock_of_the_hub_that_jumps_ends_the_run_and_does_not_hang(small: Hub) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"}
    small.limits.faults.append(Fault("search", 403, headers, "API rate limit exceeded", times=-1))
    with pytest.raises(InfrastructureFailure, match="resets only in"):
        small.client().get(SEARCH, QUESTION)


@pytest.mark.parametrize("reset", ["soon", "nan", "inf", ""])
def test_headers_that_are_no_numbers_do_not_end_the_run(small: Hub, reset: str) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    small.limits.faults.append(Fault("search", 200, headers, body=b"{}"))
    assert small.client().get(SEARCH, QUESTION).status == 200
    assert small.clock.waits == [1]


def test_tokens_take_turns_and_one_that_is_used_up_is_not_waited_for(small: Hub) -> None:
    small.limits.budgets["search"] = (5, 600.0)
    client = small.client("one", "two", "three")
    for _ in range(15):
        client.get(SEARCH, QUESTION)
    assert small.clock.waits == []
    client.get(SEARCH, QUESTION)
    assert sum(small.clock.waits) >= 550


def test_threads_share_the_tokens_without_passing_a_budget(small: Hub) -> None:
    small.limits.budgets["search"] = (20, 3600.0)
    client = small.client("one", "two")
    threads = [threading.Thread(target=lambda: [client.get(SEARCH, QUESTION) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(status for _, _, status in small.server.requests) == {200: 40}


def test_a_token_that_dies_leaves_the_work_to_the_others(small: Hub, caplog: pytest.LogCaptureFixture) -> None:
    client = small.client("one", "two")
    client.get(SEARCH, QUESTION)
    small.limits.tokens = frozenset({"two"})
    for _ in range(4):
        assert client.get(SEARCH, QUESTION).status == 200
    assert [status for _, _, status in small.server.requests].count(401) == 1
    assert "token 1 is not accepted (401: Bad credentials); 1 left" in caplog.text


def test_a_token_whose_account_is_suspended_is_dead(small: Hub, caplog: pytest.LogCaptureFixture) -> None:
    message = "Sorry. Your account was suspended."
    small.limits.faults.append(Fault("search", 403, message=message, times=-1, token="one"))
    client = small.client("one", "two")
    assert [client.get(SEARCH, QUESTION).status for _ in range(4)] == [200] * 4
    assert "token 1 is not accepted (403" in caplog.text


def test_without_any_token_left_the_run_ends_with_the_remedy(small: Hub) -> None:
    small.limits.tokens = frozenset()
    with pytest.raises(ConfigurationError, match="accepts none of the tokens any more; set TOKENS"):
        small.client("one", "two").get(SEARCH, QUESTION)


def test_no_token_at_all_is_a_mistake_of_the_configuration(small: Hub) -> None:
    with pytest.raises(ConfigurationError, match="needs a token; set TOKENS"):
        HubClient([], small.server.base_url, remedy="set TOKENS", max_wait_s=1)


def test_a_base_url_without_a_scheme_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"sources\.github\.base_url"):
        HubClient([SecretStr("x")], "hub.example.com", remedy="set TOKENS", max_wait_s=1)


def test_a_token_is_never_logged(small: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    small.limits.tokens = frozenset({"token-of-secrets"})
    small.limits.faults.append(Fault("search", 502, message="Bad Gateway"))
    small.client("token-that-died", "token-of-secrets").get(SEARCH, QUESTION)
    assert caplog.records and "token-of-secrets" not in caplog.text and "token-that-died" not in caplog.text


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b'{"message": "Server Error"}'])
def test_a_server_that_fails_a_few_times_is_asked_again(small: Hub, body: bytes) -> None:
    small.limits.faults.append(Fault("search", 502, body=body, times=3))
    assert small.client().get(SEARCH, QUESTION).status == 200
    assert small.clock.waits == [1, 2, 4]


def test_an_answer_that_is_cut_is_asked_for_again(small: Hub) -> None:
    small.limits.faults.append(Fault("search", 200, body=b'{"total_count": 4, "ite'))
    assert small.client().get(SEARCH, QUESTION).data["total_count"] >= 0


def test_a_server_that_goes_on_failing_is_a_fault_of_the_infrastructure(small: Hub) -> None:
    small.limits.faults.append(Fault("search", 502, body=b"<html>", times=-1))
    with pytest.raises(InfrastructureFailure, match=r"failed 6 times in a row at /search/repositories"):
        small.client().get(SEARCH, QUESTION)


def test_a_hub_that_is_not_there_is_a_fault_of_the_infrastructure(small: Hub) -> None:
    client = HubClient([SecretStr("x")], "http://127.0.0.1:9/api/v3", remedy="", max_wait_s=1, clock=small.clock)
    with pytest.raises(InfrastructureFailure, match="cannot be reached"):
        client.get(SEARCH, QUESTION)


def test_an_answer_that_is_known_costs_nothing(small: Hub) -> None:
    small.limits.budgets["core"] = (2, 3600.0)
    client = small.client()
    etag = client.get("/repositories/1").headers["etag"]
    assert [client.get("/repositories/1", etag=etag).status for _ in range(5)] == [304] * 5
    small.world.push(1)
    assert client.get("/repositories/1", etag=etag).status == 200
    assert small.clock.waits == []


def test_a_redirect_to_another_host_is_not_followed(small: Hub) -> None:
    location = {"Location": "http://localhost:9/api/v3/repositories/2"}
    small.limits.faults.append(Fault("repositories/1", 301, location, "Moved Permanently"))
    assert small.client().get("/repositories/1").status == 301


def test_a_redirect_within_the_hub_is_followed(small: Hub) -> None:
    small.world.rename(1, "other")
    answer = small.client().get(f"/repos/{small.world.first_name(1)}")
    assert (answer.status, answer.data["full_name"]) == (200, small.world.full_name(1))


def test_an_error_ends_the_waits_of_all_threads(small: Hub) -> None:
    small.limits.budgets["search"] = (0, 3_000.0)
    tokens = [SecretStr("one"), SecretStr("two")]
    client = HubClient(tokens, small.server.base_url, remedy="", max_wait_s=4_000)  # by the clock of this machine
    with pytest.raises(ZeroDivisionError), client.pool("test") as pool:
        waiting = pool.submit(client.get, SEARCH, QUESTION)
        while len(small.server.requests) < 2:
            time.sleep(0.01)
        raise ZeroDivisionError
    assert isinstance(waiting.exception(timeout=0), InfrastructureFailure)
    assert client.get("/repositories/1").status == 200
