"""The verifier: compares a price with exact or sampled distributions on all neighbors of small instances."""

from pate.files.lazy_names import lazy_names
from pate.verification.neighbors import Neighbors, all_histograms, neighbors

with lazy_names(globals()):
    from pate.verification.claim import Claim, PriceRefuted, Verdict, WorstPair
    from pate.verification.divergences import (
        compose,
        hockey_stick,
        largest_delta,
        largest_log_ratio,
        largest_range,
        largest_renyi,
        renyi,
        trimmed,
    )
    from pate.verification.tightness import LowerBound, lower_bound
    from pate.verification.verifier import SampleVerdict, verify, verify_densities, verify_distributions, verify_samples

__all__ = [
    "Claim",
    "LowerBound",
    "Neighbors",
    "PriceRefuted",
    "SampleVerdict",
    "Verdict",
    "WorstPair",
    "all_histograms",
    "compose",
    "hockey_stick",
    "largest_delta",
    "largest_log_ratio",
    "largest_range",
    "largest_renyi",
    "lower_bound",
    "neighbors",
    "renyi",
    "trimmed",
    "verify",
    "verify_densities",
    "verify_distributions",
    "verify_samples",
]
