"""The training loop: one stage of AdamW on all samples so far, with a moving average of the weights as its result."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from policies.dxvla.network import TabletopNetwork, to_unit
from robopro_eval.action_spaces.xvla import XVLA_DIM, XVLA_GRIPPERS, XVLA_LEFT_POSITION, XVLA_RIGHT_POSITION

from .dataset import Dataset

POSITIONS, GRIPPERS = (XVLA_LEFT_POSITION, XVLA_RIGHT_POSITION), list(XVLA_GRIPPERS)
POSITION_WEIGHT, GRIPPER_WEIGHT = 2.0, 0.5


@dataclass(frozen=True)
class Recipe:
    """Numbers of one stage."""

    steps: int
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    batch: int = 32
    warmup: int = 200
    average_decay: float = 0.999
    brightness: float = 0.15
    proprio_noise: float = 0.004


def smallest_std() -> Tensor:
    """`[20]`: below these a channel counts as constant; 2 cm of position, a twentieth of a rot6d entry."""
    smallest = torch.full((XVLA_DIM,), 0.05)
    for position in POSITIONS:
        smallest[position] = 0.02
    smallest[GRIPPERS] = 1.0
    return smallest


def set_statistics(network: TabletopNetwork, data: Dataset) -> None:
    """Mean and deviation of targets and proprio; gripper targets stay 0..1, as they are trained as logits."""
    flat = data.label.flatten(0, 1)
    mean, std = flat.mean(0), flat.std(0)
    mean[GRIPPERS], std[GRIPPERS] = 0.0, 1.0
    network.action_mean.copy_(mean)
    network.action_std.copy_(torch.maximum(std, smallest_std()))
    network.proprio_mean.copy_(data.proprio.mean(0))
    network.proprio_std.copy_(torch.maximum(data.proprio.std(0), smallest_std()))


def chunk_loss(network: TabletopNetwork, predicted: Tensor, label: Tensor) -> Tensor:
    """Normalised L1 with positions counted twice, and cross entropy for the grippers. All `[B, 30, 20]`."""
    target = (label - network.action_mean) / network.action_std
    weight = torch.ones(label.shape[-1])
    for position in POSITIONS:
        weight[position] = POSITION_WEIGHT
    weight[GRIPPERS] = 0.0
    poses = ((predicted - target).abs() * weight).mean()
    closing = functional.binary_cross_entropy_with_logits(predicted[..., GRIPPERS], label[..., GRIPPERS])
    return poses + GRIPPER_WEIGHT * closing


def batch_of(
    data: Dataset, index: Tensor, recipe: Recipe, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Augmented token ids, pictures 0..1, proprio and labels of the samples `index` `[B]`."""
    count = len(index)
    gain = 1 + recipe.brightness * (2 * torch.rand(count, 3, 1, 1, 1, generator=generator) - 1)
    primary = (to_unit(data.primary[index]) * gain[:, 0]).clamp_(0, 1)
    wrists = (to_unit(data.wrists[index]) * gain[:, 1:]).clamp_(0, 1)
    noise = recipe.proprio_noise * torch.randn(count, data.proprio.shape[1], generator=generator)
    noise[:, GRIPPERS] = 0
    tokens = data.token_ids(data.task[index], generator)
    return tokens, primary, wrists, data.proprio[index] + noise, data.label[index]


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then a cosine to one hundredth."""
    warm = min(1.0, (step + 1) / recipe.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
    return recipe.learning_rate * warm * (0.01 + 0.99 * cosine)


def train(
    network: TabletopNetwork,
    data: Dataset,
    recipe: Recipe,
    seed: int,
    on_step: Callable[[int, float], None],
    on_checkpoint: Callable[[int, TabletopNetwork], None] | None = None,
    checkpoint_seconds: float = 240.0,
) -> TabletopNetwork:
    """Trains `network` in place and returns the moving average of its weights.

    Args:
        on_step: called with (step, smoothed loss) after each step.
        on_checkpoint: called every `checkpoint_seconds` with (step, average so far).
    """
    generator = torch.Generator().manual_seed(seed)
    network.train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average = copy.deepcopy(network)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.99)
    )
    order = torch.empty(0, dtype=torch.int64)
    smoothed = math.nan
    last_saved = time.monotonic()
    for step in range(recipe.steps):
        if len(order) < recipe.batch:
            order = torch.cat([order, torch.randperm(len(data), generator=generator)])
        index, order = order[: recipe.batch], order[recipe.batch :]
        tokens, primary, wrists, proprio, label = batch_of(data, index, recipe, generator)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        loss = chunk_loss(network, network(tokens, primary, wrists, proprio), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        # A young average follows quickly, an old one slowly.
        decay = min(recipe.average_decay, (1 + step) / (10 + step))
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), network.parameters(), strict=True):
                ours.lerp_(theirs, 1 - decay)
        value = float(loss.detach())
        smoothed = value if math.isnan(smoothed) else 0.99 * smoothed + 0.01 * value
        on_step(step + 1, smoothed)
        if on_checkpoint is not None and time.monotonic() - last_saved > checkpoint_seconds:
            on_checkpoint(step + 1, average)
            last_saved = time.monotonic()
    return average.eval()
