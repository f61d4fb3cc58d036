"""One-shot top-k: Gumbel noise on all counts once, and the k largest in their noisy order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pate.mechanisms.top_k.peeling import GumbelTopK


@final
@dataclass(frozen=True, kw_only=True)
class OneShotTopK(GumbelTopK):
    """Adds Gumbel noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: the distribution of `PeelingTopK`, hence its price: k picks of bounded range e with noise of scale
    w / e, w = 2 (replace-one) or 1 (add/remove). Other kinds of noise: `LipschitzTopK`.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> import numpy as np
    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """
