"""Admitted tasks in the formats of other programs: one file per format, all from the rows of tasks.py.

Every export is a lossless projection: the same ids, the same number, the verifier files byte by byte.
"""
