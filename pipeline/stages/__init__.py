"""One file per stage: which rows are its items, what is done with one, which rows come of it.

A stage reads tables, maps its work over the items with `run_stage`, and returns the report. How the work itself is
done lives in the rooms above; stages never call each other, they meet in the tables.
"""
