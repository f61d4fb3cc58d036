"""Attacks on small releases: lower bounds are at most the price of sound releases, and above that of broken ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from pate.accounting import (
    AutoAccountant,
    Budget,
    ExactAccountant,
    RdpAccountant,
    TruncatedNegativeBinomial,
)
from pate.aggregators import BoundaryMax, CenteredVotes, GaussianVotes, StableTopK
from pate.auditing.attack import Attack
from pate.auditing.attack.attack import AttackResult
from pate.cli.attack import attack as run_attack
from pate.config import CONFIG_FOLDER, register_configs
from pate.data import Dataset, Split
from tests.refusals import ANY, Refusal, refused_parameter

VOTES_OF_RECORDS = CenteredVotes(noise_multiplier=1.0)


def made_up_dataset(num_groups: int = 2000, num_inputs: int = 40, num_labels: int = 20) -> Dataset:
    """Returns made-up data with `num_groups` private, 600 public and 50 test records of one group each."""
    rng = np.random.default_rng(0)
    start = 0

    def draw_split(num_records: int) -> Split:
        nonlocal start
        inputs = rng.normal(size=(num_records, num_inputs)).astype(np.float32)
        ids = np.arange(start, start + num_records)
        start += num_records
        return Split(inputs, labels=inputs[:, :num_labels] > 1.5, record_ids=ids, group_ids=ids)

    names = tuple(f"label{number}" for number in range(num_labels))
    return Dataset(
        name="drawn",
        real=False,
        kind="features",
        label_names=names,
        private=draw_split(num_records=num_groups),
        public=draw_split(num_records=600),
        test=draw_split(num_records=50),
    )


def attack_result(
    aggregator: Any = VOTES_OF_RECORDS,
    *,
    epsilon: float = 2.0,
    num_groups: int = 2000,
    num_queries: int = 100,
    num_teachers: int = 4000,
    num_canaries: int = 400,
    num_runs: int = 2,
    sabotage: Any = None,
    has_unknown_labels: bool = False,
) -> AttackResult:
    """Returns the result of an attack on a release of made-up data, whose noise is fitted to epsilon.

    `sabotage` names the way in which the release is broken; None leaves the release sound. With
    `has_unknown_labels`, labels are missing, and canaries differ only in which labels are known.
    """
    # Renyi is quicker for the other releases, and prices them nearly as well
    exact = aggregator is VOTES_OF_RECORDS or num_runs == 20
    accountant_class = ExactAccountant if exact else RdpAccountant
    attack = Attack(
        aggregator=aggregator,
        budget=Budget(delta=1e-6, epsilon=epsilon, accountant=accountant_class),
        num_queries=num_queries,
        num_teachers=num_teachers,
        seed=0,
        num_canaries=num_canaries,
        num_runs=num_runs,
        sabotage=sabotage,
    )
    data = made_up_dataset(num_groups=num_groups)
    if has_unknown_labels:
        known = np.random.default_rng(1).random(data.private.labels.shape) < 0.7
        labels = data.private.labels & known
        data = replace(data, private=replace(data.private, labels=labels, known=known))
    return attack.run(data)


@pytest.mark.slow
def test_attack_on_records_stays_below_a_valid_price() -> None:
    """An attack that guesses which of 400 private records were used has a lower bound on epsilon of at most the price.

    The bound, from 5 runs with 400 such records (canaries) each, is above 0.2.
    """
    result = attack_result(num_runs=5)
    assert 0.2 < result.lower_bound <= result.epsilon <= 2.0 and not result.refuted
    assert (result.unit, result.num_canaries, result.sabotage) == ("record", 2000, None)
    assert json.loads(json.dumps(result.to_json()))["lower_bound"] == result.lower_bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sabotage", "canaries", "runs"),
    [("noise", 150, 2), ("clip", 150, 8), ("features", 40, 3), ("seed", 150, 1)],
)
def test_a_broken_release_of_records_is_refuted(sabotage: str, canaries: int, runs: int) -> None:
    """The attack's lower bound exceeds the price of a release that is broken in the way `sabotage`.

    The release has too little noise, no clip, private features, or the noise of a known seed.
    """
    result = attack_result(sabotage=sabotage, num_canaries=canaries, num_runs=runs)
    assert result.refuted and result.lower_bound > result.epsilon > 1.99


@pytest.mark.slow
def test_canaries_that_differ_in_what_is_known_stay_below_a_valid_price() -> None:
    """Guesses between two variants of a record that differ in which labels are known give a bound of at most the price.

    The lower bound on epsilon is above 0.1.
    """
    result = attack_result(num_runs=5, has_unknown_labels=True)
    assert 0.1 < result.lower_bound <= result.epsilon <= 2.0 and not result.refuted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sabotage", "canaries", "runs"), [("noise", 150, 4), ("clip", 150, 8), ("seed", 150, 1)]
)
def test_a_broken_release_of_labels_with_gaps_is_refuted(
    sabotage: str, canaries: int, runs: int
) -> None:
    """Canaries that differ only in which labels are known refute too little noise, no clip, and a known seed."""
    result = attack_result(
        sabotage=sabotage, num_canaries=canaries, num_runs=runs, has_unknown_labels=True
    )
    assert result.refuted and result.lower_bound > result.epsilon > 1.99


@pytest.mark.slow
def test_half_a_charge_is_refuted_by_four_thousand_coins() -> None:
    """If only half of the epsilon of a sound release is charged, the lower bound exceeds the charge.

    The attack has 200 canaries in each of 20 runs. If the whole epsilon is charged, the lower bound is the same and
    does not exceed it.
    """
    votes_aggregator = GaussianVotes(noise_std=50.0)
    whole, half = (
        attack_result(
            aggregator=votes_aggregator,
            sabotage=sabotage,
            epsilon=8.0,
            num_teachers=1600,
            num_queries=50,
            num_canaries=200,
            num_runs=20,
        )
        for sabotage in (None, "charge")
    )
    assert half.lower_bound == whole.lower_bound <= whole.epsilon
    assert half.refuted and half.epsilon == whole.epsilon / 2


@pytest.mark.slow
def test_half_a_charge_of_the_best_of_secret_runs_is_refuted() -> None:
    """For a release of the best of about two runs, half of its price is refuted, and its whole price is not."""
    attack = Attack(
        aggregator=VOTES_OF_RECORDS,
        budget=Budget(delta=1e-6, epsilon=8.0, accountant=AutoAccountant),
        num_queries=20,
        num_teachers=1,
        seed=0,
        num_canaries=400,
        num_runs=5,
        sabotage="charge",
        run_count=TruncatedNegativeBinomial.of_mean(2.0),
    )
    result = attack.run(made_up_dataset(num_groups=2000))
    whole_price = 2 * result.epsilon
    assert whole_price == pytest.approx(8.0, rel=1e-3)
    assert result.refuted and result.epsilon < result.lower_bound < whole_price
    assert result.tune_runs == pytest.approx(2.0)


@pytest.mark.slow
def test_attack_on_teachers_refutes_only_broken_releases() -> None:
    """An attack whose canaries are teachers has a lower bound of at most the price of a sound release.

    The bound is above the price of a release with too little noise or unclipped votes.
    """
    honest, noisy, unclipped = (
        attack_result(
            aggregator=GaussianVotes(noise_std=50.0),
            sabotage=sabotage,
            num_teachers=1600,
            num_queries=50,
            num_canaries=200,
        )
        for sabotage in (None, "noise", "clip")
    )
    assert honest.lower_bound <= honest.epsilon < min(noisy.lower_bound, unclipped.lower_bound)
    assert honest.unit == "teacher" and honest.num_correct > honest.num_guesses / 2


@pytest.mark.slow
def test_attack_on_a_session_uses_its_hits() -> None:
    """The attack on a session of `BoundaryMax` gives a lower bound on epsilon that is positive and at most the price.

    A query that is refused at the boundary is a hit, and the attack reads which queries are hits. After a fixed number
    of hits the session halts, and all later queries are refused.
    """
    result = attack_result(
        aggregator=BoundaryMax(selection_scale=20.0),
        epsilon=8.0,
        num_teachers=800,
        num_canaries=25,
        num_runs=16,
    )
    assert 0 < result.lower_bound <= result.epsilon and result.num_canaries == 400


@pytest.mark.slow
def test_attack_on_stable_top_k_uses_queries_at_its_thresholds() -> None:
    """The attack on stable top-k has a lower bound that is positive and at most the price."""
    aggregator = StableTopK(
        selection_noise="gumbel",
        selection_scale=39.0,
        test="gaussian",
        test_std=60.0,
        failure_prob=1e-9,
    )
    result = attack_result(
        aggregator=aggregator, epsilon=4.0, num_teachers=1600, num_canaries=200, num_runs=3
    )
    assert 0 < result.lower_bound <= result.epsilon


@pytest.mark.parametrize(
    ("attack_invalidly", "refusal"),
    [
        (partial(attack_result, sabotage="luck"), refused_parameter("sabotage", value="luck")),
        (
            partial(attack_result, aggregator=GaussianVotes(noise_std=9.0), sabotage="seed"),
            refused_parameter("sabotage", value="seed"),
        ),
        (
            partial(
                attack_result,
                aggregator=CenteredVotes(noise_multiplier=1.0, adjacency="add_remove"),
            ),
            refused_parameter("adjacency", value="add_remove"),
        ),
        (
            partial(
                Attack,
                aggregator=GaussianVotes(noise_std=9.0),
                budget=Budget(delta=1e-6, epsilon=1.0),
                num_queries=10,
                num_teachers=1000,
                run_count=TruncatedNegativeBinomial.of_mean(2.0),
            ),
            refused_parameter("tune_runs", value=ANY),
        ),
        (partial(attack_result, num_canaries=1001), refused_parameter("num_canaries", value=1001)),
        (
            partial(attack_result, num_groups=300),
            refused_parameter("private.num_groups", value=300),
        ),
    ],
)
def test_invalid_attack_is_refused(
    attack_invalidly: Callable[[], AttackResult], refusal: Refusal
) -> None:
    """An attack with an impossible setting is refused.

    Such settings are an unknown or unfit sabotage, the add-remove adjacency, and impossible numbers of canaries or
    groups. The best of secret runs is refused for other aggregators than centered votes.
    """
    with refusal:
        attack_invalidly()


@pytest.mark.slow
def test_the_command_prints_both_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """`pate-attack` prints the lower bound and the charged epsilon as JSON.

    With `sabotage=noise`, its page says that the release was broken on purpose and that its price
    is refuted.
    """
    register_configs()
    words = [
        "data=digits_grid",
        "aggregator=gaussian_votes",
        "num_queries=50",
        "num_runs=1",
        "num_teachers=1600",
        "seed=1",
        "accountant=rdp",
    ]
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        run_attack(config=compose("attack", overrides=[*words, "format=json"]))
        answer = json.loads(capsys.readouterr().out.splitlines()[-1])
        run_attack(config=compose("attack", overrides=[*words, "sabotage=noise"]))
        page = capsys.readouterr().out
    assert {"epsilon", "lower_bound", "confidence", "num_canaries"} <= set(answer)
    assert answer["lower_bound"] <= answer["epsilon"] <= 2.0
    assert "a rehearsal of GaussianVotes, sabotage=noise" in page and "it is refuted" in page
