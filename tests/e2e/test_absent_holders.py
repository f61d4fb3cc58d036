"""Aggregators of every kind release with a holder absent, at the price and for the T that hold when all are present."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from pate.aggregators import Aggregator, GaussianVotes
from pate.federated import Contribution
from pate.federated.holder import answer
from tests.e2e.federated_run import SmallHolders, federated_plan, small_release, small_request
from tests.e2e.small_run import NUM_TEACHERS
from tests.e2e.test_parity import shipped

HOLDERS = 4
FORMS: dict[str, dict[str, Any]] = {"bits": {}, "confidences": {"cast": "confidences"}}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Contribution]]:
    folder, plan = tmp_path_factory.mktemp("homes"), federated_plan(GaussianVotes(noise_std=1.0), HOLDERS)

    def said(form: str, holder: str) -> Contribution:
        made, own = SmallHolders(folder / form, HOLDERS, plan)(holder)
        return Contribution(holder, answer(made, small_request(**FORMS[form]), own))

    return {form: [said(form, str(number)) for number in range(1, HOLDERS + 1)] for form in FORMS}


@pytest.mark.parametrize(
    "name", ["gaussian_votes", "gnmax", "powerset_gnmax", "centered_votes", "stable_top_k_not_prior"]
)
def test_a_release_with_a_holder_absent_costs_what_it_costs_with_all(
    name: str, answers: dict[str, list[Contribution]], tmp_path: Path
) -> None:
    aggregator: Aggregator = shipped(name)
    form = "confidences" if aggregator.input_form == "centered" else "bits"
    plan = federated_plan(aggregator, HOLDERS)
    terms = []
    for count in (HOLDERS, HOLDERS - 1):
        made = small_release(plan, tmp_path / str(count), HOLDERS, max_absent=1, **FORMS[form])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms.append(made.run(lambda count=count: answers[form][:count]))
    assert terms[0].privacy == terms[1].privacy
    assert terms[0].num_teachers == terms[1].num_teachers == NUM_TEACHERS
    assert terms[0].release.num_queries == terms[1].release.num_queries
