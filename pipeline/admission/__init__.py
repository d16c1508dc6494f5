"""The gates of a task, one file for each kind. Which tasks come to them, and in which order, is in instances.py."""
