"""The gates `weak_solutions` and `other_solutions`: what looks like a solution fails, what is another one passes.

Those that every task has are made in generic.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from pipeline.admission.attempts import Attempts
from pipeline.admission.records import Gate
from pipeline.admission.verdicts import failures, passes, said
from pipeline.types import Variant
from sandbox.errors import VerifierBroken


def weak_gate(attempts: Attempts, weak: Iterable[Variant]) -> Gate:
    """Every weak solution must fail, whatever its commands' exit codes. Raises SandboxUnavailable, ImageMissing."""
    told = []
    for variant in weak:
        try:
            with ExitStack() as stack:
                judgement = attempts.judge(attempts.make(stack, variant.commands, to_the_end=True))
        except VerifierBroken as error:
            return Gate(gate="weak_solutions", passed=False, evidence=f"{variant.name}: the verifier broke: {error}")
        if passes(judgement):
            return Gate(gate="weak_solutions", passed=False, evidence=f"{variant.name} passes all tests")
        told.append(f"{variant.name}: {failures(judgement)} of {len(judgement.tests)} tests failed")
    return Gate(gate="weak_solutions", passed=True, evidence="; ".join(told) or "none is known")


def right_gate(attempts: Attempts, right: Iterable[Variant]) -> Gate:
    """Every other right solution must pass. Raises SandboxUnavailable, ImageMissing."""
    names = []
    for variant in right:
        try:
            with ExitStack() as stack:
                end = attempts.make(stack, variant.commands)
                fault = end.fault
                if not fault and not passes(judgement := attempts.judge(end)):
                    fault = said(judgement)
        except VerifierBroken as error:
            fault = f"the verifier broke: {error}"
        if fault:
            return Gate(gate="other_solutions", passed=False, evidence=f"{variant.name}: {fault}")
        names.append(variant.name)
    return Gate(gate="other_solutions", passed=True, evidence=", ".join(names) or "none is known")
