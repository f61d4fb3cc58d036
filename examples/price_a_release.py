"""Prices a release by the accountant alone, solves the noise for a budget, and adds two releases of the same data."""

from __future__ import annotations

from pate.accounting import (
    ComposedEvent,
    ExactAccountant,
    GaussianEvent,
    RdpAccountant,
    SelfComposedEvent,
    calibrate,
)
from pate.aggregators import StableTopK

# The price of 600 queries of 40 labels: a value, which knows neither votes nor accountant.
aggregator = StableTopK(selection_scale=100.0, test_std=120.0, failure_prob=1e-10)
event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
print(f"StableTopK: epsilon {RdpAccountant().compose(event).get_epsilon(target_delta=1e-6):.3f}")

# Mechanisms of other projects: say what they are. Here 1,000 Gaussian releases of noise 50 sensitivities.
gaussians = SelfComposedEvent(GaussianEvent(noise_multiplier=50.0), count=1000)
for accountant in (RdpAccountant(), ExactAccountant()):
    print(
        f"Gaussians by {accountant.name}: epsilon {accountant.compose(gaussians).get_epsilon(target_delta=1e-6):.3f}"
    )

# The noise for a budget.
noise = calibrate(
    lambda noise: SelfComposedEvent(GaussianEvent(noise_multiplier=noise), count=1000),
    target_epsilon=2.0,
    target_delta=1e-6,
)
print(f"for epsilon 2: noise {noise:.1f} sensitivities")

# Two releases from the same records cost their composition, which is less than the sum of their epsilons.
both = RdpAccountant().compose(ComposedEvent((event, gaussians)))
print(f"both: epsilon {both.get_epsilon(target_delta=1e-6):.3f}")
