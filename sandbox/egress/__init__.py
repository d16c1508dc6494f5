"""The only way out of our engine: an allow-list proxy, and what a driver says to it and learns from it.

The engine itself, in a network namespace without any other way out, is started by infra/engine.sh.
"""
