"""Experiments that train and evaluate: one file for each, found by its name (`touchstone experiment NAME`).

A study says which arms there are and which rows each learns from. All else is shared: the plan, fixed before the first
model sees a row (planning.py), its cells one after the other (running.py), and what comes of their lines (results.py).
"""
