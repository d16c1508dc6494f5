"""Comparisons of methods that act in games: `touchstone experiment NAME --arms … --seeds … --budget …`.

An arm spends a budget and is then judged on tasks; arms are the same in backbone, tasks, seeds and budget. A comparison
says which arms there are and how one of its cells is done (comparison.py). All else is shared: the plan (planning.py),
the cells (running.py), and what comes of them (results.py). Not here: studies of fine-tuning (training/studies).
"""
