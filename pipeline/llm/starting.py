"""Waits for a server that somebody is starting: large weights take minutes, and what asks meanwhile would fail."""

from __future__ import annotations

import logging
import time

import httpx

from pipeline.errors import ConfigurationError
from pipeline.llm.openai_server import loopback

logger = logging.getLogger(__name__)

_PAUSE_S = 1.0
_TRY_S = 10.0


def wait_for_server(base_url: str, timeout_s: float) -> None:
    """Return when the server answers, whatever it says to one without a key. Raises ConfigurationError after the time.

    Servers listen, and answer with errors of their own, before their weights are loaded: those are no answers.
    """
    until = time.monotonic() + timeout_s
    told = False
    while True:
        try:
            status = httpx.get(f"{base_url}/models", timeout=_TRY_S, trust_env=not loopback(base_url)).status_code
            fault = f"status {status}"
            if status < 500:
                return
        except httpx.HTTPError as error:
            fault = f"{type(error).__name__}: {error}"
        if time.monotonic() >= until:
            raise ConfigurationError(
                f"[model] base_url: {base_url} does not answer within {timeout_s:g} s ({fault}); start the server "
                "(infra/serve.sh), or raise start_timeout_s"
            )
        if not told:
            logger.warning("waiting up to %.0f s for the model at %s", timeout_s, base_url)
            told = True
        time.sleep(min(_PAUSE_S, max(0.0, until - time.monotonic())))
