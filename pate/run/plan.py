"""What a run depends on, and what it will cost: known before any data is read but its shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pate.accounting import Accountant, Event, RdpAccountant
from pate.accounting.accountant import require_maker
from pate.accounting.calibration import largest_count
from pate.accounting.events import failure_probability
from pate.aggregators import Aggregator, CenteredVotes
from pate.data import Dataset
from pate.pricing.query_count import require_achievable_delta
from pate.student import Student
from pate.teachers import Engine, KernelTeacher, Teacher
from pate.validation import InvalidValue, require, require_count, require_positive, require_probability

_KINDS: dict[str, tuple[type, ...]] = {
    "teacher": (Teacher, KernelTeacher),
    "engine": (Engine,),
    "aggregator": (Aggregator,),
    "student": (Student,),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a run depends on.

    Attributes:
        load_dataset: reads the data set.
        teacher: the recipe for teachers.
        num_teachers: T; None for kernel teachers makes one for each private group.
        engine: how teachers are trained.
        aggregator: how votes become labels.
        student: the recipe for the student.
        num_queries: how many public samples are asked, the first ones of the public pool.
        target_delta: in (0, 1).
        target_epsilon: the noise is solved for so that the release costs this; None takes it as it is.
        max_epsilon: only as many queries are asked as this pays for.
        accountant: makes an empty accountant.
        seed: None draws secrets from the operating system.
        settings: the configuration, plain values; a folder of other settings is refused.
        public_settings: the part of it that may be published, as text, given the aggregator as it was used.
    """

    load_dataset: Callable[[], Dataset]
    teacher: Teacher | KernelTeacher
    num_teachers: int | None
    engine: Engine
    aggregator: Aggregator
    student: Student
    num_queries: int
    target_delta: float
    target_epsilon: float | None = None
    max_epsilon: float | None = None
    accountant: Callable[[], Accountant] = RdpAccountant
    seed: int | None = None
    settings: dict[str, Any]
    public_settings: Callable[[Aggregator], str] = repr

    def __post_init__(self) -> None:
        for name, kinds in _KINDS.items():
            given = getattr(self, name)
            shown = given if isinstance(given, str) else type(given).__name__
            require(isinstance(given, kinds), name, shown, f"an object of a subclass of {kinds[0].__name__}")
        require_maker(self.accountant)
        kernel = isinstance(self.teacher, KernelTeacher)
        if self.num_teachers is not None or not kernel:
            require_count("teacher.num_teachers", self.num_teachers or 0)
        if kernel and not isinstance(self.aggregator, CenteredVotes):
            rule = "expected centered_votes: kernel teachers say more than bits"
            raise InvalidValue(f"aggregator={type(self.aggregator).__name__}: {rule}")
        require_count("num_queries", self.num_queries)
        require_probability("target_delta", self.target_delta)
        for name in ("target_epsilon", "max_epsilon"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))


@dataclass(frozen=True)
class Price:
    """What the release will cost, known before any data is read but its shape.

    Attributes:
        aggregator: with its noise solved for.
        num_queries: how many are asked.
        event: the price.
        epsilon: at the target delta.
    """

    aggregator: Aggregator
    num_queries: int
    event: Event
    epsilon: float


def price(plan: Plan, *, num_public: int, num_labels: int) -> Price:
    """Solves for the noise and for the number of queries, and prices the release.

    Raises:
        InvalidValue: more queries than public samples; a target that no noise reaches; a budget that pays for no query.
    """
    require(
        plan.num_queries <= num_public,
        "num_queries",
        plan.num_queries,
        f"at most {num_public}, the public pool",
    )
    shape = {"num_labels": num_labels, "num_teachers": require_count("num_teachers", plan.num_teachers or 0)}
    aggregator = plan.aggregator
    if plan.target_epsilon is not None:
        aggregator = aggregator.calibrated(
            target_epsilon=plan.target_epsilon,
            target_delta=plan.target_delta,
            num_queries=plan.num_queries,
            accountant=plan.accountant,
            **shape,
        )

    def epsilon(num_queries: int) -> float:
        event = aggregator.event_for(num_queries=num_queries, **shape)
        if failure_probability(event) >= plan.target_delta and plan.max_epsilon is not None:
            return math.inf  # fewer queries may do
        return plan.accountant().compose(event).get_epsilon(plan.target_delta)

    num_queries = plan.num_queries
    if plan.max_epsilon is not None:
        budget = plan.max_epsilon
        num_queries = largest_count(lambda count: count == 0 or epsilon(count) <= budget, maximum=num_queries)
        require(num_queries > 0, "max_epsilon", budget, f"at least {epsilon(1):.4g}, the price of one query")
    require_achievable_delta(plan.target_delta, num_queries=num_queries, num_labels=num_labels)
    event = aggregator.event_for(num_queries=num_queries, **shape)
    return Price(aggregator, num_queries, event, epsilon(num_queries))
