"""Training methods, each read top to bottom: what it reads, what it fits, what it writes, which paper it follows."""
