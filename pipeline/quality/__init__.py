"""How good the tasks are: scores of four dimensions by rules, by a model and by people, and how far these agree.

What a task has to prove is admission's (pipeline/admission); nothing here admits or rejects.
"""
