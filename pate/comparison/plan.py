"""The plan of a comparison, and the checks before anything is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pate.accounting import Accountant, AutoAccountant, PureDpEvent
from pate.comparison.bench import Bench
from pate.comparison.method import Method
from pate.comparison.runs import METRICS
from pate.data import Dataset
from pate.models import Engine, Student
from pate.pricing.affordable_queries import require_achievable_delta
from pate.progress import Monitor
from pate.validation import (
    require,
    require_choice,
    require_count,
    require_positive,
    require_probability,
)


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """The settings on which a comparison depends: its data, methods, epsilons and seeds."""

    load_dataset: Callable[[], Dataset]  # reads the data set
    methods: tuple[Method, ...]  # the methods to compare, whose keys differ
    engine: Engine  # how teachers are trained
    student: Student  # the recipe of the baselines
    # whether to train a model on all private records, the ceiling of the comparison
    all_records: bool = True
    num_queries: int  # Q, the queries are the first Q samples of the public pool
    target_delta: float  # the delta of all epsilons, in (0, 1)
    epsilons: tuple[float, ...]  # the epsilons of the budgets, each > 0, ascending
    # the seeds of noise and students, the same for all methods and epsilons
    seeds: tuple[int, ...]
    ensemble_seed: int = 0  # the seed of partitions and teachers
    # returns an empty accountant; can be pickled
    accountant: Callable[[], Accountant] = AutoAccountant
    metric: str = METRICS[0]  # the metric of the frontier and of its goals
    # the goals: a share s, in (0, 1], stands for the score floor + s (ceiling - floor)
    shares: tuple[float, ...] = (0.5, 0.8)
    # the number of worker processes; None for the number of available cores
    num_workers: int | None = None
    # whether to train methods at budgets at which they would learn next to nothing
    allow_useless: bool = False
    # whether to reduce `num_queries` to the size of the public pool if the pool is smaller
    fewer_queries: bool = False
    # of the folder, plain; aggregators or seeds may change in it
    settings: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_count("num_queries", self.num_queries)
        require_probability("target_delta", self.target_delta)
        require_choice("metric", self.metric, METRICS)
        for epsilon in self.epsilons:
            require_positive("epsilons", epsilon)
        for seed in self.seeds:
            require_count("seeds", seed, minimum=0)
        for share in self.shares:
            require(require_positive("shares", share) <= 1, "shares", share, "numbers in (0, 1]")
        if self.num_workers is not None:
            require_count("num_workers", self.num_workers)
        _require_distinct(
            setting_name="aggregators", values=[method.key for method in self.methods]
        )
        _require_distinct(setting_name="epsilons", values=self.epsilons)
        _require_distinct(setting_name="seeds", values=self.seeds)


def _require_distinct(setting_name: str, values: Sequence[object]) -> None:
    """Raises `InvalidValue`, with the name of the setting, if there are no values or a value occurs twice."""
    text = ", ".join(map(str, values))
    is_good = 0 < len(values) == len(set(values))
    require(is_good, setting_name, f"[{text}]", "at least one, each once")


def check_plan(plan: ComparisonPlan, bench: Bench, monitor: Monitor) -> None:
    """Raises `InvalidValue` if a plan does not fit the data, and reports the warnings of its methods to the monitor."""
    rule = (
        "true: the public records have no labels, so only a model of all records can be the ceiling"
    )
    require(plan.all_records or bench.dataset.public_labeled, "all_records", plan.all_records, rule)
    for method in plan.methods:
        method.check(bench)
    num_labels = bench.dataset.num_labels
    require_achievable_delta(plan.target_delta, num_queries=plan.num_queries, num_labels=num_labels)
    # an accountant that lacks a package says so here, once for all
    plan.accountant().compose(PureDpEvent(epsilon=1.0)).get_epsilon(plan.target_delta)
    warnings_of_methods = [line for method in plan.methods for line in method.warnings(bench)]
    for line in dict.fromkeys(warnings_of_methods):
        monitor.say(line)
