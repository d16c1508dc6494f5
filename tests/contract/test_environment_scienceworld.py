"""ScienceWorld with all that is in sight at each step."""

from __future__ import annotations

from training.environments.looked_at import looked_at_paths


def test_what_is_in_sight_is_on_the_path_and_takes_no_action() -> None:
    paths = list(looked_at_paths(2))
    assert len(paths) == 2
    for path in paths:
        first, last = path.steps[0], path.steps[-1]
        assert first.observation.startswith("This room is called") and "In your inventory" in first.observation
        assert all(step.result == later.observation for step, later in zip(path.steps, path.steps[1:], strict=False))
        assert last.score == 1.0 and sum(step.reward for step in path.steps) > 0.99
