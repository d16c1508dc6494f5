"""Published versions, admitted tasks and recorded attempts in the formats of other programs: one file per format.

Every export is a lossless projection: the same ids, the same number, the verifier files byte by byte; what was written
is read again before it gets its name. What starts where: tasks.py and recorded.py from the working tables, published.py
from a version, whose rows projection.py carries over and account.py counts.
"""
