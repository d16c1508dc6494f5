"""Losses and estimates of the training methods as pure functions of tensors.

Shapes: B rows of T tokens, N turns of a row at most, E episodes or answers, P pairs, V words. `turns` [B, T] has for
each token the number of the turn that it is learned in, -1 where it is given or padding. What stands outside of the
turns, or behind an episode's end, never counts and may be anything, so a batch is the sum of its rows.

Numbers have 32 bits at least. What is data here gets no gradient: old and reference log probabilities, weights,
advantages, targets. Logarithms are natural ones.

Not here: models (training/backbone.py), which rows are learned from and when (training/methods).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

_MOST_EXPONENT = 80.0
"""e to this is about the largest number of 32 bits: beyond it a ratio is infinite, and 0 times it is no number."""
_LEAST_DEVIATION = 1e-4
"""Added to a standard deviation that is divided by, as trl does."""


@dataclass(frozen=True)
class Clipping:
    """What a clipped objective did to the tokens that it was made of; both 0 where there was none."""

    share: float
    """Of the tokens, those that got no gradient since their ratio had left the interval."""
    ratio: float
    """Mean of new / old probability."""


def token_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """log p(ids[t] | ids[<t]) [B, T] of logits [B, T, V] and ids [B, T]; 0 for the first token, which nothing says."""
    each = torch.log_softmax(_wide(logits[:, :-1]), dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    return functional.pad(each, (1, 0))


def per_turn(values: Tensor, turns: Tensor, n_turns: int, reduce: Literal["sum", "mean"]) -> Tensor:
    """Values of tokens [B, T] by turn [B, n_turns]: their sum or their mean; 0 for a turn without tokens.

    Raises RuntimeError for a turn that is not below `n_turns`.
    """
    # The first column takes what belongs to no turn.
    wide, places = _wide(values), turns + 1
    sums = wide.new_zeros(len(turns), n_turns + 1).scatter_add(1, places, wide)
    if reduce == "mean":
        sums = sums / torch.zeros_like(sums).scatter_add(1, places, torch.ones_like(wide)).clamp(min=1)
    return sums[:, 1:]


def per_token(by_turn: Tensor, turns: Tensor) -> Tensor:
    """What a turn has [B, N], for each of its tokens [B, T]; 0 outside of turns."""
    return functional.pad(_wide(by_turn), (1, 0)).gather(1, turns + 1)


def nll(logprobs: Tensor, turns: Tensor, total: float | Tensor) -> Tensor:
    """- (1 / total) * sum of log p [B, T] over learned tokens. `total` is that of all batches of a step.

    Raises ValueError when `total` is not above 0.
    """
    return _over(-_only(logprobs, turns >= 0).sum(), total)


def weighted_nll(logprobs: Tensor, turns: Tensor, weights: Tensor, total: float | Tensor) -> Tensor:
    """- (1 / total) * sum of w[turn] * log p [B, T] over learned tokens, weights [B, N].

    Weights of `awr_weights` make it advantage-weighted regression (Peng et al. 2019), weights of 0 and 1 filtered
    behaviour cloning. Raises ValueError when `total` is not above 0.
    """
    return _over(-(per_token(weights.detach(), turns) * _only(logprobs, turns >= 0)).sum(), total)


def dpo(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float) -> Tensor:
    """- log sigmoid(beta * ((chosen - ref_chosen) - (rejected - ref_rejected))) [P] (Rafailov et al. 2023, equation 7).

    All are log probabilities of whole answers [P].
    """
    margin = (_wide(chosen) - ref_chosen.detach()) - (_wide(rejected) - ref_rejected.detach())
    return -functional.logsigmoid(beta * margin)


def dmpo(
    chosen: Tensor,
    rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    lengths_chosen: Tensor,
    lengths_rejected: Tensor,
    beta: float,
    gamma: float,
) -> Tensor:
    """DPO of trajectories of several turns [P] (Shi et al. 2024): earlier turns count more, long ones not more.

    - log sigmoid(beta * (sum_t phi(t, T) * (chosen - ref_chosen)[t] - the same of rejected)),
    phi(t, T) = (1 - gamma^(T - t)) / (1 - gamma^T), which is (T - t) / T for gamma = 1.

    Log probabilities of turns are [P, N] and [P, M], their numbers T are `lengths` [P]; what stands behind them does
    not count. For T = 1 it is `dpo`.
    """
    won = (_discount(lengths_chosen, chosen.shape[1], gamma) * _gain(chosen, ref_chosen, lengths_chosen)).sum(dim=1)
    lost = _discount(lengths_rejected, rejected.shape[1], gamma) * _gain(rejected, ref_rejected, lengths_rejected)
    return -functional.logsigmoid(beta * (won - lost.sum(dim=1)))


def _discount(lengths: Tensor, width: int, gamma: float) -> Tensor:
    """phi(t, T) [P, width], 0 for t >= T."""
    left = (lengths[:, None] - torch.arange(width, device=lengths.device)).clamp(min=0).double()
    whole = lengths[:, None].clamp(min=1).double()
    share = left / whole if gamma == 1.0 else (1.0 - gamma**left) / (1.0 - gamma**whole)
    return share.float()


def _gain(logprobs: Tensor, reference: Tensor, lengths: Tensor) -> Tensor:
    there = _before(lengths, logprobs.shape[1])
    return _only(logprobs, there) - _only(reference.detach(), there)


def group_advantages(returns: Tensor, groups: Tensor, scale: bool) -> Tensor:
    """Returns [E] minus the mean of their group, with `scale` divided by its standard deviation + 1e-4.

    GRPO (Shao et al. 2024, section 4.1.2), without `scale` as Liu et al. 2025 have it. The deviation is that of a
    sample (n - 1), as in trl. `groups` [E] has one number for each group, any numbers. Equal returns, and a return that
    is alone in its group, get 0.
    """
    group, sizes, off = _centred(returns, groups)
    if scale:
        squares = torch.zeros_like(sizes).scatter_add(0, group, off**2)
        off = off / ((squares / (sizes - 1).clamp(min=1)).sqrt()[group] + _LEAST_DEVIATION)
    return off.float()


def leave_one_out(returns: Tensor, groups: Tensor) -> Tensor:
    """Returns [E] minus the mean of the others of their group; 0 where there is no other.

    RLOO (Kool et al. 2019; Ahmadian et al. 2024, equation 8).
    """
    group, sizes, off = _centred(returns, groups)
    return (off * (sizes / (sizes - 1).clamp(min=1))[group]).float()


def _centred(returns: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Group of each return as 0, 1, … [E], sizes of the groups, and returns minus the mean of their group [E].

    In 64 bits: there equal returns are equal to their mean, which matters where differences are divided by little.
    """
    _, group, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    wide, sizes = returns.detach().double(), sizes.double()
    means = torch.zeros_like(sizes).scatter_add(0, group, wide) / sizes
    return group, sizes, wide - means[group]


