"""Critics find the values of a process that is known."""

from __future__ import annotations

import pytest
import torch

from training.critics import CriticConfig, Transitions, fit_iql, fit_sarsa
from training.roles import ValueHead

GAMMA = 0.9
# Two states, in each a good and a bad answer; the good one of the first leads to the second, all others end.
#   first: good -> second (0), bad -> end (0.2); second: good -> end (1), bad -> end (0)
STATES = torch.eye(2).repeat_interleave(4, dim=1)
ANSWERS = torch.eye(4).repeat_interleave(2, dim=1)


def chain(copies: int, bad: int = 1) -> Transitions:
    """Each way `copies` times, the bad answer at the second state `bad` times as often as the good one."""
    before, after, rewards, following = [], [], [], []

    def add(state: int, answer: int, reward: float, later: int) -> None:
        before.append(STATES[state])
        after.append(ANSWERS[answer])
        rewards.append(reward)
        following.append(later)

    for _ in range(copies):
        for answer, reward, times in ((2, 1.0, 1), (3, 0.0, bad)):
            for _ in range(times):
                add(0, 0, 0.0, len(rewards) + 1)
                add(1, answer, reward, -1)
        add(0, 1, 0.2, -1)
    return Transitions(torch.stack(before), torch.stack(after), torch.tensor(rewards), torch.tensor(following))


def test_iql_values_the_best_answers_that_were_given() -> None:
    config = CriticConfig(gamma=GAMMA, tau=0.98, learning_rate=1e-2, epochs=1200)
    critics = fit_iql(config, chain(8), seed=0)
    with torch.no_grad():
        quality, value = critics.quality(ANSWERS), critics.value(STATES)
    # With an expectile near 1, V is that of the best answer: 1 at the second state, 0.9 at the first.
    assert value.tolist() == pytest.approx([GAMMA, 1.0], abs=0.1)
    assert quality.tolist() == pytest.approx([GAMMA, 0.2, 1.0, 0.0], abs=0.1)
    advantages = critics.advantages(chain(1))
    assert advantages[1] > 0.0 - 0.1 and advantages[3] < -0.8


def test_an_expectile_of_a_half_values_what_was_usually_done() -> None:
    config = CriticConfig(gamma=GAMMA, tau=0.5, learning_rate=1e-2, epochs=400)
    critics = fit_iql(config, chain(8, bad=3), seed=0)
    with torch.no_grad():
        assert critics.value(STATES[1]).item() == pytest.approx(0.25, abs=0.05)


def test_sarsa_values_the_policy_that_acted() -> None:
    config = CriticConfig(gamma=GAMMA, learning_rate=1e-2, epochs=400)
    start = ValueHead(8)
    quality, slow = fit_sarsa(config, chain(8, bad=3), 0, start)
    with torch.no_grad():
        wanted = [GAMMA * 0.25, 0.2, 1.0, 0.0]
        assert quality(ANSWERS).tolist() == pytest.approx(wanted, abs=0.05)
        assert slow(ANSWERS).tolist() == pytest.approx(wanted, abs=0.05)
        assert not start(ANSWERS).any()


def test_a_fit_of_nothing_is_refused() -> None:
    nothing = Transitions(torch.zeros(0, 8), torch.zeros(0, 8), torch.zeros(0), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="no transitions"):
        fit_iql(CriticConfig(), nothing, 0)
