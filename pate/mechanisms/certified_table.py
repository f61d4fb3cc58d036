"""Certified tables: the pass probabilities of a stability test as integers, and a price that is verified on loading."""

import hashlib
import json
import math
import os
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

import numpy as np

from pate.accounting import Adjacency
from pate.accounting.rounding import ceil_to_digits
from pate.files.atomic import write_text
from pate.mechanisms.parameters import Parameters
from pate.mechanisms.stability_test import GRID, StabilityTest
from pate.validation import InvalidValue, require, require_count

# The numerator of `LARGEST_PASS_PROB`.
_LARGEST_NUMERATOR = GRID - 2**13
# The name of the file format.
_FORMAT = "pate stability table"
# Arithmetic with 60 digits, in which no exponent overflows.
_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
# A bound on the relative error of a moment in this arithmetic.
_ROUNDING_ERROR = Decimal("1e-45")
# The fields of a table, in the order in which a file and the digest have them.
_FIELDS = ("order", "rdp", "failure_prob", "adjacency", "numerators")


@dataclass(frozen=True, kw_only=True, repr=False)
class CertifiedTable(Parameters):
    """The pass probabilities of a stability test for T teachers, as multiples of 2**-53, and the price of one test.

    Formal guarantees:
        * At a gap g the test passes with probability numerators[g] / 2**53 exactly. For gaps up to the sensitivity this
          is at most `failure_prob`.
        * The Renyi divergence of one test at `order` is at most `rdp`. It is recomputed from the integers, with 60
          digits, whenever a table is constructed or loaded. A table that costs more than `rdp` is refused. Accountants
          price the test of a table (`test`) at every order from the same probabilities.

    Attributes:
        numerators: pass probabilities times 2**53, at gap 0, 1, …, T; never decreasing, at most 2**53 - 2**13.
        order: the Renyi order a > 1 at which `rdp` holds.
        rdp: a bound on the Renyi divergence of one test at `order`.
        failure_prob: the largest pass probability up to the sensitivity, in [2**-53, 1).
        adjacency: the adjacency for which the table holds.

    Source: docs/proofs/stability_test.md.

    >>> test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=10)
    >>> table = CertifiedTable.from_test(test, order=4.0)
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
            is_small = numerator <= _LARGEST_NUMERATOR
            require(is_small, "numerators", numerator, f"at most {_LARGEST_NUMERATOR}")
        self._make_test()  # raises `InvalidValue` for probabilities that no stability test has
        cost = certified_rdp(
            self.numerators, order=self.order, reach=self.adjacency.gap_sensitivity
        )
        if cost > self.rdp:
            rule = f"at least {ceil_to_digits(cost)}, what the table costs at order {self.order}"
            raise InvalidValue("rdp", self.rdp, rule=rule)

    @classmethod
    def from_test(cls, stability_test: StabilityTest, *, order: float) -> Self:
        """Returns the table of a stability test, with the smallest valid `rdp` at the Renyi order `order` > 1."""
        require(1 < order < math.inf, "order", order, "a finite number > 1")
        pass_probs = stability_test.pass_probabilities(
            gaps=np.arange(stability_test.num_teachers + 1)
        ).tolist()
        pass_prob_numerators = tuple(int(pass_prob * GRID) for pass_prob in pass_probs)
        rdp = certified_rdp(
            pass_prob_numerators, order=order, reach=stability_test.adjacency.gap_sensitivity
        )
        return stability_test.convert_to(
            parameters_class=cls, numerators=pass_prob_numerators, order=order, rdp=rdp
        )

    @property
    def num_teachers(self) -> int:
        """The number of teachers T, which is the largest gap of the table."""
        return len(self.numerators) - 1

    def _make_test(self) -> StabilityTest:
        """Returns the stability test that passes with the table's probabilities.

        Raises `InvalidValue` unless the probabilities never fall, and are at most `failure_prob` for gaps up to the
        sensitivity.
        """
        pass_probs = tuple(numerator / GRID for numerator in self.numerators)
        return StabilityTest(
            pass_probs=pass_probs, failure_prob=self.failure_prob, adjacency=self.adjacency
        )

    @cached_property
    def test(self) -> StabilityTest:
        """The stability test that passes with the table's probabilities."""
        return self._make_test()

    @property
    def digest(self) -> str:
        """The SHA-256 digest of all fields, which identifies the table."""
        field_values = tuple(getattr(self, field_name) for field_name in _FIELDS)
        return hashlib.sha256(repr(field_values).encode()).hexdigest()

    def test_for(self, *, num_teachers: int, adjacency: Adjacency) -> StabilityTest:
        """Returns the stability test, after a check that the table is for this number of teachers and this adjacency.

        Raises `InvalidValue` if the number of teachers or the adjacency differs from that of the table.
        """
        if num_teachers != self.num_teachers:
            rule = f"{self.num_teachers}, as in the table"
            raise InvalidValue("num_teachers", num_teachers, rule=rule)
        if adjacency != self.adjacency:
            rule = f"{self.adjacency}, as in the table"
            raise InvalidValue("adjacency", adjacency, rule=rule)
        return self.test

    def __repr__(self) -> str:
        head = f"order={self.order}, rdp={self.rdp}, num_teachers={self.num_teachers}, adjacency={self.adjacency}"
        return f"CertifiedTable({head}, sha256={self.digest})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a file as JSON, without rounding."""
        table_fields = {field_name: getattr(self, field_name) for field_name in _FIELDS[:-1]}
        table_fields |= {
            "num_teachers": self.num_teachers,
            "denominator": GRID,
            "numerators": self.numerators,
        }
        write_text(Path(path), text=json.dumps({"format": _FORMAT} | table_fields) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Returns the table of a file that `save` wrote, after its price is computed again.

        Raises `InvalidValue` for a file that cannot be read, that is no stability table, or whose `rdp` is too small.
        """
        try:
            table_fields = json.loads(Path(path).read_text(encoding="utf-8"))
            numerators = tuple(table_fields["numerators"])
            table_head = (
                table_fields["format"],
                table_fields["denominator"],
                table_fields["num_teachers"],
            )
            is_table = table_head == (_FORMAT, GRID, len(numerators) - 1)
            require(is_table, "format", table_head, "that of a stability table")
            order = table_fields["order"]
            rdp = table_fields["rdp"]
            failure_prob = table_fields["failure_prob"]
            adjacency = table_fields["adjacency"]
        except OSError as error:
            rule = f"a file that can be read ({error.strerror})"
            raise InvalidValue("table", path, rule=rule) from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidValue("table", path, rule="the JSON of a stability table") from error
        try:
            return cls(
                numerators=numerators,
                order=order,
                rdp=rdp,
                failure_prob=failure_prob,
                adjacency=adjacency,
            )
        except (ValueError, TypeError, ArithmeticError) as error:
            rule = f"a table whose claims hold ({error})"
            raise InvalidValue("table", path, rule=rule) from error


# Every copy of a table is checked when it is made, and arithmetic of 60 digits is slow.
@lru_cache(maxsize=64)
def certified_rdp(pass_prob_numerators: tuple[int, ...], *, order: float, reach: int) -> float:
    """Returns the largest Renyi divergence of one test between gaps that differ by at most `reach`, rounded up.

    Args:
        pass_prob_numerators: pass probabilities times 2**53, at gap 0, 1, …; never decreasing.
        order: the Renyi order > 1.
        reach: the sensitivity of the gap.

    The computation has 60 digits.
    """
    # The numerators never decrease, so pairs of gaps exactly `reach` apart have the largest divergence. Beyond the last
    # gap the last probability holds.
    numerators_at_reach = (*pass_prob_numerators[reach:], *pass_prob_numerators[-1:] * reach)
    # `strict=False`: with fewer than `reach` gaps, `numerators_at_reach` is longer, and its end has no partner.
    pairs = {
        (lower_numerator, higher_numerator)
        for lower_numerator, higher_numerator in zip(
            pass_prob_numerators, numerators_at_reach, strict=False
        )
        if lower_numerator != higher_numerator
    }
    with localcontext(_EXACT):
        decimal_order = Decimal(order)
        log_moments = []
        for lower_numerator, higher_numerator in pairs:
            log_moments.append(
                _log_moment(
                    numerator_of_p=lower_numerator,
                    numerator_of_q=higher_numerator,
                    order_a=decimal_order,
                )
            )
            log_moments.append(
                _log_moment(
                    numerator_of_p=higher_numerator,
                    numerator_of_q=lower_numerator,
                    order_a=decimal_order,
                )
            )
        largest_log_moment = max(log_moments, default=Decimal(0))
        if largest_log_moment <= 0:
            return 0.0
        cost = float((largest_log_moment + decimal_order * _ROUNDING_ERROR) / (decimal_order - 1))
    return math.nextafter(cost, math.inf)


def _log_moment(*, numerator_of_p: int, numerator_of_q: int, order_a: Decimal) -> Decimal:
    """Returns (a - 1) D_a(P || Q) for a bit that is 1 with the probabilities numerator / 2**53 under P and Q.

    The result has the digits of the current context of `decimal`; it is infinity where Q has the numerator 0.
    """
    if numerator_of_q == 0:
        return Decimal("inf")
    moment = Decimal(0)
    for p_numerator, q_numerator in (
        (numerator_of_p, numerator_of_q),
        (GRID - numerator_of_p, GRID - numerator_of_q),
    ):
        if p_numerator > 0:
            ratio_of_probabilities = Decimal(p_numerator) / q_numerator
            moment += Decimal(q_numerator) / GRID * (order_a * ratio_of_probabilities.ln()).exp()
    return moment.ln()
