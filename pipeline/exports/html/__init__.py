"""Trajectories of the working tables as a folder of web pages that any browser opens from the disk, without a network.

`site.py` writes the folder, `attempts.py` reads the rows, `pages.py` fills the templates beside it, and `marks.py`
makes hostile text harmless and visible. Every text comes from repositories, models and sandboxes: none is trusted.

Not here: how a trajectory looks in a terminal (assets/show.py), and the formats of other programs.
"""
