"""The stability test (propose-test-release): releases a top-k set only if the gap below it is safely large."""

import hashlib
import json
import math
import os
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting import Adjacency, ApproximateEvent, Event, OneBitEvent
from pate.accounting.special import Array, expit, log_ndtr, ndtri
from pate.files.disk import write_text
from pate.mechanisms.parameters import NATURAL, Parameters
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_kind,
    require_positive,
    require_probability,
)

_GRID = 2**53
_LARGEST_PROB = 1 - 2.0**-40  # beyond it the grid's own steps would be visible at high orders
_LARGEST_NUMERATOR = _GRID - 2**13  # that is _LARGEST_PROB
_FORMAT = "pate stability table"
_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_SLACK = Decimal("1e-45")
_KEYS = ("order", "rdp", "failure_prob", "adjacency", "numerators")
_LARGEST_LOGIT = 36.0
_MOST_STDS = 128  # beyond which no noise leaves more than 2**-40
# larger gaps are told apart only while passing grows likelier, and beyond the second number not at all
_FEW_GAPS = 1000
_MOST_GAPS = 250_000
_STEPS = 200


@dataclass(frozen=True, slots=True)
class StabilityTable:
    """Pass probabilities by level, the level being how many sensitivities the gap lies above the first."""

    order: float  # the Renyi order a > 1 that the table is made for
    rdp_budget: float  # the largest D_a between neighboring levels, either way round
    failure_prob: float  # the pass probability at level 0
    # of passing at level 0, 1, …; levels beyond the end pass like the last
    logits: tuple[float, ...]

    def __post_init__(self) -> None:
        plain = all(isinstance(logit, (int, float)) for logit in self.logits)
        require(len(self.logits) > 0 and plain, "logits", self.logits[:3], "at least one number")


@lru_cache(maxsize=64)
def optimal_stability_table(
    *, order: float, rdp_budget: float, failure_prob: float, num_levels: int
) -> StabilityTable:
    """The table with the largest pass probability at every level, >= 1 of them (docs/proofs/stability_test.md).

    Level 0 passes with `failure_prob`, in (0, 1); each next level with the largest probability whose D_order to the
    level before is at most `rdp_budget` in both directions. It costs this at `order`, > 1, and more above it. Greedy is
    optimal as the divergence grows with the distance.

    >>> table = optimal_stability_table(order=8.0, rdp_budget=0.001, failure_prob=1e-6, num_levels=3)
    >>> [round(logit, 3) for logit in table.logits]
    [-13.816, -12.708, -11.739]
    """
    require(order > 1 and math.isfinite(order), "order", order, "a finite number > 1")
    require_positive("rdp_budget", rdp_budget)
    require_probability("failure_prob", failure_prob)
    require_count("num_levels", num_levels)
    logits = [math.log(failure_prob) - math.log1p(-failure_prob)]
    step = 1.0
    while len(logits) < num_levels and logits[-1] < _LARGEST_LOGIT:
        step = _largest_step(logits[-1], order, rdp_budget, step)
        logits.append(logits[-1] + step)
    return StabilityTable(order, rdp_budget, failure_prob, tuple(logits))


def _largest_step(logit: float, order: float, rdp_budget: float, guess: float) -> float:
    """The largest rise of the log odds within the budget, from below: bracketed, then regula falsi (Illinois)."""
    # logarithms of both outcomes' probabilities
    q = -_log_add(0.0, -logit)
    not_q = -_log_add(0.0, logit)

    # the larger of both divergences between the levels, minus the budget
    def excess(step: float) -> float:
        p = -_log_add(0.0, -logit - step)
        not_p = -_log_add(0.0, logit + step)
        up = _log_add(order * p - (order - 1) * q, order * not_p - (order - 1) * not_q)
        down = _log_add(order * q - (order - 1) * p, order * not_q - (order - 1) * not_p)
        return max(up, down) / (order - 1) - rdp_budget

    low = 0.0
    high = guess
    side = 0
    low_value = -rdp_budget
    high_value = excess(high)
    while high_value <= 0:
        low = high
        low_value = high_value
        high = high * 2
        high_value = excess(high)
    for _ in range(_STEPS):
        if high - low <= 1e-13 * max(1.0, high):
            break
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        if not low < middle < high:
            middle = (low + high) / 2
        value = excess(middle)
        if value <= 0:  # an end that stays counts half from its second time on
            low = middle
            low_value = value
            high_value = high_value / (2 if side < 0 else 1)
            side = -1
        else:
            high = middle
            high_value = value
            low_value = low_value / (2 if side > 0 else 1)
            side = 1
        if value == 0:
            break
    return low


