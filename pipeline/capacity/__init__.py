"""What a larger run takes, from what a recorded one took: `touchstone plan`.

measures.py says what was measured and how well, recorded.py takes it from a data folder, planning.py has the formula.
What one run of agents over admitted instances takes is rollout_plan.py's.
"""
