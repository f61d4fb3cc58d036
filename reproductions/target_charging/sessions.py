"""Prints the prices of target-charging sessions, and the number of hits to expect in a session."""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

from pate.accounting import BoundedRangeEvent, RdpAccountant
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.target_charging import (
    QTarget,
    best_session_price,
    boundary,
    min_accesses,
    not_prior,
    revise,
    run_twice,
    tight_boundary,
)
from pate.mechanisms import BoundaryWrapper, GapSelection

TARGET_DELTA = 1e-6
TOP_GAPS = (500, 400, 300, 200)
COARSE_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def chernoff_accesses(target_hits: int, *, hit_prob: float, overrun_prob: float) -> int:
    """Returns n = (1 + x) tau / q, the accesses that exp(-x^2 tau / (2 (1 + x))) allows; the exact tail replaces it."""
    exponent = -2 * math.log(overrun_prob) / target_hits
    excess = (exponent + math.sqrt(exponent**2 + 4 * exponent)) / 2
    return math.ceil((1 + excess) * target_hits / hit_prob)


def access_table() -> list[tuple[int, int, int]]:
    """Returns (hits, exact accesses, Chernoff's) for q = 0.2786 and an overrun probability of 5e-7."""
    hit_prob, overrun_prob = 0.2786, 5e-7
    return [
        (
            hits,
            min_accesses(target_hits=hits, hit_prob=hit_prob, overrun_prob=overrun_prob),
            chernoff_accesses(hits, hit_prob=hit_prob, overrun_prob=overrun_prob),
        )
        for hits in (5, 10, 20, 50, 100)
    ]


def coarse_epsilon(
    target: QTarget, target_hits: int, *, target_delta: float = TARGET_DELTA
) -> float:
    """Returns the best of five splits of delta; the unused share of an overrun is lost."""
    return min(
        pure_dp_composition_epsilon(
            target.epsilon,
            count=min_accesses(
                target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=share * target_delta
            ),
            target_delta=(1 - share) * target_delta,
        )
        for share in COARSE_SHARES
    )


def epsilon_table(target: QTarget) -> list[tuple[int, float, float]]:
    """Returns (hits, epsilon of the coarse split, epsilon of the best split) at delta 1e-6."""
    return [
        (
            hits,
            coarse_epsilon(target, target_hits=hits),
            best_session_price(
                target, target_hits=hits, target_delta=TARGET_DELTA, use_bound_by_play=False
            ).epsilon,
        )
        for hits in (1, 5, 10, 20, 40)
    ]


def plain_table(epsilon: float = 0.05) -> list[tuple[int, float]]:
    """Returns (queries, epsilon) of exponential mechanisms that pay for every query, at delta 1e-6."""
    event = BoundedRangeEvent(epsilon)
    return [
        (queries, RdpAccountant().compose(event, count=queries).get_epsilon(TARGET_DELTA))
        for queries in (600, 2000, 6000, 20000)
    ]


def boundary_hits(top_gap: int, *, num_queries: int = 600) -> float:
    """Returns the expected queries on the boundary, for exponential mechanisms of scale 39 over 39 gaps.

    Eight hundred teachers and forty labels, the rarest with ten votes and the commonest with at most 790: one gap is
    `top_gap` votes, and the 38 others share the rest equally, in whole votes.
    """
    gaps = np.full(39, (780 - top_gap) // 38)
    gaps[2] = top_gap
    histogram = 10 + np.append(0, np.cumsum(gaps[::-1]))[::-1]
    selection = GapSelection(noise_scale=39.0, num_labels=40, num_teachers=800)
    return num_queries * float(BoundaryWrapper(selection).probabilities(histogram)[-1])


def target_table() -> list[tuple[float, ...]]:
    """Returns (epsilon, q of not prior, of revise, t and q of the boundary, tight t and q, q of running twice)."""
    rows: list[tuple[float, ...]] = []
    for epsilon in (0.05, 0.1, 0.2, 0.5, 1.0):
        wide, tight = boundary(epsilon), tight_boundary(epsilon)
        plain = (not_prior(epsilon).hit_prob, revise(epsilon).hit_prob)
        wrapped = (wide.epsilon, wide.hit_prob, tight.epsilon, tight.hit_prob)
        rows.append((epsilon, *plain, *wrapped, run_twice(epsilon).hit_prob))
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Prints all tables as text."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    lines = ["epsilon  not prior  revise  boundary t      q  tight t      q  run twice"]
    lines += [
        f"{epsilon:7}  {prior:9.4f}  {again:6.4f}  {wide:10.4f} {q:6.4f}  {tight:7.4f} {tight_q:6.4f}  {twice:9.4f}"
        for epsilon, prior, again, wide, q, tight, tight_q, twice in target_table()
    ]
    lines += ["", "Accesses, q=0.2786, overrun probability 5e-7", "hits  exact  chernoff"]
    lines += [f"{hits:4}  {exact:5}  {chernoff:8}" for hits, exact, chernoff in access_table()]
    for name, target in (
        ("boundary, 0.05 per call", boundary(call_epsilon=0.05)),
        ("boundary, 0.1 per call", boundary(call_epsilon=0.1)),
        ("not prior, 0.05 per call", not_prior(call_epsilon=0.05)),
        ("tight boundary, 0.05 per call", tight_boundary(call_epsilon=0.05)),
        ("tight boundary, 0.1 per call", tight_boundary(call_epsilon=0.1)),
        ("run twice, 0.05 per call", run_twice(run_epsilon=0.05)),
    ):
        lines += ["", f"Epsilon at delta 1e-6: {name}", "hits  coarse   best"]
        lines += [
            f"{hits:4}  {coarse:6.2f} {best:6.2f}" for hits, coarse, best in epsilon_table(target)
        ]
    lines += ["", "Epsilon at delta 1e-6: every query paid, bounded range 0.05", "queries  epsilon"]
    lines += [f"{queries:7}  {epsilon:7.2f}" for queries, epsilon in plain_table()]
    lines += [
        "",
        "Expected boundary hits in 600 queries of scale 39, by the top gap in votes",
        "top gap    hits",
    ]
    lines += [f"{top_gap:7}  {boundary_hits(top_gap):6.2f}" for top_gap in TOP_GAPS]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