def _log_add(a: float, b: float) -> float:
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))


@dataclass(frozen=True, kw_only=True)
class StabilityTest(Parameters):
    """Passes with a probability that depends on the gap alone. Noise on the gap is one way to choose that probability.

    Formal guarantee, with sens = 2 (replace-one) or 1 (add/remove): if the top-k sets of neighbors differ, both gaps
    are at most sens, and both pass with probability at most `failure_prob`. Otherwise the gaps differ by at most sens.
    So releasing the top-k set on a pass costs one bit, except with probability `failure_prob`: the event is computed
    from the very numbers that are compared with a uniform draw.

    Attributes:
        pass_probs: the probability of passing at gap 0, 1, …: never decreasing, at most `failure_prob` up to sens.
            Rounded down to multiples of 2**-53, which a draw has exactly, and to at most 1 - 2**-40. Larger gaps pass
            like the last of these, which costs nothing: a cut moves no gap farther from a neighbor's.
        failure_prob: in (0, 1).
        adjacency: what one change means.
        num_teachers: T, the largest gap; that of the last probability where it is 0.

    Source: Zhu & Wang 2022, Algorithms 4 and 5, with the floor at sens and an exact quantile;
    docs/proofs/stability_test.md.

    >>> test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=10, adjacency="add_remove")
    >>> round(test.pass_probs[10], 9)
    0.985134365
    """

    pass_probs: tuple[float, ...]
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    num_teachers: int = field(default=0, metadata=NATURAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 / _GRID <= self.failure_prob < 1,
            "failure_prob",
            self.failure_prob,
            "a number in [2**-53, 1)",
        )
        probs = validation.require_array("pass_probs", self.pass_probs).astype(np.float64)
        require(
            probs.ndim == 1 and probs.size > 0,
            "pass_probs",
            probs.shape,
            "one probability for each gap",
        )
        validation.require_each(
            "pass_probs", probs, (probs >= 0) & (probs <= 1), "numbers in [0, 1]"
        )
        validation.require_rising("pass_probs", probs.tolist())
        floor = probs[: self.adjacency.gap_sensitivity + 1].max()
        limit = self.failure_prob
        require(
            floor <= limit,
            "pass_probs",
            floor,
            f"at most failure_prob={limit} up to the sensitivity",
        )
        rounded = np.floor(np.minimum(probs, _LARGEST_PROB) * _GRID) / _GRID
        normalize_field(self, "pass_probs", tuple(rounded.tolist()))
        normalize_field(self, "num_teachers", max(self.num_teachers, len(rounded) - 1))

    @staticmethod
    def gaussian(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> "StabilityTest":
        """Passes if max(sens, gap) + N(0, test_std**2) - c > sens, with c = test_std * Phi^-1(1 - failure_prob)."""
        return _made(
            "gaussian",
            require_positive("test_std", test_std),
            failure_prob,
            num_teachers,
            adjacency,
        )

    @staticmethod
    def laplace(
        *,
        test_std: float,
        failure_prob: float,
        num_teachers: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> "StabilityTest":
        """Passes if max(sens, gap) + Laplace(b) - b log(1 / (2 failure_prob)) > sens, with b = test_std / sqrt 2."""
        return _made(
            "laplace", require_positive("test_std", test_std), failure_prob, num_teachers, adjacency
        )

    @staticmethod
    def from_table(
        table: StabilityTable, *, num_teachers: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> "StabilityTest":
        """Passes by the table's level max(0, ceil((gap - sens) / sens)); neighbors are one level apart at most."""
        require_kind("table", table, StabilityTable, "a StabilityTable")
        return _made(table, 0.0, table.failure_prob, num_teachers, adjacency)

    @cached_property
    def event(self) -> Event:
        """The price of one test, whichever its outcome."""
        with np.errstate(divide="ignore"):
            logits = np.log(self._probs) - np.log1p(-self._probs)
        return ApproximateEvent(
            OneBitEvent(tuple(logits.tolist()), self.adjacency.gap_sensitivity), self.failure_prob
        )

    @cached_property
    def _probs(self) -> Array:
        return np.array(self.pass_probs)

    def __call__(self, gaps: NDArray[np.integer], *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Whether each gap passes: gaps `[Q]` or `[]`, in 0..num_teachers; the same shape of bits."""
        validation.require_generator(rng)
        gaps = np.asarray(gaps)
        validation.require_histogram("gaps", np.atleast_1d(gaps), num_teachers=self.num_teachers)
        return np.asarray(rng.random(gaps.shape) < self.pass_probabilities(gaps))

    def pass_probabilities(self, gaps: NDArray[np.integer]) -> Array:
        """The exact probability of passing, elementwise."""
        return np.asarray(self._probs[np.minimum(gaps, len(self._probs) - 1)])

    def gap_to_pass(self, probability: float) -> int | None:
        """The smallest gap that passes with at least this probability; None where no gap of T teachers does."""
        enough = np.flatnonzero(self._probs >= probability)
        return int(enough[0]) if enough.size else None


def _made(
    rule: str | StabilityTable,
    test_std: float,
    failure_prob: float,
    num_teachers: int,
    adjacency: Adjacency,
) -> StabilityTest:
    # before the cache, to which 800 and 800.0 are the same
    require_probability("failure_prob", failure_prob)
    require_count("num_teachers", num_teachers)
    return _made_once(rule, test_std, failure_prob, num_teachers, Adjacency.parse(adjacency))


@lru_cache(maxsize=64)
def _made_once(
    rule: str | StabilityTable,
    test_std: float,
    failure_prob: float,
    num_teachers: int,
    adjacency: Adjacency,
) -> StabilityTest:
    """The test of a kind of noise or of a table, for every gap up to T, or so many that the last passes for certain."""
    sens = adjacency.gap_sensitivity

    def passing(excess: Array) -> Array:  # the chance by how far a gap is above sens
        if isinstance(rule, StabilityTable):
            levels = np.minimum(np.ceil(excess / sens).astype(np.int64), len(rule.logits) - 1)
            return np.asarray(expit(np.array(rule.logits)[levels]))
        if rule == "gaussian":
            return np.asarray(np.exp(log_ndtr(excess / test_std + ndtri(failure_prob))))
        x = excess * math.sqrt(2) / test_std + math.log(2 * failure_prob)
        tail = 0.5 * np.exp(-np.abs(x))
        return np.where(x < 0, tail, 1 - tail)

    if isinstance(rule, StabilityTable):
        certain = float(sens * (len(rule.logits) - 1))
    else:
        certain = test_std * float(
            np.searchsorted(passing(np.arange(_MOST_STDS + 1.0) * test_std), _LARGEST_PROB)
        )
    last = min(num_teachers, _MOST_GAPS, max(_FEW_GAPS, math.ceil(min(certain, _MOST_GAPS)) + sens))
    gaps = np.arange(last + 1.0)
    probs = passing(np.maximum(gaps - sens, 0.0))
    made = tuple(np.where(gaps <= sens, np.minimum(probs, failure_prob), probs).tolist())
    return StabilityTest(
        pass_probs=made, failure_prob=failure_prob, adjacency=adjacency, num_teachers=num_teachers
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class CertifiedTable(Parameters):
    """The pass probabilities of a stability test for T teachers, as multiples of 2**-53, and what one test costs.

    Formal guarantees:
        * A draw passes with exactly numerator / 2**53; with at most `failure_prob` up to the adjacency's sensitivity.
        * The Renyi divergence of one test at `order` is at most `rdp`, recomputed from the integers with 60 digits
          whenever a table is made or read; a table that costs more than it claims is refused. Other orders are priced
          by the accountant, from the same probabilities.

    Attributes:
        numerators: of 2**53, at gap 0, 1, …, T: never decreasing, at most 2**53 - 2**13.
        order: the Renyi order a > 1 of the claim.
        rdp: what one test costs at that order, at most.
        failure_prob: in [2**-53, 1).
        adjacency: what one change means; the table serves no other.

    Source: docs/proofs/stability_test.md.

    >>> test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=10)
    >>> table = CertifiedTable.of(test, order=4.0)
    >>> table.numerators[:2], round(table.rdp, 3)
    ((90071992547409, 90071992547409), 1.432)
    """

    numerators: tuple[int, ...]
    order: float
    rdp: float
    failure_prob: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 < self.order < math.inf, "order", self.order, "a finite number > 1")
        for numerator in self.numerators:
            require_count("numerators", numerator, minimum=0)
            require(
                numerator <= _LARGEST_NUMERATOR,
                "numerators",
                numerator,
                f"at most {_LARGEST_NUMERATOR}",
            )
        _ = self.test  # checks floor and order
        cost = certified_rdp(
            self.numerators, order=self.order, reach=self.adjacency.gap_sensitivity
        )
        least = (
            f"at least {validation.rounded_up(cost)}, what the table costs at order {self.order}"
        )
        require(cost <= self.rdp, "rdp", self.rdp, least)

    @classmethod
    def of(cls, test: StabilityTest, *, order: float) -> Self:
        """The table of a test, with the smallest claim that holds at an order."""
        require(1 < order < math.inf, "order", order, "a finite number > 1")
        probs = test.pass_probabilities(np.arange(test.num_teachers + 1)).tolist()
        numerators = tuple(int(prob * _GRID) for prob in probs)
        rdp = certified_rdp(numerators, order=order, reach=test.adjacency.gap_sensitivity)
        return test.part(cls, numerators=numerators, order=order, rdp=rdp)

    @property
    def num_teachers(self) -> int:
        """The number of teachers that the table is for."""
        return len(self.numerators) - 1

    @cached_property
    def test(self) -> StabilityTest:
        """Returns the stability test that passes with the table's probabilities."""
        probs = tuple(numerator / _GRID for numerator in self.numerators)
        return StabilityTest(
            pass_probs=probs, failure_prob=self.failure_prob, adjacency=self.adjacency
        )

    @property
    def digest(self) -> str:
        """A name that no two different tables share."""
        return hashlib.sha256(
            repr(tuple(getattr(self, name) for name in _KEYS)).encode()
        ).hexdigest()

    def test_for(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """The test; refuses another T or adjacency than the table was made for."""
        for name, value in (("num_teachers", num_teachers), ("adjacency", adjacency)):
            made_for = getattr(self, name)
            require(value == made_for, name, value, f"{made_for}, as in the table")
        return self.test

    def __repr__(self) -> str:
        head = f"order={self.order}, rdp={self.rdp}, num_teachers={self.num_teachers}, adjacency={self.adjacency}"
        return f"CertifiedTable({head}, sha256={self.digest})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as JSON, exactly."""
        values = {name: getattr(self, name) for name in _KEYS[:-1]}
        values |= {
            "num_teachers": self.num_teachers,
            "denominator": _GRID,
            "numerators": self.numerators,
        }
        write_text(Path(path), json.dumps({"format": _FORMAT} | values) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote and certifies it anew; `InvalidValue` for other files and false claims."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            fields: dict[str, Any] = {name: values[name] for name in _KEYS}
            fields["numerators"] = numerators = tuple(fields["numerators"])
            head = values["format"], values["denominator"], values["num_teachers"]
            require(
                head == (_FORMAT, _GRID, len(numerators) - 1),
                "format",
                head,
                "that of a stability table",
            )
        except OSError as error:
            raise InvalidValue(
                "table", path, rule=f"a file that can be read ({error.strerror})"
            ) from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidValue("table", path, rule="the JSON of a stability table") from error
        try:
            return cls(**fields)
        except (ValueError, TypeError, ArithmeticError) as error:
            rule = f"a table whose claims hold ({error})"
            raise InvalidValue("table", path, rule=rule) from error


@lru_cache(maxsize=64)
def certified_rdp(numerators: tuple[int, ...], *, order: float, reach: int) -> float:
    """The largest Renyi divergence between tests whose gaps differ by at most `reach`, rounded up; 60 digits."""
    # pairs exactly `reach` apart are the worst, either way round, as the numerators never decrease
    beyond = (*numerators[reach:], *numerators[-1:] * reach)
    pairs = {pair for pair in zip(numerators, beyond, strict=False) if pair[0] != pair[1]}
    with localcontext(_EXACT):
        a = Decimal(order)
        moments = [
            _log_moment(*pair, a) for low, high in pairs for pair in ((low, high), (high, low))
        ]
        worst = max(moments, default=Decimal(0))
        cost = float((worst + a * _SLACK) / (a - 1)) if worst > 0 else 0.0
    return math.nextafter(cost, math.inf) if cost else 0.0


def _log_moment(p: int, q: int, a: Decimal) -> Decimal:
    """(a - 1) D_a between two bits with probabilities p and q of 2**53."""
    if q == 0:
        return Decimal("inf")
    total = Decimal(0)
    for mine, other in ((p, q), (_GRID - p, _GRID - q)):
        if mine > 0:
            share = Decimal(other) / _GRID
            ratio = Decimal(mine) / other
            total += share * (a * ratio.ln()).exp()
    return total.ln()
