"""Whatever a version holds: what trainers take is carried whole, all else is refused, and nothing is lost."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.hostile_rows import Chat, verified_row, version_of
from tests.unit.test_exports import FORMS

CONVERSATIONS = [name for name, form in FORMS.items() if form.chat]

texts = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    ["<|im_start|>", "<|im_end|>\n", "\r\n", "\u2028", "\x00", "\ud83e\udd89", "\udcff", "", "\n"]
)
"""Halves of characters among them."""
roles = st.sampled_from(["system", "user", "assistant", "tool", "function"])
anything = st.lists(st.fixed_dictionaries({"role": roles, "content": texts}), max_size=6)
questions = st.fixed_dictionaries({"role": st.just("user"), "content": texts})
answers = st.fixed_dictionaries({"role": st.just("assistant"), "content": texts})
alternating = st.lists(st.tuples(questions, answers), min_size=1, max_size=4).map(
    lambda pairs: [message for pair in pairs for message in pair]
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(anything | alternating, min_size=1, max_size=5), alternating)
def test_no_conversation_is_lost_and_none_is_changed(odd: list[Chat], plain: Chat) -> None:
    good = [{"role": one["role"], "content": "a"} for one in plain if one is not None]
    chats = [*odd, good]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = [verified_row(str(at), chat=[]) | {"messages": chat} for at, chat in enumerate(chats)]
        version = version_of(folder / "v", rows)
        stored = {row["trajectory_id"]: row for row in pq.read_table(version.path / "data").to_pylist()}
        for name in CONVERSATIONS:
            form = FORMS[name]
            made = form.write(version, folder / name)
            back = form.back(folder / name)
            assert all(back[identity] == form.of(stored[identity]) for identity in back)
            assert len(back) + made.refused == len(chats)
            marked = {"control_tokens"} if name == "megatron" else set()
            taken = sum(map(alternates, chats)) - sum(made.rules.get(rule, 0) for rule in marked)
            assert len(back) == taken


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(texts, min_size=1, max_size=5))
def test_no_task_is_lost_and_none_is_changed(found: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = [
            verified_row(f"{at}", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
            for at, text in enumerate(found)
        ]
        version = version_of(folder / "v", rows)
        stored = {row["instance_id"]: row for row in pq.read_table(version.path / "data").to_pylist()}
        for name in ("verl", "skyrl", "harbor"):
            form = FORMS[name]
            assert form.write(version, folder / name).refused == 0
            assert form.back(folder / name) == {key: form.of(row) for key, row in stored.items()}


def alternates(chat: Chat) -> bool:
    """The rule once more, in other words: pairs of a question and an answer, behind a system prompt or none."""
    letters = "".join("?" if one is None else one["role"][0] for one in chat)
    return re.fullmatch("s?ua([ut]a)*", letters) is not None
