"""Games that agents act in, each behind the protocol of game.py, and the splits of their tasks.

One file is one game; it is named in registry.py. The packages of the games are imported only in their own processes.
"""
