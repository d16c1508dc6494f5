"""The templates of this folder filled: one page for each attempt, and the index with its data.

A page holds its style and its script, and a policy that lets a browser take those two by their hashes and nothing
else: no other script or style, no picture, no connection, whatever a text may smuggle past the escaping. Hashes work
where a page was opened from the disk, which has no origin of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from pipeline.exports.html.attempts import Listed, Shown
from pipeline.exports.html.marks import marked, marked_line, shortened, visible_text

FOLDER = "trajectories"
"""Where the pages of the attempts lie, beside the index."""
GENERATOR = "touchstone view"

_SEARCHED_INSTRUCTION = 4_000
_SEARCHED_COMMANDS = 1_000
"""Characters of a text that the index holds to be searched in."""

_HERE = Path(__file__).parent
_JSON_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page_name(trajectory_id: str) -> str:
    """File of an attempt; an id that is no plain word is hashed."""
    plain = trajectory_id.replace("-", "").isalnum() and trajectory_id.isascii() and len(trajectory_id) <= 100
    name = trajectory_id if plain else hashlib.sha256(trajectory_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}.html"


class Pages:
    """Fills the templates."""

    def __init__(self) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "marked": marked,
            "marked_line": marked_line,
            "visible": visible_text,
            "page_name": page_name,
        }
        self._environment.globals["generator"] = GENERATOR

    def attempt(self, shown: Shown, siblings: Sequence[Listed], before: Listed | None, after: Listed | None) -> str:
        """The page of one attempt, beside the others at its instance, between its neighbours in the default order."""
        context = {"shown": shown, "siblings": siblings, "before": before, "after": after}
        return self._filled("attempt.html", "attempt.js", context)

    def index(self, data: str, subject: str, written_at: datetime) -> str:
        """The page that finds attempts. `data` is what `index_data` makes."""
        context = {"data": Markup(data), "subject": subject, "written_at": f"{written_at:%Y-%m-%d %H:%M} UTC"}
        return self._filled("index.html", "index.js", context)

    def _filled(self, template: str, script: str, context: Mapping[str, object]) -> str:
        style, code = (Markup((_HERE / name).read_text()) for name in ("style.css", script))
        policy = (
            f"default-src 'none'; script-src {_hashed(code)}; style-src {_hashed(style)}; base-uri 'none'; "
            "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        return self._environment.get_template(template).render(context, style=style, script=code, policy=policy)


def index_entry(shown: Shown) -> dict[str, object]:
    """What the index holds of an attempt, its instance left out."""
    listed, trajectory = shown.listed, shown.trajectory
    commands = "\n".join(step.action for step in trajectory.steps)
    return {
        "id": visible_text(listed.trajectory_id),
        "page": f"{FOLDER}/{page_name(listed.trajectory_id)}",
        "instance": listed.instance_id,
        "agent": visible_text(listed.agent),
        "model": visible_text(listed.model or ""),
        "verdict": visible_text(listed.verdict),
        "sample": listed.sample,
        "steps": len(trajectory.steps),
        "tokens": (shown.row["n_tokens"] or 0),
        "cost": shown.row["cost_usd"],
        "seconds": round(shown.seconds, 2),
        "stopped": trajectory.stop_reason,
        "commands": visible_text(shortened(commands, _SEARCHED_COMMANDS)),
    }


def instance_entry(shown: Shown) -> dict[str, object]:
    """What the index holds of an instance, once for all attempts at it."""
    instance, name = shown.instance, shown.repository.get("full_name")
    told = {
        "instruction": shortened(instance.instruction, _SEARCHED_INSTRUCTION) if instance else "",
        "repository": str(name or ""),
        "language": instance.language if instance else "",
        "domain": instance.domain if instance else "",
        "difficulty": instance.difficulty if instance else "",
        "family": instance.family if instance else "",
    }
    return {key: visible_text(value) for key, value in told.items()}


def index_data(entries: Sequence[object], instances: dict[str, object], lost: dict[str, int]) -> str:
    """All of the index as JSON that may stand in a script element: no `<`, only ASCII."""
    data = {"attempts": entries, "instances": instances, "lost": lost}
    return json.dumps(data, separators=(",", ":")).translate(_JSON_IN_HTML)


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
