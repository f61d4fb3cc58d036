"""Tests of mechanisms on neighboring data: the verifier of prices, replay of whole runs, and an attack by draws."""

from pate.testing.claim import Claim
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, renyi
from pate.testing.draw_attack import DrawAttack, attack_draws
from pate.testing.lower_bounds import lower_bound
from pate.testing.neighbors import all_histograms, neighbors
from pate.testing.replay import Leak, Leaked, ReleaseTape, Replay, replay
from pate.testing.samples import verify_samples
from pate.testing.verdict import PriceRefuted, Verdict
from pate.testing.verifier import verify, verify_densities, verify_distributions

__all__ = [
    "Claim",
    "DrawAttack",
    "Leak",
    "Leaked",
    "PriceRefuted",
    "ReleaseTape",
    "Replay",
    "Verdict",
    "all_histograms",
    "attack_draws",
    "compose",
    "hockey_stick",
    "lower_bound",
    "neighbors",
    "renyi",
    "replay",
    "verify",
    "verify_densities",
    "verify_distributions",
    "verify_samples",
]
