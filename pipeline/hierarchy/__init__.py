"""Long attempts as a hierarchy: sub-goals, the actions of each, and what was done so far as a short text.

path.py has the shapes. Annotators divide a path by rules or by asking a model; checks say whether one can be used.
attempts.py makes paths of published attempts, annotated.py brings their annotations beside them, and rows.py makes the
rows of data sets of both, whose columns are in columns.py and whose card is in card.py.
"""
