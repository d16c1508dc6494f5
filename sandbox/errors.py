"""The ways a sandbox can fail.

A command that fails or times out is *not* here: it is an `ExecResult`. These exceptions mean that our own
machinery failed, so nothing about the task may be concluded from them.
"""


class SandboxError(Exception):
    """Base of everything this package raises on purpose."""


class SandboxUnavailable(SandboxError):
    """The engine or the container is gone, unreachable or out of resources. Worth another try, with backoff."""


class ImageMissing(SandboxError):
    """The image named by a digest is not in the engine. Building it again is the remedy."""


class VerifierBroken(SandboxError):
    """The verifier crashed, ran no test or answered nothing readable. No verdict may be drawn from it."""


class ImageUnusable(SandboxError):
    """The image cannot hold a sandbox, for example because it has no shell. Trying again does not help."""
