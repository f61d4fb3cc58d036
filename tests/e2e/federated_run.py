"""The small run between holders: the request, their plans, and the server's release, for Flower or for a test."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate.aggregators import Aggregator
from pate.federated import Request, Roll
from pate.federated.collection import FederatedRelease
from pate.run.plan import Plan
from pate.run.stages.holder import HolderPlan
from pate.teachers import SequentialEngine
from tests.e2e.small_run import NUM_QUERIES, NUM_TEACHERS, small_dataset, small_plan
from tests.e2e.stages_of_run import release_plan

SEED = 6


def federated_plan(aggregator: Aggregator, holders: int | None, **changes: Any) -> Plan:
    shared: dict[str, Any] = {"aggregator": aggregator, "target_epsilon": 50.0, "target_delta": 1e-5, "seed": SEED}
    shared |= {"engine": SequentialEngine(), "holders": holders}
    return small_plan(**(shared | changes))


def small_request(**changes: Any) -> Request:
    dataset = small_dataset()
    given: dict[str, Any] = {
        "inputs": np.asarray(dataset.public.inputs[:NUM_QUERIES], dtype=np.float32),
        "record_ids": dataset.published_ids[:NUM_QUERIES],
        "label_names": dataset.label_names,
    }
    return Request(**(given | changes))


@dataclass(frozen=True)
class SmallHolders:
    """Gives each holder's plan and folder, and ways to fail; travels to the processes of a simulation."""

    folder: Path  # of all holders
    holders: int  # among how many the records are dealt
    plan: Plan  # of the whole
    spoil: Callable[[str], None] | None = None  # called with a holder's name before it answers

    def __call__(self, name: str) -> tuple[HolderPlan, Path]:
        if self.spoil is not None:
            self.spoil(name)
        made = HolderPlan(
            load_dataset=self.plan.load_dataset,
            teacher=self.plan.teacher,
            num_teachers=NUM_TEACHERS // self.holders,
            engine=self.plan.engine,
            holder=name,
            holders=self.holders,
            num_queries=self.plan.num_queries,
            seed=self.plan.seed,
            settings={"name": "small", "holder": name},
        )
        own = self.folder / name
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return made, own


def small_release(plan: Plan, folder: Path, holders: int, *, max_absent: int = 0, **asked: Any) -> FederatedRelease:
    return FederatedRelease(
        plan=release_plan(plan),
        roll=Roll.numbered(holders, NUM_TEACHERS // holders, max_absent=max_absent),
        request=small_request(**asked),
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )
