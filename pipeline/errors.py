"""Failures of the pipeline, by what may be concluded from them (never one exception for two of these)."""


class PipelineError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigurationError(PipelineError):
    """A mistake in the configuration. The only error that stops a run; its text names the setting and the remedy."""


class ItemRejected(PipelineError):
    """The item itself is at fault (too large, not readable …): a row with this reason, never tried again by itself."""

    def __init__(self, failure_class: str, reason: str) -> None:
        super().__init__(f"{failure_class}: {reason}")
        self.failure_class = failure_class
        self.reason = reason


class InfrastructureFailure(PipelineError):
    """The network, a registry or a disk failed: no label, no reward; `--retry infrastructure` tries again."""
