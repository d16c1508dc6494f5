"""The webhook as Dagster resource: where alerts go, and what they may not say."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg

from assets.webhook import Webhook


class WebhookResource(dg.ConfigurableResource):
    """Where failures are told. It needs no touchstone.toml: a mistake there is one of the things to tell."""

    url: str = ""
    """Address that JSON is posted to; empty for none."""
    ui_url: str = ""
    """Address of the Dagster UI for people, without which there are no links to runs."""
    timeout_s: float = 10.0
    """For each of three tries."""

    def post(self, message: Mapping[str, object]) -> None:
        """Raises WebhookFailed."""
        Webhook(self.url, self.timeout_s).post(message)

    def scrubbed(self, text: str, secrets: Sequence[str], rules: Path) -> str:
        """The text without this address, `secrets`, and what looks like a credential.

        The detector's compiled rules are kept in the folder `rules`.
        """
        from pipeline.curation.own_host import HostFacts  # the rules take seconds to load
        from pipeline.curation.scrubbing import NotScrubbable, Planted, Replacer, find
        from pipeline.curation.secrets import Detector

        for secret in sorted({self.url, *secrets} - {""}, key=len, reverse=True):
            text = text.replace(secret, "SCRUBBED")
        text = re.sub(r"(?<=://)[^\s/@]+(?=@)", "SCRUBBED", text)
        try:
            found = find([text], planted=Planted(), host=HostFacts(), detector=Detector(rules))
        except NotScrubbable as error:
            return f"a reason that cannot be shown ({error}); see the run"
        return Replacer(one for one in found if one.kind.startswith("secret."))(text)
