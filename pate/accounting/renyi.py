"""Renyi divergences in closed form: the curves behind the events, each `[len(orders)]` at orders > 1."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import events
from pate.accounting.events import BitEvent, LeafEvent, SessionEvent
from pate.accounting.special import Array, log_expit, log_ndtr
from pate.validation import InvalidValue

_STEP = (
    0.036  # of the trapezoids, in standard deviations, at most: shifted maxima are wide beside it
)
_GRID_SIZES = (
    1001,
    2001,
    4001,
)  # of the trapezoids of one order, the last for a shift of `_MAX_SHIFT`
_MAX_SHIFT = 60.0
_ROUNDING = 2.0**-50
"""Of the terms that logarithms of moments are made of and that cancel: added, it covers their rounding errors."""
_LONGEST = 1e3
_FEW = 64  # pairs, or runs of them, that are looked at one by one
_SPLIT = 4
_BLOCK = 2**17
_MOST_PAIRS = 2**12
_CENTER = 0.2  # noise stds from the threshold, within which runs are shortest
_OUTWARD = 2.0**-40
_LEAST = 1e-300
# of costs of hits and calls: added, it covers the rounding of what is made without differences
_RELATIVE = 2.0**-40
_OF_POWERS = 2.0**-44
"""Per order: added to differences of a few powers, it covers their rounding, as powers lose digits with the order."""


def bernoulli_rdp(
    log_p: Array, log_not_p: Array, log_q: Array, log_not_q: Array, orders: Array
) -> Array:
    """D_a(Bern(p) || Bern(q)) from logarithms, broadcast over all arguments, rounded up; sharp for tiny p."""
    ones = orders * log_p - (orders - 1) * log_q
    zeros = orders * log_not_p - (orders - 1) * log_not_q
    log_moment = np.maximum(np.logaddexp(ones, zeros), 0.0)
    lead = ones - zeros  # the smaller of both brings as little of its error as of itself
    logs = ((log_p, log_q), (log_not_p, log_not_q))
    size, other_size = (
        np.minimum(-one, _LONGEST) + np.minimum(-two, _LONGEST) for one, two in logs
    )
    terms = 1 + np.exp(np.minimum(lead, 0)) * size + np.exp(np.minimum(-lead, 0)) * other_size
    return np.asarray((log_moment + _ROUNDING / 4 * orders * terms) / (orders - 1))


def bit_rdp(event: BitEvent, orders: Array) -> Array:
    """The largest D_a between the distributions of a bit at any two neighbors."""
    # Branch and bound, for each order by itself. A run of pairs is dominated by the pair with the largest loss that one
    # of them has of a 1 and the largest that one has of a 0, so runs whose bound a single pair attains are dropped.
    pairs = bit_pairs(event)
    largest = np.zeros_like(orders)
    levels = [pairs]
    if pairs.shape[1] > _FEW:
        losses = np.stack(
            [log_expit(pairs[1]) - log_expit(pairs[0]), log_expit(-pairs[0]) - log_expit(-pairs[1])]
        )
        size = 1
        while (size := size * _SPLIT) * _FEW < pairs.shape[1] * _SPLIT:
            losses = np.maximum.reduceat(losses, np.arange(0, losses.shape[1], _SPLIT), axis=1)
            levels.append(pairs_of_losses(*losses))
    runs, places = (
        grid.ravel() for grid in np.meshgrid(np.arange(levels[-1].shape[1]), np.arange(len(orders)))
    )
    for depth in range(len(levels) - 1, -1, -1):
        bounds = _divergences(levels[depth], runs, orders[places])
        if depth == 0:
            np.maximum.at(largest, places, bounds)
            break
        # of each order the run with the largest bound: a pair of its middle
        best = np.lexsort((bounds, places))
        best = best[np.flatnonzero(np.append(np.diff(places[best]) > 0, True))]
        middle = np.minimum(runs[best] * _SPLIT**depth + _SPLIT**depth // 2, pairs.shape[1] - 1)
        np.maximum.at(largest, places[best], _divergences(pairs, middle, orders[places[best]]))
        alive = bounds > largest[places]
        runs = (runs[alive, None] * _SPLIT + np.arange(_SPLIT)).ravel()
        places = np.repeat(places[alive], _SPLIT)
        inside = runs < levels[depth - 1].shape[1]
        runs = runs[inside]
        places = places[inside]
    return largest


def _divergences(pairs: Array, which: NDArray[np.int64], orders: Array) -> Array:
    """The larger of both D_a of some of the pairs, each at its order; memory does not grow with them."""
    made = np.empty(len(which))
    (log_p, log_q) = log_expit(pairs)
    (log_not_p, log_not_q) = log_expit(-pairs)
    for start in range(0, len(which), _BLOCK):
        at = which[start : start + _BLOCK]
        order = orders[start : start + _BLOCK]
        p = log_p[at]
        q = log_q[at]
        not_p = log_not_p[at]
        not_q = log_not_q[at]
        np.maximum(
            bernoulli_rdp(p, not_p, q, not_q, order),
            bernoulli_rdp(q, not_q, p, not_p, order),
            out=made[start : start + _BLOCK],
        )
    return made


def pairs_of_losses(one: Array, zero: Array) -> Array:
    """Logits `[2, P]` of the pairs with these losses of a 1 and, with its sign changed, of a 0; rounded outward."""
    # With p / q = exp(one) and (1 - q) / (1 - p) = exp(zero) the odds of p are expm1(zero) / -expm1(-one).
    one, zero = (np.maximum(losses * (1 + _OUTWARD), _LEAST) for losses in (one, zero))
    middle = np.log(-np.expm1(-zero)) - np.log(-np.expm1(-one))
    near = middle - one
    far = middle + zero
    return np.stack(
        [near - _ROUNDING * (np.abs(middle) + one), far + _ROUNDING * (np.abs(middle) + zero)]
    )


@lru_cache(maxsize=16)
def bit_pairs(event: BitEvent) -> Array:
    """Logits `[2, P]` of pairs that dominate a bit at any two neighbors, the larger second; each pair serves both ways.

    Their number depends neither on the teachers nor, beyond some thousands, on the noise.
    """
    if not isinstance(event, events.ThresholdEvent) or event.num_values <= _MOST_PAIRS:
        # The different logits exactly `reach` apart, or less at the end.
        logits = event.log_odds
        farther = logits[np.minimum(np.arange(len(logits)) + event.reach, len(logits) - 1)]
        # both rows rise: equal pairs stand side by side
        pairs = np.stack([logits, farther])[:, logits < farther]
        return pairs[
            :, np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0))[: pairs.shape[1]]
        ]
    # A pair above each of some thousands of runs of neighboring pairs, shorter near the threshold. Phi is log-concave:
    # log Phi(z + h) - log Phi(z) falls in z, and the same of Phi(-z) rises. So of a run of values the first pair has
    # the largest loss of a 1, and the last one that of a 0 (docs/proofs/gaussian_votes.md).
    low, high = (event.lowest + place for place in (0, event.num_values - 1))
    unit = _CENTER * event.noise_std
    ends = np.linspace(math.asinh(low / unit), math.asinh(high / unit), _MOST_PAIRS)
    places = np.floor(np.sinh(ends) * unit - event.lowest).astype(np.int64)
    places = np.unique(
        np.clip(np.append(places, [0, event.num_values - 1]), 0, event.num_values - 1)
    )
    first, last = (event.log_odds_at(at) for at in (places[:-1], places[1:]))
    second = event.log_odds_at(places[:-1] + 1)
    before = event.log_odds_at(places[1:] - 1)
    logs = (log_expit(second), log_expit(first)), (log_expit(-before), log_expit(-last))
    # never below the true ones
    one, zero = (more - less - _ROUNDING * (more + less) for more, less in logs)
    return pairs_of_losses(one, zero)


def pure_dp_rdp(epsilon: float, orders: Array) -> Array:
    """The largest D_a of any epsilon-DP pair: that of randomized response (Kairouz, Oh & Viswanath 2015)."""
    if epsilon in (0, math.inf):
        return np.full_like(orders, epsilon)
    yes = np.array(log_expit(epsilon))
    no = np.array(log_expit(-epsilon))
    return np.minimum(bernoulli_rdp(yes, no, no, yes, orders), orders * (epsilon * epsilon / 2))


def bounded_range_rdp(epsilon: float, orders: Array) -> Array:
    """The largest D_a of any pair whose log-ratio spans at most `epsilon` (Dong, Durfee & Rogers 2020)."""
    if epsilon in (0, math.inf):
        return np.full_like(orders, epsilon)
    # The supremum over where the span lies is attained at exp(t) = (a-1)(1 - exp(-a e)) / (a (exp(-e) - exp(-a e))).
    # Where a * e is so small that the closed form would cancel, a e**2 / 8 is returned, which is above it by O(e**4).
    bound = orders * (epsilon * epsilon / 8)
    more = -np.expm1(-orders * epsilon)
    less = -np.expm1(-(orders - 1) * epsilon)
    with np.errstate(divide="ignore"):  # of a product that vanishes
        log_more = np.log(more)
        log_less = np.log(less)
        log_least = math.log(-math.expm1(-epsilon))
    shift = np.log1p(-1 / orders) + log_more + epsilon - log_less
    log_moment = (orders - 1) * shift + log_more - np.log(orders) - log_least
    terms = orders * (1 + epsilon - np.minimum(log_more, 0) - np.minimum(log_less, 0)) - log_least
    exact = (log_moment + _ROUNDING * terms) / (orders - 1)
    cancels = orders - 1 < 1e-7 / orders / epsilon / epsilon
    return np.where(cancels, bound, np.minimum(exact, np.minimum(bound, epsilon)))


def noisy_max_gaussian_rdp(event: events.NoisyMaxGaussianEvent, orders: Array) -> Array:
    """An upper bound for the argmax of values with Gaussian noise, each moved by at most one sensitivity."""
    if event.num_candidates == 1 or event.noise_multiplier == 0:
        return np.full_like(orders, 0.0 if event.num_candidates == 1 else np.inf)
    # With M the maximum of the other normals and D = 2 / noise_multiplier, the release is dominated by the pair (M + D,
    # M) and, the other way, by (M, M + D); either divergence bounds both directions (docs/proofs/gap_selection.md). The
    # bound of Corollary 9 of Zhu & Wang (2022) serves alone where a * D is too large to integrate.
    shift = 2 / event.noise_multiplier
    count = event.num_candidates - 1
    bound = orders * (shift * shift / 2) + math.log(event.num_candidates) / (orders - 1)
    near = orders * shift <= _MAX_SHIFT
    if near.any():
        smallest = np.minimum(*_both_ways(count, shift, orders[near]))
        # also dominated by two maxima that move in opposite ways
        if isinstance(event, events.OpposedMaximaEvent):
            smallest = np.minimum(smallest, sum(_both_ways(count, shift / 2, orders[near])))
        bound[near] = np.minimum(bound[near], np.maximum(smallest / (orders[near] - 1), 0.0))
    return bound


def _both_ways(count: int, shift: float, orders: Array) -> tuple[Array, Array]:
    """Returns (a - 1) D_a(M + shift || M) and (a - 1) D_a(M || M + shift), `[A]` each.

    M is the largest of `count` standard normals.
    """
    one_way = np.empty_like(orders)
    other_way = np.empty_like(orders)
    left = np.ones(len(orders), dtype=np.bool_)
    for size in _GRID_SIZES:
        fits = left & (2 * (12 + orders * shift) <= _STEP * (size - 1))
        here = fits if size < _GRID_SIZES[-1] else left
        if here.any():
            one_way[here], other_way[here] = _by_trapezoids(count, shift, orders[here], size)
        left &= ~here
    return one_way, other_way


def _by_trapezoids(count: int, shift: float, orders: Array, size: int) -> tuple[Array, Array]:
    """Returns both divergences of `_both_ways` from sums over `size` points; the integrands vanish at both ends."""
    # [A]
    low = -12 - orders * shift
    high = 12 + orders * shift
    points = low + np.linspace(0, 1, size)[:, None] * (high - low)  # [size, A]
    steps = (high - low) / (size - 1)
    moved, still = (  # logs of the density count * phi(x) * Phi(x)**(count - 1)
        math.log(count)
        + (-0.5 * x * x - 0.5 * math.log(2 * math.pi))
        + ((count - 1) * log_ndtr(x) if count > 1 else 0.0)
        for x in (points - shift, points)
    )
    made = []
    for one, other in ((moved, still), (still, moved)):
        log_values = orders * one - (orders - 1) * other
        peak = log_values.max(axis=0)
        made.append(np.asarray(peak + np.log(np.exp(log_values - peak).sum(axis=0) * steps)))
    return made[0], made[1]


def smooth_sensitivity_rdp(event: events.SmoothSensitivityEvent, orders: Array) -> Array:
    """The largest D_a between N(v, s**2) and N(v', s'**2) over what a smooth sensitivity allows, b = beta."""
    # s / s' is within exp(-b)..exp(b), and v - v' within s / z and s' / z, z = noise_multiplier. Theorem 23 of Papernot
    # et al. 2018, a exp(2 b) / z**2 + (a b - log(1 - 2 a b) / 2) / (a - 1), is below this for some a b > 1/4 and false
    # there.
    noise_multiplier = event.noise_multiplier
    beta = event.beta
    price = np.full_like(orders, np.inf)
    lost = -orders * math.expm1(-2 * beta)
    left = 1 - lost - _ROUNDING * (1 + lost)
    finite = left > 0
    if noise_multiplier == 0 or not finite.any():
        return price
    a = orders[finite]
    left = left[finite]
    with np.errstate(over="ignore", divide="ignore"):
        shift = a * math.exp(-2 * beta) / (2 * noise_multiplier * noise_multiplier * left)
    narrower = -a * beta - np.log(left) / 2
    wider = a * beta - np.log1p(a * math.expm1(2 * beta)) / 2
    terms = 1 + a * beta - np.log(left)
    price[finite] = shift * (1 + _ROUNDING) + (np.maximum(narrower, wider) + _ROUNDING * terms) / (
        a - 1
    )
    return price


def pure_epsilon(event: LeafEvent) -> float:
    """The largest loss: the smallest epsilon for which the event is known to be epsilon-DP; it may be infinite."""
    match event:
        case events.NoOpEvent():
            return 0.0
        case events.NonPrivateEvent():
            return math.inf
        case events.PureDpEvent() | events.BoundedRangeEvent():
            return event.epsilon
        case SessionEvent():  # all its calls, rounded up
            return event.num_calls * event.epsilon * (1 + 2.0**-50) if event.num_calls else 0.0
        # between statistics within reach, either outcome, either way round; rounded up
        case BitEvent():
            near, far = bit_pairs(event)
            logs = [(log_expit(far), log_expit(near)), (log_expit(-near), log_expit(-far))]
            return max(
                float(np.max(more - less - _ROUNDING * less, initial=0.0)) for more, less in logs
            )
    raise InvalidValue(
        "event", type(event).__name__, rule="an event that is pure DP, or another accountant"
    )


def session_rdp(event: SessionEvent, orders: Array) -> Array:
    """An upper bound on every divergence between neighbors of a whole session, `[len(orders)]`."""
    # With `hit_cost` u and any u' from 0 to u, a call's moment is at most 1 + (u - u') call / u where its hits weigh 1
    # - u'. A session of n calls and tau hits then has a moment of at most (1 + (u - u') call / u)**n (1 - u')**-tau.
    # The best u' is a quotient; 0 is plain composition, and u the price by hits alone (docs/proofs/hits.md).
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = hit_cost(event, orders)
        call = call_cost(event, orders)
        limited = whole < 1
        most = np.where(limited, whole, 0.0)
        by_hits = np.where(limited, _of_hits(event, most), np.inf)
        if math.isinf(event.num_calls):
            return np.asarray(by_hits / (orders - 1))
        per_cost = np.where(limited, call / whole, 0.0)
        weight = (
            event.target_hits
            * (1 - (1 - most) * per_cost)
            / (per_cost * (event.num_calls - event.target_hits))
        )
        less = np.clip(np.nan_to_num(1 - weight, nan=0.0), 0.0, most)
        between = event.num_calls * np.log1p((most - less) * per_cost) * (1 + _RELATIVE) + _of_hits(
            event, less
        )
        by_order = (orders - 1) * pure_dp_rdp(event.epsilon, orders)  # finite where a moment is not
        plain = event.num_calls * np.fmin(np.log1p(call), by_order) * (1 + _RELATIVE)
        best = np.fmin(np.fmin(by_hits, plain), np.where(limited, between, np.inf))
        return np.asarray(best / (orders - 1))


def hit_cost(event: SessionEvent, orders: Array) -> Array:
    """The largest u for which some call has a moment above 1 although its hits weigh 1 - u, from above."""
    with np.errstate(over="ignore", invalid="ignore"):  # of orders at which hits limit nothing
        least = min(event.hit_prob, 1 / (math.exp(event.epsilon) + 1))
        excess = _excess(pure_dp_rdp(event.epsilon, orders), orders)
        cost = excess * np.exp((orders - 1) * event.epsilon) / least * (1 + _RELATIVE)
        if isinstance(event, events.BoundarySessionEvent):
            of_call = _range_cost if event.bounded_range else _pure_cost
            cost = np.fmin(cost, of_call(event.call_epsilon, orders))
    return np.asarray(np.where(np.isnan(cost), np.inf, cost))


def call_cost(event: SessionEvent, orders: Array) -> Array:
    """The largest moment of one call less 1, from above: `[len(orders)]`."""
    with np.errstate(over="ignore", invalid="ignore"):
        cost = _excess(pure_dp_rdp(event.epsilon, orders), orders)
        if isinstance(event, events.BoundarySessionEvent) and event.bounded_range:
            # a wrapped call of a bounded range: that of the call, or of near ties if it is larger
            of_call = _excess(bounded_range_rdp(event.call_epsilon, orders), orders)
            ties = _near_ties(of_call, 1 / (math.exp(event.call_epsilon) + 1), orders, answered=1)
            cost = np.fmin(cost, np.maximum(of_call, ties))
        elif isinstance(event, events.BoundarySessionEvent):
            cost = np.fmin(cost, _excess(bounded_range_rdp(2 * event.call_epsilon, orders), orders))
    return np.asarray(cost)


def _range_cost(epsilon: float, orders: Array) -> Array:
    """Of a boundary around calls of a bounded range: rare alternatives to a nearly certain outcome, or near ties."""
    gained = (orders - 1) * epsilon
    lost = (orders - 1) * math.expm1(epsilon)
    rare = np.where(
        lost < 1, -2 * np.expm1(gained + np.log1p(-np.where(lost < 1, lost, 0))), np.inf
    )
    rare = rare * (1 + _RELATIVE) + 2.0**-48 * (gained + lost)
    excess = _excess(bounded_range_rdp(epsilon, orders), orders)
    return np.maximum(rare, _near_ties(excess, 1 / (math.exp(epsilon) + 1), orders, answered=0))


def _pure_cost(epsilon: float, orders: Array) -> Array:
    """Of a boundary around calls of pure DP; infinite at orders for which it is not proved."""
    least = math.exp(-epsilon) / 2
    inside = _weighed(0.5, 1 - least, orders)
    outside = _weighed(1.5, 1 + least, orders)
    rises = 2 - (_weighed(1 + least, 1.5, orders) - _weighed(1 - least, 0.5, orders)) / _weighed(
        least, 0.5, orders
    )
    falls = 2 - (outside - inside) / _weighed(0.5, least, orders)
    ties = _near_ties(_excess(pure_dp_rdp(epsilon, orders), orders), least, orders, answered=0)
    rounding = _OF_POWERS * orders
    cost = np.maximum(ties, np.maximum(rises, falls) + rounding)
    concave = (orders - 2) * math.atanh(0.5) <= (orders + 1) * math.atanh(least) * (1 - _RELATIVE)
    convex = outside / (1 + least) ** 2 * (1 + _RELATIVE + rounding) <= inside / (
        1 - least
    ) ** 2 + 2 * (1 - cost)
    return np.where(concave & convex & (cost < 1), cost, np.inf)


def _near_ties(excess: Array, least: float, orders: Array, *, answered: int) -> Array:
    """By how much a call's moment and the boundary's exceed that of their sum, as a share of that if it is answered."""
    # If not, as a share of the boundary's, and then no less than the excess's.
    corners = [
        (1 + excess + _weighed(one, other, orders) - _weighed(1 + one, 1 + other, orders))
        / _weighed(answered + one, answered + other, orders)
        for one, other in ((0.5, least), (least, 0.5))
    ]
    ties = np.maximum(*corners) + _OF_POWERS * orders
    return np.asarray(ties if answered else np.maximum(excess / least * (1 + _RELATIVE), ties))


def _weighed(one: float, other: float, orders: Array) -> Array:
    """one**a * other**(1 - a)."""
    return np.asarray(np.exp(orders * math.log(one) + (1 - orders) * math.log(other)))


def _excess(divergence: Array, orders: Array) -> Array:
    """A moment less 1, from a Renyi divergence."""
    return np.asarray(np.expm1((orders - 1) * divergence) * (1 + _RELATIVE))


def _of_hits(event: SessionEvent, cost: Array) -> Array:
    """The log-moment that all hits together may take, each weighed by 1 - cost."""
    return np.asarray(-event.target_hits * np.log1p(-cost) * (1 + _RELATIVE))
