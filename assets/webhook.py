"""Posts JSON to an address that may be slow, broken or dead. What is posted is not decided here (alerts.py)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

TRIES = 3


class WebhookFailed(Exception):
    """Nobody took the message. The text never holds the address, which is often a secret by itself."""


class _NotTaken(Exception):
    """The server answered, and another try would get the same answer."""


@dataclass(frozen=True)
class Webhook:
    """One address. All tries together end within `TRIES * timeout_s + 3 * pause_s` seconds."""

    url: str
    timeout_s: float = 10.0
    """For one try as a whole, however slowly its bytes come."""
    pause_s: float = 1.0
    """Before the second try; twice as long before the third."""

    def post(self, message: Mapping[str, object]) -> None:
        """Raises WebhookFailed when three tries failed, or one was answered with a status that will stay."""
        faults = asyncio.run(self._tried(message))
        if faults:
            raise WebhookFailed("; ".join(faults))

    async def _tried(self, message: Mapping[str, object]) -> list[str]:
        """What was wrong with each try; nothing once the message is taken."""
        faults: list[str] = []
        async with httpx.AsyncClient(timeout=self.timeout_s) as client:
            for number in range(TRIES):
                if number:
                    await asyncio.sleep(self.pause_s * number)
                try:
                    await asyncio.wait_for(self._sent(client, message), self.timeout_s)
                    return []
                except _NotTaken as answer:
                    return [*faults, str(answer)]
                except TimeoutError:
                    faults.append(f"no answer within {self.timeout_s:g} s")
                except httpx.HTTPStatusError as error:
                    faults.append(str(error))
                except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                    faults.append(type(error).__name__)  # their texts may repeat the address
        return faults

    async def _sent(self, client: httpx.AsyncClient, message: Mapping[str, object]) -> None:
        # The body of the answer may have no end: only the status is waited for.
        async with client.stream("POST", self.url, json=message) as answer:
            status = answer.status_code
            if status in (408, 425, 429) or status >= 500:
                raise httpx.HTTPStatusError(f"status {status}", request=answer.request, response=answer)
            if not answer.is_success:
                raise _NotTaken(f"status {status}")