def clipped_policy(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    turns: Tensor,
    low: float,
    high: float,
    total: float | Tensor,
) -> tuple[Tensor, Clipping]:
    """- (1 / total) * sum over learned tokens of min(r A, clip(r, 1 - low, 1 + high) A), r = p_new / p_old of a token.

    All are [B, T]; `per_token` gives each token the advantage of its turn. PPO (Schulman et al. 2017, equation 7), with
    two bounds as in DAPO (Yu et al. 2025). Raises ValueError when `total` is not above 0.
    """
    there = turns >= 0
    ratios = _ratio(_only(logprobs, there) - _only(old_logprobs.detach(), there))
    wide = _only(advantages.detach(), there)
    objective = _clipped(ratios, wide, low, high)
    with torch.no_grad():
        count = max(int(there.sum()), 1)
        share = float(((objective < ratios * wide) & there).sum()) / count
        ratio = float(_only(ratios, there).sum()) / count
    return _over(-objective.sum(), total), Clipping(share, ratio)


def sequence_policy(logprobs_sum: Tensor, old_sum: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """- min(r A, clip(r, 1 - low, 1 + high) A) [E], r = p_new / p_old of whole answers.

    Both sums [E] are over the tokens of an answer. RLOO as in trl, and BPPO (Zhuang et al. 2023) with low > high.
    """
    ratios = _ratio(_wide(logprobs_sum) - old_sum.detach())
    return -_clipped(ratios, _wide(advantages.detach()), low, high)


def _ratio(difference: Tensor) -> Tensor:
    return difference.clamp(max=_MOST_EXPONENT).exp()


def _clipped(ratios: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    return torch.minimum(ratios * advantages, ratios.clamp(1.0 - low, 1.0 + high) * advantages)


def k3(logprobs: Tensor, reference: Tensor, turns: Tensor) -> Tensor:
    """exp(d) - d - 1 [B, T], d = log p_ref - log p; 0 outside of turns.

    Schulman's estimate (2020) of KL(policy || reference) at tokens that the policy sampled: never negative, and right
    on average. Its gradient is that of the divergence only after multiplying by p_new / p_old, as trl does by default.
    """
    there = turns >= 0
    difference = _only(reference.detach(), there) - _only(logprobs, there)
    return _ratio(difference) - difference - 1.0


def gae(rewards: Tensor, values: Tensor, lengths: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns (advantage + value), both [E, N], of episodes that end after `lengths` [E] turns.

    A_t = delta_t + gamma * lam * A_{t+1}, delta_t = r_t + gamma * V_{t+1} - V_t; V and A are 0 after the end (Schulman
    et al. 2016, equation 16). Both results are 0 after the end. Raises ValueError for an episode longer than N.
    """
    width = rewards.shape[1]
    if bool((lengths > width).any()):
        raise ValueError(f"an episode has {int(lengths.max())} turns and rewards for {width}")
    there = _before(lengths, width)
    rewards, values = _only(rewards.detach(), there), _only(values.detach(), there)
    deltas = rewards + gamma * functional.pad(values, (0, 1))[:, 1:] - values
    advantages = torch.zeros_like(deltas)
    following = deltas.new_zeros(len(deltas))
    for turn in reversed(range(width)):
        # Behind the end all deltas are 0, and so is what they add up to.
        following = deltas[:, turn] + gamma * lam * following
        advantages[:, turn] = following
    return advantages, advantages + values


def clipped_value(values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float | None) -> Tensor:
    """Half of the mean of max((V - R)^2, (V_clip - R)^2) where `mask` is true, V_clip = clip(V, V_old - c, V_old + c).

    The critic's loss of PPO as in its first release; without `clip` half of the mean squared error. All have one shape.
    0 where nothing counts.
    """
    wide, due = _only(values, mask), _only(returns.detach(), mask)
    squares = (wide - due) ** 2
    if clip is not None:
        old = _only(old_values.detach(), mask)
        squares = torch.maximum(squares, (old + (wide - old).clamp(-clip, clip) - due) ** 2)
    return 0.5 * squares.sum() / mask.sum().clamp(min=1)


def expectile(difference: Tensor, tau: float) -> Tensor:
    """|tau - 1(d < 0)| * d^2 of each d = target - prediction: tau above 0.5 makes predictions too low cost more.

    The value loss of IQL (Kostrikov et al. 2022, equation 5).
    """
    wide = _wide(difference)
    return torch.where(wide < 0, (1.0 - tau) * wide, tau * wide) * wide


def awr_weights(advantages: Tensor, temperature: float, most: float) -> Tensor:
    """min(exp(A / temperature), most) of each advantage (Peng et al. 2019; IQL's policy, Kostrikov et al. 2022)."""
    return (_wide(advantages.detach()) / temperature).exp().clamp(max=most)


def q_target(rewards: Tensor, next_values: Tensor, done: Tensor, gamma: float) -> Tensor:
    """r + gamma * V(next state) of each step; r alone where `done` is true, whatever is said of a next state."""
    return _wide(rewards.detach()) + gamma * _only(next_values.detach(), ~done.bool())


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _only(values: Tensor, there: Tensor) -> Tensor:
    """Values where they count and 0 elsewhere, even where they are no numbers."""
    return torch.where(there, _wide(values), 0.0)


def _before(lengths: Tensor, width: int) -> Tensor:
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def _over(summed: Tensor, total: float | Tensor) -> Tensor:
    if not total > 0:
        raise ValueError(
            f"a sum over {float(total):g} tokens has no mean: a batch in which nothing is learned is no step"
        )
    return summed / total
