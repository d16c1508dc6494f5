"""Links from the Dagster UI to the pages of attempts.

A browser opens no file for a page that came over http, and pages that show texts of strangers do not belong to the
origin that can start runs. So the links lead to `touchstone view --serve`, on a port of its own.
"""

from pathlib import Path

import dagster as dg

from assets.view import VIEWER_PORT
from pipeline.exports.html.pages import FOLDER, page_name

_VIEWER = f"http://127.0.0.1:{VIEWER_PORT}"


def attempt_link(trajectory_id: str, text: str) -> str:
    """Markdown; `text` is Markdown already."""
    return f"[{text}]({_VIEWER}/{FOLDER}/{page_name(trajectory_id)})"


def viewer_link(data: Path) -> dg.MetadataValue:
    """The index of all attempts, and what has to run for the link to work."""
    return dg.MetadataValue.md(f"[all attempts]({_VIEWER}/), while `touchstone view --serve --data {data}` runs")
