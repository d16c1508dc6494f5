"""How work, its items and what comes of them get into another process and back.

What belongs to one machine (its engine, its sandboxes, a connection) does not travel: it is named on one side, and the
thing of that name is taken on the other. Errors come back as what they are as far as the batch tells them apart.

Not here: the other processes (cluster.py).
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Callable

import cloudpickle

from pipeline.batch import BrokenOff
from pipeline.errors import ConfigurationError, FailedElsewhere, InfrastructureFailure, ItemRejected, place_of
from sandbox.errors import SandboxUnavailable

NameOf = Callable[[object], str | tuple[str, object] | None]
"""The name of a thing that stays where it is; None for what travels. Raises ConfigurationError for what cannot."""
Named = Callable[[object], object]
"""The thing of that name here."""

_NAMED = (InfrastructureFailure, SandboxUnavailable, ConfigurationError)
"""What the batch tells apart, besides ItemRejected. Anything else is unknown to it."""


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, name_of: NameOf) -> None:
        super().__init__(file)
        self._name_of = name_of

    def persistent_id(self, thing: object) -> object:
        return self._name_of(thing)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, named: Named) -> None:
        super().__init__(file)
        self._named = named

    def persistent_load(self, name: object) -> object:
        return self._named(name)


def pack(thing: object, name_of: NameOf) -> bytes:
    """A value, or a function with all that it refers to. Raises what `name_of` raises, TypeError for what cannot go."""
    file = io.BytesIO()
    _Packer(file, name_of).dump(thing)
    return file.getvalue()


def unpack(packed: bytes, named: Named) -> object:
    """What was packed. Raises what `named` raises."""
    return _Unpacker(io.BytesIO(packed), named).load()


def answer(call: Callable[[], object]) -> bytes:
    """What a call gave, or what it raised, for `read`."""
    try:
        return bytes(cloudpickle.dumps((call(), None)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - raised again by `read`
        return bytes(cloudpickle.dumps((None, _portable(error))))


def read(answered: bytes) -> object:
    """What a call gave elsewhere. Raises what it raised, or FailedElsewhere in its place."""
    given, error = pickle.loads(answered)
    if error is not None:
        raise error
    return given


def _portable(error: BaseException) -> Exception:
    """The error, or what stands for it on the other side."""
    if isinstance(error, BrokenOff):
        return BrokenOff(_portable(error.cause), error.rows)
    if isinstance(error, ItemRejected):
        return ItemRejected(error.failure_class, error.reason)
    for kind in _NAMED:
        if isinstance(error, kind):
            return error if _survives(error) else kind(str(error))
    made = FailedElsewhere(f"{type(error).__name__}: {error}", place_of(error))
    made.add_note("".join(traceback.format_exception(error)))
    return made


def _survives(error: Exception) -> bool:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its class does there
        return False
    return type(again) is type(error) and str(again) == str(error)
