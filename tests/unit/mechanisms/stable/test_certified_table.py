"""A test as exact integers: its certificate against high precision, its file, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from pate.accounting.events import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.mechanisms import CertifiedTable, StabilityTest, optimal_stability_table
from pate.validation import InvalidValue

SMALL = StabilityTest.gaussian(test_std=2.0, failure_prob=1e-3, num_teachers=12)


def table_of(order: float, budget: float, failure_prob: float, adjacency: str) -> CertifiedTable:
    table = optimal_stability_table(order=order, rdp_budget=budget, failure_prob=failure_prob, num_levels=101)
    test = StabilityTest.from_table(table, num_teachers=100, adjacency=adjacency)
    return CertifiedTable.of(test, order=order)


def worst_divergence(table: CertifiedTable) -> Any:
    """Over all pairs within the sensitivity, both ways, with 80 digits."""
    reach, order = table.adjacency.gap_sensitivity, mpmath.mpf(table.order)
    worst = mpmath.mpf(0)
    with mpmath.workdps(80):
        for gap, mine in enumerate(table.numerators):
            for other in table.numerators[max(gap - reach, 0) : gap + reach + 1]:
                p, q = mpmath.mpf(mine) / 2**53, mpmath.mpf(other) / 2**53
                moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
                worst = max(worst, mpmath.log(moment) / (order - 1))
        return worst


@pytest.mark.parametrize(
    ("order", "budget", "failure_prob"), [(7.5, 1.5e-3, 1e-9), (1.5, 0.3, 1e-6), (200.0, 1e-4, 1e-12), (4.0, 2.0, 0.01)]
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_certificate_is_the_rounded_tables_cost(
    order: float, budget: float, failure_prob: float, adjacency: str
) -> None:
    table = table_of(order, budget, failure_prob, adjacency)
    exact = worst_divergence(table)
    assert exact <= table.rdp <= exact * (1 + mpmath.mpf(1e-15))
    priced = float(rdp_curve(count_leaves(table.test.event), np.array([order]))[0])
    assert table.rdp * (1 - 1e-9) <= priced <= table.rdp * (1 + 1e-6)


def test_the_certificate_looks_both_ways_round() -> None:
    """From nearly certain to 0.9: a refusal becomes likelier by 10**8, and a pass by a ninth less."""
    probs = (0.2, 0.2, 0.5, 0.9, 1 - 1e-9)
    table = CertifiedTable.of(StabilityTest(pass_probs=probs, failure_prob=0.2, adjacency="add_remove"), order=4.0)
    exact = worst_divergence(table)
    assert 17 < exact <= table.rdp <= exact * (1 + mpmath.mpf(1e-15))


def test_rounding_costs_more_than_the_budget_that_the_table_was_made_for() -> None:
    """Why the claim is certified on the integers: at 1e-12 one grid step is a ten thousandth of the probability."""
    table = table_of(7.5, 1.5e-3, 1e-12, "add_remove")
    assert 1.5e-3 < table.rdp < 1.5e-3 * 1.1


def test_a_file_gives_back_the_same_table_and_test(tmp_path: Path) -> None:
    table = table_of(7.5, 1.5e-3, 1e-9, "replace_one")
    table.save(tmp_path / "table.json")
    again = CertifiedTable.load(tmp_path / "table.json")
    assert again == table
    assert again.digest == table.digest
    assert again.test_for(num_teachers=100, adjacency=table.adjacency).pass_probs == table.test.pass_probs
    values = json.loads((tmp_path / "table.json").read_text())
    assert values["num_teachers"] == 100
    drawn = [Fraction(numerator, values["denominator"]) for numerator in values["numerators"]]
    assert [Fraction(prob) for prob in again.test.pass_probs] == drawn


def test_a_table_that_costs_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    table = table_of(7.5, 1.5e-3, 1e-9, "replace_one")
    with pytest.raises(InvalidValue, match=r"rdp=0\.00135.*: expected at least 0\.0015\d*, what the table costs"):
        replace(table, rdp=0.9 * table.rdp)
    with pytest.raises(InvalidValue, match=r"expected at least .*, what the table costs at order 8"):
        replace(table, order=8.0)
    table.save(tmp_path / "table.json")
    text = (tmp_path / "table.json").read_text()
    (tmp_path / "table.json").write_text(text.replace(str(table.numerators[60]), str(table.numerators[60] + 2**40)))
    with pytest.raises(InvalidValue, match=r"table=.*table\.json: rdp=.*: expected at least .*, what the table costs"):
        CertifiedTable.load(tmp_path / "table.json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"order": 1.0}, r"order=1\.0: expected a finite number > 1"),
        ({"numerators": (1, 1, 1, 2**53)}, r"numerators=9007199254740992: expected at most 9007199254732800"),
        ({"numerators": (0, 0, 0, -1)}, r"numerators=-1: expected a whole number >= 0"),
        ({"numerators": (0, 0, 0, 0.5)}, r"numerators=0\.5: expected a whole number >= 0"),
        ({"numerators": (1, 1, 1, 5, 4)}, r"pass_probs=.*, .*: expected numbers that never decrease"),
        (
            {"numerators": (2**50,) * 4},
            r"pass_probs=0\.125: expected at most failure_prob=0\.001 up to",
        ),
        ({"numerators": (0, 0, 0, 2**20)}, r"rdp=.*: expected at least inf, what the table costs"),
        ({"adjacency": "sideways"}, r"adjacency=sideways: expected one of replace_one, add_remove"),
    ],
)
def test_impossible_tables_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        replace(CertifiedTable.of(SMALL, order=3.0), **fields)


def test_a_table_that_never_passes_costs_nothing() -> None:
    never = CertifiedTable(numerators=(0,) * 8, order=3.0, rdp=0.0, failure_prob=0.5)
    assert never.test.pass_probs == (0.0,) * 8


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"format": "pate stability table", "order": 2}'])
def test_a_damaged_file_is_one_line_of_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=r"table=.*table\.json: expected the JSON of a stability table"):
        CertifiedTable.load(path)


@pytest.mark.parametrize(("key", "value"), [("num_teachers", 7), ("format", "other"), ("denominator", 3)])
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "table.json"
    CertifiedTable.of(SMALL, order=3.0).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InvalidValue, match=r"table=.*: expected the JSON of a stability table"):
        CertifiedTable.load(path)


def test_a_missing_file_is_one_line_of_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"table=.*nowhere\.json: expected a file that can be read \(No such file"):
        CertifiedTable.load(tmp_path / "nowhere.json")


def test_a_claim_below_the_cost_by_the_last_digit_is_refused() -> None:
    table = CertifiedTable.of(SMALL, order=4.0)
    with pytest.raises(InvalidValue, match=r"rdp=.*: expected at least"):
        replace(table, rdp=float(np.nextafter(table.rdp, 0.0)))
