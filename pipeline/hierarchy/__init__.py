"""Long attempts as a hierarchy: sub-goals, the actions of each, and what was done so far as a short text.

path.py has the shapes. Annotators divide a path by rules or by asking a model; checks say whether one can be used.
"""
