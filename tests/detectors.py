"""The detector of secrets that the tests share: its rules are compiled once for all workers and runs."""

from __future__ import annotations

from pathlib import Path

from pipeline.curation.secrets import Detector

DETECTOR = Detector(Path(__file__).resolve().parents[1] / ".pytest_cache" / "secret_rules")
