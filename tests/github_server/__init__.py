"""A hub of repositories over loopback that behaves like the real one where a crawler can tell the difference.

`world.py` says what exists (computed from a seed), `search.py`, `rest.py` and `graphql.py` answer about it, `limits.py`
refuses, `objects.py` and `git_http.py` serve the repositories themselves, `server.py` binds them to a port. As a
process of its own: `python -m tests.github_server --repositories N --seed S`.
"""
