"""Hands the price to Google's dp-accounting as an event, next to other events and under its accountants."""

from __future__ import annotations

import dp_accounting
from dp_accounting.pld import PLDAccountant

from pate.accounting import RdpAccountant
from pate.aggregators import GNMax

aggregator = GNMax(noise_std=40.0)
event = aggregator.event_for(num_queries=500, num_labels=10, num_teachers=250)
theirs = event.to_dp_event()
print(type(theirs).__name__)

# dp-accounting knows Gaussians, so it gets one of all counts: a bound, dearer than the winner alone. Events for which
# it has no bound raise.
epsilon = PLDAccountant().compose(theirs).get_epsilon(target_delta=1e-6)
epsilon_here = RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)
print(f"here {epsilon_here:.3f}, by their loss distributions {epsilon:.3f}")

# Beside a noisy histogram of the same records, whose noise is 25 times what replacing one record moves it by. Both
# prices must be for the same change: that of the aggregator is for the replacement of one record.
histogram = dp_accounting.GaussianDpEvent(25.0)
both = PLDAccountant().compose(theirs).compose(histogram)
print(f"with the histogram {both.get_epsilon(target_delta=1e-6):.3f}")
