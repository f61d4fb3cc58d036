"""`PATEClassifier` without estimators has the parts and settings of `experiment=centered_votes`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, Budget, ExactAccountant
from pate.classifier.group_votes import GroupVotesPlan
from pate.classifier.samples import Pools
from pate.classifier.tasks import Task
from pate.config.build import part_maker
from pate.run.plan import Plan


def plan_of_a_fit(num_public: int) -> Plan:
    """Returns the plan of a fit to 30 records with two labels and to `num_public` public samples."""
    inputs = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    public_inputs = np.random.default_rng(1).standard_normal((num_public, 3)).astype(np.float32)
    label_task = Task(num_labels=2)
    fit_plan = GroupVotesPlan(
        label_task=label_task,
        data_pools=Pools(
            private_inputs=inputs,
            private_targets=inputs[:, :2] > 0,
            private_group_ids=np.arange(30),
            public_inputs=public_inputs,
            public_group_ids=np.arange(num_public),
        ),
        budget=Budget(epsilon=1.0, delta=1e-6, accountant=ExactAccountant),
        num_teachers=30,
        allow_useless=False,
        adjacency=Adjacency.REPLACE_ONE,
        num_queries=None,
        label_names=label_task.label_names,
        classes_from_labels=False,
        classes_are_stated=False,
        table_schema=None,
    )
    return fit_plan.run_plan


@pytest.mark.slow
def test_the_parts_are_those_of_the_experiment(composed: Callable[..., Any]) -> None:
    """A fit of `PATEClassifier` without estimators has the four parts of `experiment=centered_votes`.

    The parts are teacher, aggregator, student and accountant. The number of queries is also that of the experiment.
    """
    config = composed(arguments=["experiment=centered_votes"])
    build_part = part_maker(config)
    plan = plan_of_a_fit(num_public=700)
    for part in ("teacher", "aggregator", "student"):
        assert getattr(plan, part) == build_part(part)
    assert plan.accountant().name == build_part("accountant").name
    assert plan.num_queries == config.num_queries
    assert config.teacher.num_teachers is None, "one for each private group"


def test_all_samples_of_a_small_public_pool_are_queries() -> None:
    """A fit with 40 public samples, fewer than the default number of queries, asks all 40."""
    assert plan_of_a_fit(num_public=40).num_queries == 40
