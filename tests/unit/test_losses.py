"""Losses against numbers made by hand, and what padding, gradients and odd batches come to."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from training.losses import (
    awr_weights,
    clipped_policy,
    clipped_value,
    dmpo,
    dpo,
    expectile,
    gae,
    group_advantages,
    k3,
    leave_one_out,
    nll,
    per_token,
    per_turn,
    q_target,
    sequence_policy,
    token_logprobs,
    weighted_nll,
)

NAN = math.nan
HALF, FIFTH, TENTH = math.log(0.5), math.log(0.2), math.log(0.1)


def of(*values: float) -> Tensor:
    return torch.tensor(values)


def near(found: Tensor, *expected: float) -> None:
    torch.testing.assert_close(found.detach(), torch.tensor(expected, dtype=found.dtype).reshape(found.shape))


TURNS = torch.tensor([[-1, 0, 0, -1, 1], [-1, 0, -1, -1, -1]])
LOGPROBS = torch.tensor([[0.0, HALF, FIFTH, NAN, TENTH], [0.0, TENTH, NAN, NAN, NAN]])
"""Two turns, and one turn with padding behind it that holds no numbers."""


def test_a_token_is_read_from_the_logits_before_it() -> None:
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.9, 0.05, 0.05]]]))
    near(token_logprobs(logits, torch.tensor([[2, 1, 2]])), 0.0, math.log(0.25), math.log(0.7))


def test_token_logprobs_do_not_depend_on_the_size_of_logits() -> None:
    logits = torch.tensor([[[1000.0, 1001.0], [0.0, 0.0]]], dtype=torch.bfloat16)
    found = token_logprobs(logits, torch.tensor([[0, 1]]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, token_logprobs(logits.float() - 1000.0, torch.tensor([[0, 1]])))


def test_a_row_of_one_token_says_nothing() -> None:
    near(token_logprobs(torch.randn(2, 1, 5), torch.tensor([[3], [4]])), 0.0, 0.0)


def test_values_by_turn() -> None:
    near(per_turn(LOGPROBS, TURNS, 3, "sum"), math.log(0.1), TENTH, 0.0, TENTH, 0.0, 0.0)
    near(per_turn(LOGPROBS, TURNS, 3, "mean"), math.log(0.1) / 2, TENTH, 0.0, TENTH, 0.0, 0.0)


def test_rows_without_turns_are_no_turns() -> None:
    assert per_turn(LOGPROBS, torch.full_like(TURNS, -1), 0, "mean").shape == (2, 0)
    assert not per_turn(LOGPROBS, torch.full_like(TURNS, -1), 2, "mean").any()
    assert not per_token(torch.ones(2, 0), torch.full_like(TURNS, -1)).any()


def test_a_turn_that_there_is_no_place_for_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        per_turn(LOGPROBS, TURNS, 1, "sum")
    with pytest.raises(RuntimeError):
        per_token(torch.ones(2, 1), TURNS)


def test_each_token_gets_what_its_turn_has() -> None:
    near(per_token(torch.tensor([[3.0, 5.0], [7.0, 9.0]]), TURNS), 0, 3, 3, 0, 5, 0, 7, 0, 0, 0)


def test_nll_is_over_the_given_total() -> None:
    near(nll(LOGPROBS, TURNS, 4), math.log(1000) / 4)
    near(nll(LOGPROBS, TURNS, torch.tensor(8)), math.log(1000) / 8)


def test_weights_of_turns_filter_and_weigh() -> None:
    weights = torch.tensor([[0.0, 2.0], [0.5, NAN]])
    near(weighted_nll(LOGPROBS, TURNS, weights, 4), 2.5 * math.log(10) / 4)
    near(weighted_nll(LOGPROBS, TURNS, torch.ones(2, 2), 4), float(nll(LOGPROBS, TURNS, 4)))


def test_where_nothing_is_learned_the_sum_is_0_and_a_total_of_0_is_an_error() -> None:
    nothing = torch.full_like(TURNS, -1)
    assert nll(LOGPROBS, nothing, 5) == 0.0
    assert weighted_nll(LOGPROBS, nothing, torch.ones(2, 1), 5) == 0.0
    loss, seen = clipped_policy(LOGPROBS, LOGPROBS, LOGPROBS, nothing, 0.2, 0.2, 5)
    assert (loss, seen.share, seen.ratio) == (0.0, 0.0, 0.0)
    for total in (0, 0.0, torch.tensor(0), NAN):
        with pytest.raises(ValueError, match="nothing is learned"):
            nll(LOGPROBS, nothing, total)


def test_dpo_by_hand() -> None:
    # Margins 2 and 0: - log(1 / (1 + e^-1)) and log 2.
    found = dpo(of(-1.0, -3.0), of(-4.0, -3.0), of(-2.0, -1.0), of(-3.0, -1.0), beta=0.5)
    near(found, math.log(1 + math.exp(-1.0)), math.log(2.0))


def test_dmpo_by_hand() -> None:
    # phi(t, 2) for gamma 0.5 is (1 - 1/4) / (3/4) = 1 and (1 - 1/2) / (3/4) = 2/3; phi(t, 1) = 1.
    chosen, rejected = torch.tensor([[1.0, 3.0, NAN]]), torch.tensor([[0.5, NAN]])
    ref_chosen, ref_rejected = torch.tensor([[0.0, 0.0, NAN]]), torch.tensor([[0.0, NAN]])
    found = dmpo(chosen, rejected, ref_chosen, ref_rejected, torch.tensor([2]), torch.tensor([1]), 0.2, 0.5)
    near(found, math.log(1 + math.exp(-0.2 * (1.0 + 2.0 - 0.5))))


def test_dmpo_without_discount_weighs_by_what_is_left() -> None:
    lengths, zeros = torch.tensor([3]), torch.zeros(1, 3)
    margin = 3 / 3 * 1.0 + 2 / 3 * 2.0 + 1 / 3 * 6.0
    found = dmpo(torch.tensor([[1.0, 2.0, 6.0]]), zeros, zeros, zeros, lengths, lengths, 1.0, 1.0)
    near(found, math.log(1 + math.exp(-margin)))
    close = dmpo(torch.tensor([[1.0, 2.0, 6.0]]), zeros, zeros, zeros, lengths, lengths, 1.0, 1.0 - 1e-7)
    torch.testing.assert_close(close, found)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99, 1.0])
def test_dmpo_of_one_turn_is_dpo(gamma: float) -> None:
    a, b, c, d = torch.randn(4, 6)
    one = torch.ones(6, dtype=torch.int64)
    found = dmpo(a[:, None], b[:, None], c[:, None], d[:, None], one, one, 0.3, gamma)
    torch.testing.assert_close(found, dpo(a, b, c, d, 0.3))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_dmpo_takes_trajectories_without_turns(gamma: float) -> None:
    nothing, none = torch.full((1, 2), NAN), torch.tensor([0])
    near(dmpo(nothing, nothing, nothing, nothing, none, none, 0.1, gamma), math.log(2.0))


def test_group_advantages_by_hand() -> None:
    returns, groups = of(1.0, 10.0, 0.0, 20.0, 0.0), torch.tensor([7, 2, 7, 2, 7])
    near(group_advantages(returns, groups, scale=False), 2 / 3, -5.0, -1 / 3, 5.0, -1 / 3)
    low, high = math.sqrt(1 / 3) + 1e-4, math.sqrt(50.0) + 1e-4
    near(group_advantages(returns, groups, scale=True), 2 / 3 / low, -5 / high, -1 / 3 / low, 5 / high, -1 / 3 / low)


def test_leave_one_out_by_hand() -> None:
    returns, groups = of(1.0, 10.0, 0.0, 20.0, 0.5), torch.tensor([7, 2, 7, 2, 7])
    near(leave_one_out(returns, groups), 0.75, -10.0, -0.75, 10.0, 0.0)


def test_equal_returns_and_groups_of_one_have_no_advantage() -> None:
    returns, groups = of(0.1, 0.1, 0.1, 5.0, -2.0), torch.tensor([0, 0, 0, 1, 2])
    for found in (
        group_advantages(returns, groups, scale=False),
        group_advantages(returns, groups, scale=True),
        leave_one_out(returns, groups),
    ):
        assert found.tolist() == [0.0] * 5
    assert group_advantages(torch.zeros(0), torch.zeros(0, dtype=torch.int64), scale=True).shape == (0,)


def test_clipped_policy_by_hand() -> None:
    ratios = torch.tensor([[9.0, 1.5, 1.5, 0.5, 0.5, 1.1]])
    advantages = torch.tensor([[NAN, 1.0, -1.0, 1.0, -1.0, 2.0]])
    turns = torch.tensor([[-1, 0, 0, 0, 1, 1]])
    # min(r A, clip(r, 0.7, 1.2) A) = 1.2, -1.5, 0.5, -0.7, 2.2; the first and the fourth are clipped.
    loss, seen = clipped_policy(ratios.log(), torch.zeros(1, 6), advantages, turns, 0.3, 0.2, 10)
    near(loss, -(1.2 - 1.5 + 0.5 - 0.7 + 2.2) / 10)
    assert seen.share == pytest.approx(2 / 5)
    assert seen.ratio == pytest.approx((1.5 + 1.5 + 0.5 + 0.5 + 1.1) / 5)


def test_clipped_tokens_get_no_gradient() -> None:
    logprobs = torch.tensor([[9.0, 1.5, 1.5, 0.5, 0.5, 1.1]]).log().requires_grad_()
    advantages = torch.tensor([[1.0, 1.0, -1.0, 1.0, -1.0, 2.0]])
    loss, _ = clipped_policy(logprobs, torch.zeros(1, 6), advantages, torch.tensor([[-1, 0, 0, 0, 0, 0]]), 0.3, 0.2, 1)
    loss.backward()
    assert logprobs.grad is not None
    near(logprobs.grad, 0.0, 0.0, 1.5, -0.5, 0.0, -2.2)


def test_sequence_policy_by_hand() -> None:
    sums = of(1.5, 1.5, 0.5, 0.5).log().requires_grad_()
    found = sequence_policy(sums, torch.zeros(4), of(1.0, -1.0, 1.0, -1.0), 0.3, 0.2)
    near(found, -1.2, 1.5, -0.5, 0.7)
    found.sum().backward()
    assert sums.grad is not None
    near(sums.grad, 0.0, 1.5, -0.5, 0.0)


def test_ratios_beyond_all_numbers_are_finite() -> None:
    far, zeros = torch.full((1, 2), 500.0), torch.zeros(1, 2)
    loss, seen = clipped_policy(far, zeros, torch.tensor([[0.0, -1.0]]), torch.tensor([[0, 0]]), 0.2, 0.2, 2)
    assert math.isfinite(float(loss))
    assert math.isfinite(seen.ratio)
    assert sequence_policy(far[0], zeros[0], of(0.0, 1.0), 0.2, 0.2).isfinite().all()
    assert k3(-far, zeros, torch.tensor([[0, 0]])).isfinite().all()


def test_k3_by_hand() -> None:
    reference = torch.tensor([[0.0, HALF, TENTH, NAN, TENTH], [NAN, FIFTH, 0.0, 0.0, 0.0]])
    found = k3(LOGPROBS, reference, TURNS)
    near(found, 0, 0, 0.5 - math.log(0.5) - 1, 0, 0, 0, 2 - math.log(2) - 1, 0, 0, 0)


def test_k3_is_on_average_the_divergence() -> None:
    policy, reference = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.3, 0.3, 0.4]]).log()
    divergence = (policy.exp() * (policy - reference)).sum()
    torch.testing.assert_close((policy.exp() * k3(policy, reference, torch.zeros(1, 3).long())).sum(), divergence)


def test_gae_by_hand() -> None:
    rewards, values = torch.tensor([[0.0, 1.0, NAN], [1.0, NAN, NAN]]), torch.tensor([[0.5, 0.4, NAN], [0.2, 9.0, NAN]])
    advantages, returns = gae(rewards, values, torch.tensor([2, 1]), 0.9, 0.5)
    # The last: 1 - 0.4; before it: 0 + 0.9 * 0.4 - 0.5 + 0.45 * 0.6.
    near(advantages, 0.13, 0.6, 0.0, 0.8, 0.0, 0.0)
    near(returns, 0.63, 1.0, 0.0, 1.0, 0.0, 0.0)


def test_gae_at_its_ends_is_one_step_and_the_whole_return() -> None:
    rewards, values, lengths = torch.rand(3, 5), torch.rand(3, 5), torch.tensor([5, 5, 5])
    _, whole = gae(rewards, values, lengths, 0.9, 1.0)
    torch.testing.assert_close(whole[:, 0], (rewards * 0.9 ** torch.arange(5)).sum(dim=1))
    one, _ = gae(rewards, values, lengths, 0.9, 0.0)
    done = torch.tensor([False] * 4 + [True])
    following = torch.cat([values[:, 1:], torch.full((3, 1), NAN)], dim=1)
    torch.testing.assert_close(one, q_target(rewards, following, done, 0.9) - values)


def test_gae_of_episodes_without_turns() -> None:
    advantages, returns = gae(torch.full((1, 2), NAN), torch.full((1, 2), NAN), torch.tensor([0]), 0.9, 0.9)
    assert advantages.tolist() == returns.tolist() == [[0.0, 0.0]]
    assert gae(torch.zeros(2, 0), torch.zeros(2, 0), torch.tensor([0, 0]), 0.9, 0.9)[0].shape == (2, 0)


def test_an_episode_longer_than_its_rewards_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 turns and rewards for 2"):
        gae(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([1, 3]), 0.9, 0.9)


def test_clipped_value_by_hand() -> None:
    values, old, returns = of(1.0, 0.0, 3.0, NAN), of(0.0, 0.0, 3.0, NAN), of(2.0, 1.0, 2.0, NAN)
    mask = torch.tensor([True, True, True, False])
    near(clipped_value(values, old, returns, mask, None), (1.0 + 1.0 + 1.0) / 6)
    # The first is moved to 0.5 only, and (2 - 0.5)^2 is more than (2 - 1)^2.
    near(clipped_value(values, old, returns, mask, 0.5), (2.25 + 1.0 + 1.0) / 6)
    assert clipped_value(values, old, returns, torch.zeros(4, dtype=torch.bool), 0.5) == 0.0


def test_expectile_by_hand() -> None:
    near(expectile(of(2.0, -2.0, 0.0), 0.9), 3.6, 0.4, 0.0)
    near(expectile(of(2.0, -2.0), 0.5), 2.0, 2.0)


def test_the_least_expectile_loss_is_near_the_most() -> None:
    targets = of(0.0, 0.0, 0.0, 1.0)
    guesses = torch.linspace(0, 1, 101)
    losses = expectile(targets - guesses[:, None], 0.9).mean(dim=1)
    # 0.9 (1 - v) = 3 * 0.1 v.
    assert float(guesses[losses.argmin()]) == pytest.approx(0.75)


def test_awr_weights_by_hand() -> None:
    near(awr_weights(of(0.0, 1.0, -2.0, 50.0, 1e9), 2.0, 20.0), 1.0, math.exp(0.5), math.exp(-1.0), 20.0, 20.0)


def test_q_target_by_hand() -> None:
    near(q_target(of(1.0, 2.0), of(10.0, NAN), torch.tensor([False, True]), 0.9), 10.0, 2.0)
    near(q_target(of(1.0, 2.0), of(10.0, 7.0), of(0.0, 1.0), 0.9), 10.0, 2.0)


def rows(count: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log probabilities, old ones, advantages and turns of rows of different lengths, no numbers in the padding."""
    chance = torch.Generator().manual_seed(0)
    logprobs, old, advantages = torch.randn(3, count, width, generator=chance)
    turns = torch.randint(-1, 4, (count, width), generator=chance)
    behind = torch.arange(width) >= torch.randint(2, width, (count, 1), generator=chance)
    return logprobs, old.masked_fill(behind, NAN), advantages.masked_fill(behind, NAN), turns.masked_fill(behind, -1)


Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "nll": lambda new, old, advantages, turns: nll(new, turns, 17),
    "weighted": lambda new, old, advantages, turns: weighted_nll(new, turns, new.detach()[:, :4].exp(), 17),
    "clipped": lambda new, old, advantages, turns: clipped_policy(new, old, advantages, turns, 0.3, 0.2, 17)[0],
    "k3": lambda new, old, advantages, turns: k3(new, old, turns).sum(),
    "turns": lambda new, old, advantages, turns: (per_turn(new, turns, 4, "mean") ** 2).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_eight_rows_at_once_are_eight_times_one_row_without_padding(name: str) -> None:
    logprobs, old, advantages, turns = rows(8, 12)
    together = logprobs.clone().requires_grad_()
    LOSSES[name](together, old, advantages, turns).backward()
    single = logprobs.clone().requires_grad_()
    parts = []
    for row in range(8):
        until = max(int((turns[row] >= 0).nonzero().max()) + 1, 4) if (turns[row] >= 0).any() else 4
        cut = (slice(row, row + 1), slice(0, until))
        parts.append(LOSSES[name](single[cut], old[cut], advantages[cut], turns[cut]))
        parts[-1].backward()
    torch.testing.assert_close(LOSSES[name](logprobs, old, advantages, turns), torch.stack(parts).detach().sum())
    torch.testing.assert_close(together.grad, single.grad)
    assert together.grad is not None
    assert together.grad.any()
    assert not together.grad[turns < 0].any()


