"""Text that may come from a hostile repository, as something a terminal only shows: no markup, no escape sequences."""

from rich.text import Text

MOST_CHARACTERS = 2_000
"""More of one text is cut, with a note that says how long it is."""


def visible(text: str, style: str = "") -> Text:
    """`text` with what cannot be seen, and would act on the terminal, written as in a Python string."""
    return Text(visible_text(text), style)


def visible_text(text: str) -> str:
    """The same, cut to MOST_CHARACTERS."""
    cut = text[:MOST_CHARACTERS]
    seen = "".join(one if one in "\n\t" or one.isprintable() else ascii(one)[1:-1] for one in cut)
    return seen if len(text) <= MOST_CHARACTERS else f"{seen} … ({len(text)} characters)"
