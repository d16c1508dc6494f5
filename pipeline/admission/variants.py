"""The gates `weak_solutions` and `other_solutions`: what looks like a solution fails, what is another one passes.

Those that every task has are derived in generic.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from pipeline.admission.attempts import Attempts, EndState
from pipeline.admission.generic import Made
from pipeline.admission.records import NONE_KNOWN, Gate
from pipeline.admission.verdicts import failures, passes, said
from pipeline.types import Variant
from sandbox.errors import VerifierBroken
from sandbox.protocol import Sandbox
from sandbox.types import FrozenState


def weak_gate(attempts: Attempts, oracle: EndState, weak: Iterable[Variant | Made]) -> Gate:
    """Every weak solution must fail, whatever its commands' exit codes. Raises SandboxUnavailable, ImageMissing."""
    told = []
    for variant in weak:
        try:
            with ExitStack() as stack:
                judgement = attempts.judge(_end_of(attempts, oracle, variant, stack, to_the_end=True))
        except VerifierBroken as error:
            return Gate(gate="weak_solutions", passed=False, evidence=f"{variant.name}: the verifier broke: {error}")
        if passes(judgement):
            return Gate(gate="weak_solutions", passed=False, evidence=f"{variant.name} passes all tests")
        told.append(f"{variant.name}: {failures(judgement)} of {len(judgement.tests)} tests failed")
    return Gate(gate="weak_solutions", passed=True, evidence="; ".join(told) or NONE_KNOWN)


def right_gate(attempts: Attempts, oracle: EndState, right: Iterable[Variant | Made]) -> Gate:
    """Every other right solution must pass. Raises SandboxUnavailable, ImageMissing."""
    names = []
    for variant in right:
        try:
            with ExitStack() as stack:
                end = _end_of(attempts, oracle, variant, stack)
                fault = end.fault
                if not fault and not passes(judgement := attempts.judge(end)):
                    fault = said(judgement)
        except VerifierBroken as error:
            fault = f"the verifier broke: {error}"
        if fault:
            return Gate(gate="other_solutions", passed=False, evidence=f"{variant.name}: {fault}")
        names.append(variant.name)
    return Gate(gate="other_solutions", passed=True, evidence=", ".join(names) or NONE_KNOWN)


def _end_of(
    attempts: Attempts, oracle: EndState, variant: Variant | Made, stack: ExitStack, *, to_the_end: bool = False
) -> EndState:
    """What a variant leaves."""
    if isinstance(variant, Variant):
        return attempts.make(stack, variant.commands, to_the_end=to_the_end)
    over = oracle.left if isinstance(oracle.left, FrozenState) and not variant.untouched else None
    return attempts.make(stack, (), before=lambda sandbox: _write(sandbox, variant), over=over)


def _write(sandbox: Sandbox, made: Made) -> None:
    for mode in sorted(set(made.modes.values())):
        files = {path: content for path, content in made.files.items() if made.modes[path] == mode}
        if files:
            sandbox.put(files, mode=mode)
