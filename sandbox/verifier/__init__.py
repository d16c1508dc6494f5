"""Verdicts: the interpreter that judges, and what is believed of its answer."""
