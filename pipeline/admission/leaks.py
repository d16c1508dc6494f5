"""The gate `no_solution_text`: the instruction does not say how. What lies in the image is in image_search.py."""

from __future__ import annotations

import re

from pipeline.admission.records import Gate
from pipeline.types import TaskInstance

MIN_LEAK_CHARACTERS = 14


def leak_gate(instance: TaskInstance) -> Gate:
    """No command line of the solution stands in the instruction."""
    said = _squeeze(instance.instruction)
    for step in instance.solution:
        if "<<" in step:
            step = step.split("<<", 1)[0]
        for line in step.split("\n"):
            bare = _squeeze(re.sub(r"\s*>{1,2}\s*\S+\s*$", "", line))
            if len(bare) >= MIN_LEAK_CHARACTERS and " " in bare.strip() and bare in said:
                return Gate(gate="no_solution_text", passed=False, evidence=f"the instruction contains: {bare[:120]}")
    return Gate(gate="no_solution_text", passed=True, evidence=f"none of {len(instance.solution)} commands is in it")


def _squeeze(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())
