"""Which machine takes the next item."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

import pipeline.slots
from pipeline.slots import NoMachine, Slots


def of(**machines: int) -> Slots:
    slots = Slots()
    slots.there(machines)
    return slots


def test_items_go_where_most_slots_are_free_and_no_machine_gets_more_than_it_has() -> None:
    slots = of(large=3, small=1)
    with ExitStack() as stack:
        taken = [stack.enter_context(slots.take(None, 0.0)) for _ in range(4)]
        assert sorted(taken) == ["large", "large", "large", "small"]
        assert taken[:2] == ["large", "large"]
        got: list[str] = []

        def wait() -> None:
            with slots.take(None, 0.0) as name:
                got.append(name)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.1)
        assert got == [] and slots.total() == 4
    waiting.join(10)
    assert len(got) == 1


def test_an_item_waits_for_the_machine_that_has_what_it_needs_while_others_are_free() -> None:
    slots = of(holder=1, other=5)
    with slots.take("holder", 0.0):
        got: list[str] = []

        def wait() -> None:
            with slots.take("holder", 0.0) as name:
                got.append(name)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.1)
        assert got == []
    waiting.join(10)
    assert got == ["holder"]


def test_an_item_goes_anywhere_when_the_machine_that_had_what_it_needs_is_gone() -> None:
    slots = of(holder=1, other=1)
    slots.lost("holder")
    with slots.take("holder", 0.0) as name:
        assert name == "other"


def test_a_machine_that_fails_one_item_after_the_other_rests_longer_and_longer_until_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline.slots, "REST_S", 0.05)
    slots = of(broken=8, sound=1)
    slots.failed("broken")
    slots.failed("broken")  # another one that was at work there at the same time
    with slots.take(None, 0.0) as name:
        assert name == "sound"
    time.sleep(0.06)
    with slots.take(None, 0.0) as name:
        assert name == "broken"
    slots.failed("broken")
    time.sleep(0.06)
    with slots.take(None, 0.0) as name:
        assert name == "sound"
    slots.worked("broken")
    with slots.take(None, 0.0) as name:
        assert name == "broken"


def test_a_machine_that_joins_is_used_by_who_waits() -> None:
    slots = of()
    threading.Timer(0.05, lambda: slots.there({"late": 2})).start()
    with slots.take(None, 30.0) as name:
        assert name == "late"


def test_a_machine_that_comes_back_still_has_at_work_what_it_had() -> None:
    slots = of(one=1)
    with slots.take(None, 0.0):
        slots.there({})
        slots.there({"one": 1, "two": 1})
        with slots.take(None, 0.0) as name:
            assert name == "two"


def test_waiting_for_the_first_machine_ends() -> None:
    with pytest.raises(NoMachine, match=r"for 0\.05 s"), of().take(None, 0.05):
        pass
