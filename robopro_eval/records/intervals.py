"""Intervals for a success rate."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution: a two-sided 95 % interval


def wilson_interval(successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of a proportion (E. B. Wilson, 1927), as fractions in [0, 1].

    ``(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)`` with ``p = successes / n``. Without any episode nothing
    is known: (0, 1). Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in 0..{n}, got {successes}")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == n else (centre + spread) / scale
    return low, high


def coverage_bounds(successes: int, scored: int, planned: int) -> tuple[float, float]:
    """Success rate if every missing episode had failed, and if every one had succeeded."""
    if not 0 <= successes <= scored <= planned:
        raise ValueError(f"need 0 <= successes <= scored <= planned, got {successes}, {scored}, {planned}")
    if planned == 0:
        return 0.0, 1.0
    return successes / planned, (successes + planned - scored) / planned
