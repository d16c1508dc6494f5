"""The methods that others are compared with, one file each, on the course that all are given (course.py)."""
