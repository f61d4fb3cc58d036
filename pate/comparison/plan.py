"""The plan of a comparison, and the checks before anything is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pate.accounting import Accountant, AutoAccountant, PureDpEvent
from pate.comparison.bench import Bench
from pate.comparison.method import Method
from pate.comparison.runs import METRIC_KEYS
from pate.data import Dataset
from pate.models import Engine, Student
from pate.pricing.affordable_queries import require_achievable_delta
from pate.progress import Monitor
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_positive,
    require_probability,
)


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """The settings on which a comparison depends: its data, methods, epsilons and seeds.

    Attributes:
        load_dataset: reads the data set.
        methods: the methods to compare, whose keys differ; at least one has privacy.
        engine: trains the teachers.
        student: the recipe of the baselines.
        all_records: whether to train a model on all private records, the ceiling of the comparison.
        num_queries: the number of queries Q, which are the first Q samples of the public pool.
        target_delta: the delta of all epsilons, in (0, 1).
        epsilons: the epsilons of the budgets, each > 0 and no two equal.
        seeds: the seeds of noise and students, the same for all methods and epsilons.
        ensemble_seed: the seed of partitions, teachers and models without privacy.
        accountant: returns an empty accountant; can be pickled.
        metric: the metric of the frontier and of its goals.
        shares: the goals. A share s, in (0, 1], stands for the score floor + s (ceiling - floor).
        num_workers: the number of worker processes; None for the number of available cores.
        allow_useless: whether to train methods at budgets at which they would learn next to nothing.
        fewer_queries: whether to reduce `num_queries` to the size of the public pool if the pool is smaller.
        settings: the settings that the folder of the comparison keeps, as plain values. A later comparison in the same
            folder may have other aggregators or seeds.
    """

    load_dataset: Callable[[], Dataset]
    methods: tuple[Method, ...]
    engine: Engine
    student: Student
    all_records: bool = True
    num_queries: int
    target_delta: float
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    ensemble_seed: int = 0
    accountant: Callable[[], Accountant] = AutoAccountant
    metric: str = METRIC_KEYS[0]
    shares: tuple[float, ...] = (0.5, 0.8)
    num_workers: int | None = None
    allow_useless: bool = False
    fewer_queries: bool = False
    settings: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_count("num_queries", self.num_queries)
        require_probability("target_delta", self.target_delta)
        require_choice("metric", self.metric, METRIC_KEYS)
        for epsilon in self.epsilons:
            require_positive("epsilons", epsilon)
        for seed in self.seeds:
            require_count("seeds", seed, minimum=0)
        for share_of_the_way in self.shares:
            require_positive("shares", share_of_the_way)
            require(share_of_the_way <= 1, "shares", share_of_the_way, "numbers in (0, 1]")
        if self.num_workers is not None:
            require_count("num_workers", self.num_workers)
        method_keys = [method.key for method in self.methods]
        _require_distinct(setting_name="aggregators", setting_values=method_keys)
        has_private_method = any(method.is_private for method in self.methods)
        rule = "at least one with privacy, as a frontier is over epsilon"
        require(has_private_method, "aggregators", f"[{', '.join(method_keys)}]", rule)
        _require_distinct(setting_name="epsilons", setting_values=self.epsilons)
        _require_distinct(setting_name="seeds", setting_values=self.seeds)


def _require_distinct(setting_name: str, setting_values: Sequence[object]) -> None:
    """Raises `InvalidValue`, with the name of a setting, if its list of values is empty or has a value twice."""
    is_distinct = len(setting_values) > 0 and len(set(setting_values)) == len(setting_values)
    values_text = f"[{', '.join(map(str, setting_values))}]"
    require(is_distinct, setting_name, values_text, "at least one, each once")


def check_plan(comparison_plan: ComparisonPlan, bench: Bench, monitor: Monitor) -> None:
    """Raises `InvalidValue` if a plan does not fit the data, and reports the warnings of its methods to the monitor.

    An accountant whose package is not installed raises `MissingPackage`. Nothing is trained here.
    """
    if not (comparison_plan.all_records or bench.dataset.public_labeled):
        rule = "true: the public records have no labels, so only a model of all records can be the ceiling"
        raise InvalidValue("all_records", comparison_plan.all_records, rule=rule)
    for method in comparison_plan.methods:
        method.check(bench)
    num_labels = bench.dataset.num_labels
    require_achievable_delta(
        comparison_plan.target_delta, num_queries=comparison_plan.num_queries, num_labels=num_labels
    )
    # An accountant that lacks a package raises here, before anything is trained.
    comparison_plan.accountant().compose(PureDpEvent(epsilon=1.0)).get_epsilon(
        comparison_plan.target_delta
    )
    warnings_of_methods = [
        warning for method in comparison_plan.methods for warning in method.warnings(bench)
    ]
    for warning in dict.fromkeys(warnings_of_methods):
        monitor.say(warning)
