"""A stability test as exact integers, with what it costs at one order: checked anew whenever its file is read."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from pate.accounting import Adjacency
from pate.files.atomic import write_text
from pate.mechanisms.stable.stability_test import StabilityTest
from pate.validation import InvalidValue, require, require_count, rounded_up

_DENOMINATOR = 2**53
_LARGEST = _DENOMINATOR - 2**13  # as StabilityTest rounds
_FORMAT = "pate stability table"
_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_SLACK = Decimal("1e-45")
_KEYS = ("order", "rdp", "failure_prob", "adjacency", "numerators")


@dataclass(frozen=True, kw_only=True, repr=False)
class CertifiedTable:
    """The pass probabilities of a stability test for T teachers, as multiples of 2**-53, and what one test costs.

    Formal guarantees:
        * A draw passes with exactly numerator / 2**53.
        * The Renyi divergence of one test at `order` is at most `rdp`, recomputed from the integers with 60 digits
          whenever a table is made or read; a table that costs more than it claims is refused.
        * Up to the adjacency's sensitivity a test passes with at most `failure_prob`.

    Other orders are priced by the accountant, from the same probabilities.

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
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        require(1 < self.order < math.inf, "order", self.order, "a finite number > 1")
        for numerator in self.numerators:
            require_count("numerators", numerator, minimum=0)
            require(numerator <= _LARGEST, "numerators", numerator, f"at most {_LARGEST}")
        _ = self.test  # checks floor and order
        cost = certified_rdp(self.numerators, order=self.order, reach=self.adjacency.gap_sensitivity)
        require(
            cost <= self.rdp,
            "rdp",
            self.rdp,
            f"at least {rounded_up(cost)}, what the table costs at order {self.order}",
        )

    @classmethod
    def of(cls, test: StabilityTest, *, order: float) -> CertifiedTable:
        """The table of a test, with the smallest claim that holds at an order."""
        require(1 < order < math.inf, "order", order, "a finite number > 1")
        numerators = tuple(int(prob * _DENOMINATOR) for prob in test.pass_probs)
        rdp = certified_rdp(numerators, order=order, reach=test.adjacency.gap_sensitivity)
        return cls(
            numerators=numerators, order=order, rdp=rdp, failure_prob=test.failure_prob, adjacency=test.adjacency
        )

    @property
    def num_teachers(self) -> int:
        """T, the largest gap."""
        return len(self.numerators) - 1

    @property
    def test(self) -> StabilityTest:
        """The test with exactly these probabilities."""
        return _test_of(self.numerators, self.failure_prob, self.adjacency)

    @property
    def digest(self) -> str:
        """A name that no two different tables share."""
        values = tuple(getattr(self, name) for name in _KEYS)
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def test_for(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """The test, if the table was made for that T and that adjacency; raises otherwise."""
        require(
            num_teachers == self.num_teachers, "num_teachers", num_teachers, f"{self.num_teachers}, as in the table"
        )
        require(adjacency is self.adjacency, "adjacency", adjacency, f"{self.adjacency}, as in the table")
        return self.test

    def __repr__(self) -> str:
        head = f"order={self.order}, rdp={self.rdp}, num_teachers={self.num_teachers}, adjacency={self.adjacency}"
        return f"CertifiedTable({head}, sha256={self.digest})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as JSON, exactly."""
        values = {name: getattr(self, name) for name in _KEYS[:-1]}
        values |= {"num_teachers": self.num_teachers, "denominator": _DENOMINATOR, "numerators": self.numerators}
        write_text(Path(path), json.dumps({"format": _FORMAT} | values) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CertifiedTable:
        """Reads what `save` wrote and certifies it anew.

        Raises:
            InvalidValue: no file there, another format, or a table that costs more than it claims.
        """
        try:
            values = json.loads(Path(path).read_text())
            known = values["format"] == _FORMAT and values["denominator"] == _DENOMINATOR
            fields: dict[str, Any] = {name: values[name] for name in _KEYS}
            fields["numerators"] = tuple(fields["numerators"])
            counted = len(fields["numerators"]) == values["num_teachers"] + 1
        except OSError as error:
            raise InvalidValue(f"table={path}: expected a file that can be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidValue(f"table={path}: expected the JSON of a stability table") from error
        require(known and counted, "table", path, "the JSON of a stability table")
        try:
            return cls(**fields)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise InvalidValue(f"table={path}: {error}") from error


@lru_cache(maxsize=64)
def certified_rdp(numerators: tuple[int, ...], *, order: float, reach: int) -> float:
    """The largest Renyi divergence between tests whose gaps differ by at most `reach`, rounded up; 60 digits.

    Pairs exactly `reach` apart are the worst, either way round, as the numerators never decrease.
    """
    with localcontext(_EXACT):
        a = Decimal(order)
        moments = [_log_moment(*pair, a) for pair in set(_pairs(numerators, reach))]
        worst = max(moments, default=Decimal(0))
        cost = (worst + a * _SLACK) / (a - 1) if worst > 0 else Decimal(0)
    return math.inf if not cost.is_finite() else (math.nextafter(float(cost), math.inf) if cost else 0.0)


def _pairs(numerators: tuple[int, ...], reach: int) -> Iterator[tuple[int, int]]:
    """Both orders of every pair that differs."""
    last = len(numerators) - 1
    for gap, low in enumerate(numerators):
        high = numerators[min(gap + reach, last)]
        if low != high:
            yield low, high
            yield high, low


def _log_moment(p: int, q: int, a: Decimal) -> Decimal:
    """(a - 1) D_a between two bits with probabilities p and q of 2**53."""
    if q == 0:
        return Decimal("inf")
    total = Decimal(0)
    for mine, other in ((p, q), (_DENOMINATOR - p, _DENOMINATOR - q)):
        if mine > 0:
            share, ratio = Decimal(other) / _DENOMINATOR, Decimal(mine) / other
            total += share * (a * ratio.ln()).exp()
    return total.ln()


@lru_cache(maxsize=64)
def _test_of(numerators: tuple[int, ...], failure_prob: float, adjacency: Adjacency) -> StabilityTest:
    probs = tuple(numerator / _DENOMINATOR for numerator in numerators)
    return StabilityTest(pass_probs=probs, failure_prob=failure_prob, adjacency=adjacency)
