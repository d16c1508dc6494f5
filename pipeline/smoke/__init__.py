"""Whether an image works: its own program or import runs in it, and its own tests pass. Start reading in check.py.

Each language has a file that finds what to try; what runs inside the image lies in `probes/`. Nothing is built here.
"""