def test_pairs_and_episodes_at_once_are_those_one_by_one() -> None:
    chance = torch.Generator().manual_seed(1)
    a, b, c, d = torch.randn(4, 8, 6, generator=chance)
    won, lost = torch.randint(1, 7, (2, 8), generator=chance)
    pairs = [
        dmpo(*(x[i : i + 1, : won[i]] if x is a or x is c else x[i : i + 1, : lost[i]] for x in (a, b, c, d)),
             won[i : i + 1], lost[i : i + 1], 0.1, 0.8)
        for i in range(8)
    ]  # fmt: skip
    torch.testing.assert_close(dmpo(a, b, c, d, won, lost, 0.1, 0.8), torch.cat(pairs))
    advantages, returns = gae(a, b, won, 0.9, 0.8)
    for i in range(8):
        one = gae(a[i : i + 1, : won[i]], b[i : i + 1, : won[i]], won[i : i + 1], 0.9, 0.8)
        torch.testing.assert_close((advantages[i : i + 1, : won[i]], returns[i : i + 1, : won[i]]), one)
        assert not advantages[i, won[i] :].any()
        assert not returns[i, won[i] :].any()


def test_only_what_is_learned_gets_gradients() -> None:
    one, turns, mask = torch.rand(2, 3), torch.tensor([[0, 0, 1], [-1, 0, -1]]), torch.ones(2, 3, dtype=torch.bool)
    data = torch.rand(2, 3, requires_grad=True)
    lengths = torch.tensor([3, 2])
    learned = [
        weighted_nll(one.clone().requires_grad_(), turns, data, 1),
        clipped_policy(one.clone().requires_grad_(), data, data, turns, 0.2, 0.2, 1)[0],
        sequence_policy(one[0].clone().requires_grad_(), data[0], data[1], 0.2, 0.2).sum(),
        k3(one.clone().requires_grad_(), data, turns).sum(),
        dpo(one[0].clone().requires_grad_(), one[1], data[0], data[1], 0.1).sum(),
        dmpo(one.clone().requires_grad_(), one, data, data, lengths, lengths, 0.1, 0.9).sum(),
        clipped_value(one.clone().requires_grad_(), data, data, mask, 0.1),
    ]
    torch.stack(learned).sum().backward()
    assert data.grad is None
    for made in (
        *gae(data, data, lengths, 0.9, 0.9),
        awr_weights(data, 1.0, 20.0),
        q_target(data, data, mask, 0.9),
        group_advantages(data[0], turns[0], scale=True),
        leave_one_out(data[0], turns[0]),
    ):
        assert not made.requires_grad


def test_both_answers_of_a_pair_are_learned() -> None:
    chosen, rejected = torch.zeros(1, 3, requires_grad=True), torch.zeros(1, 3, requires_grad=True)
    zeros, lengths = torch.zeros(1, 3), torch.tensor([2])
    dmpo(chosen, rejected, zeros, zeros, lengths, lengths, 1.0, 0.5).sum().backward()
    assert chosen.grad is not None
    assert rejected.grad is not None
    near(chosen.grad, -0.5, -1 / 3, 0.0)
    near(rejected.grad, 0.5, 1 / 3, 0.0)


@pytest.mark.parametrize("difference", [-1.5, -0.2, 0.3, 2.0])
def test_gradient_of_the_expectile(difference: float) -> None:
    given = torch.tensor([difference], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: expectile(d, 0.7), given)
