"""What somebody else's release really cost, beside what was claimed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from pate import aggregators
from pate.accounting import (
    Accountant,
    Adjacency,
    AutoAccountant,
    Budget,
    GaussianEvent,
    NonPrivateEvent,
)
from pate.accounting.conversion import converted
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.accounting.rdp import curve_of
from pate.accounting.special import Array, ndtr
from pate.aggregators import Aggregator
from pate.aggregators.failures import with_failure_prob_for
from pate.auditing.aggregator_cost import epsilon_on
from pate.auditing.gnmax_divergence import gnmax_log_q, theorem_6_rdp
from pate.files.strict_json import plain
from pate.validation import require, require_non_negative
from pate.votes.imported import ImportedVotes
from pate.votes.shape import VoteShape


def published_claim(
    aggregator: Aggregator, votes: ImportedVotes, target_delta: float
) -> tuple[float | None, str]:
    """Returns what published code says of a release of these votes, which is no bound, and how it comes about.

    None where published code prints nothing of its own.
    """
    counts = votes.counts
    num_teachers = votes.num_teachers
    num_queries, num_labels = counts.shape
    # of Gaussian noise: its std, how many counts move by 1, how many times
    parts: list[tuple[float, int, float]] = []
    match aggregator:
        case aggregators.GaussianVotes():
            parts = [(aggregator.noise_std, 2, num_queries)]
            claim = "all labels cost like one"
        case aggregators.PowersetGNMax():
            parts = [(aggregator.noise_std, 2, num_queries)]
            claim = "two counts move"
        case aggregators.ClippedVotes():
            parts = [(aggregator.noise_std, min(aggregator.vote_clip, num_labels), num_queries)]
            claim = "only tau counts move"
        case aggregators.GNMax():
            claim = "data dependent: private, one direction"
        case aggregators.ConfidentVotes() | aggregators.ConfidentGNMax():
            # every screening, and answers as often as the votes let expect
            one_label = isinstance(aggregator, aggregators.ConfidentGNMax)
            agreement = (
                counts.max(axis=1)
                if one_label
                else np.maximum(counts, num_teachers - counts).min(axis=1)
            )
            needed = aggregator.threshold_share * num_teachers
            expected = float(ndtr((agreement - needed) / aggregator.screening_std).sum())
            parts = [(aggregator.noise_std, 2 if one_label else num_labels, expected)]
            parts.append((aggregator.screening_std, 1, num_queries))
            claim = "expected answers only: private"
        case _:
            claimed = aggregator.paper_epsilon(num_queries=num_queries, target_delta=target_delta)
            return claimed, "" if claimed is None else "selection as a Gaussian"

    def curve(orders: Array) -> Array:
        if isinstance(aggregator, aggregators.GNMax):
            return np.asarray(
                theorem_6_rdp(
                    gnmax_log_q(counts, noise_std=aggregator.noise_std),
                    orders=orders,
                    noise_std=aggregator.noise_std,
                ).sum(axis=0)
            )
        return np.asarray(
            sum(
                times * curve_of(GaussianEvent(std / moved**0.5))(orders)
                for std, moved, times in parts
            )
        )

    return converted(curve, count=1, target_delta=target_delta, conversion="classic"), claim


@dataclass(frozen=True)
class AuditFinding:
    """One aggregator's price on a vote file."""

    aggregator: str  # its name as in the configuration
    epsilon: Mapping[str, float]  # an upper bound, by adjacency
    # no bound: what published code prints for such a release, if anything of its own
    paper_epsilon: float | None
    claim: str  # how that figure comes about
    # what the price is for, as in `ReleaseParameters`
    parameters: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()  # those of them that nobody gave
    # on the votes, if asked and known: private, no guarantee
    data_dependent: DataDependentEpsilon | None = None


@dataclass(frozen=True)
class VoteAudit:
    """The costs of releases of one vote file."""

    findings: tuple[AuditFinding, ...]  # one per aggregator, the one that was asked for first
    parameters: ReleaseParameters  # what was known of the release
    target_delta: float  # of every epsilon
    accountant: str  # the name of the one that priced them
    layout: str  # of the votes
    shape: VoteShape

    def to_json(self, adjacency: Adjacency | str = Adjacency.REPLACE_ONE) -> dict[str, Any]:
        """Returns the values as JSON has them: the first finding under this adjacency at the top, all of them below."""
        findings = plain(self)["findings"]
        adjacency = Adjacency.parse(adjacency)
        return {
            "epsilon": findings[0]["epsilon"][adjacency],
            "delta": self.target_delta,
            "adjacency": str(adjacency),
            "accountant": self.accountant,
            **{
                name: findings[0][name]
                for name in ("paper_epsilon", "data_dependent", "aggregator")
            },
            "layout": self.layout,
            "num_queries": self.shape.num_queries,
            "num_labels": self.shape.num_labels,
            "num_teachers": self.shape.num_teachers,
            "assumed": self.parameters.assumed,
            "findings": findings,
        }


def audit_votes(
    votes: ImportedVotes,
    *,
    target_delta: float,
    parameters: ReleaseParameters | None = None,
    aggregator: Aggregator | None = None,
    accountant: Callable[[], Accountant] = AutoAccountant,
    given_only: bool = False,
    data_dependent: bool = False,
) -> VoteAudit:
    """Prices every known release of such votes under both adjacencies, with the published claims beside the prices.

    The prices depend on the shape of the votes alone; some claims are computed from the votes and are private.

    The parameters are what is known of the release, for every aggregator that has them; the rest is `assumed`. The
    aggregator comes first, with its own parameters; None is the plain one of the layout. `given_only` leaves out
    releases with a parameter that nobody gave, but the first. `data_dependent` adds the cost on these votes.
    """
    Budget(delta=target_delta, accountant=accountant)  # which refuses what is out of range
    parameters = parameters or ReleaseParameters()
    num_queries, num_labels = votes.counts.shape
    shape = VoteShape(
        num_queries=num_queries, num_labels=num_labels, num_teachers=votes.num_teachers
    )
    usual = _usual_aggregators(votes.layout, shape, target_delta)
    if aggregator is not None:
        # others may need that teachers vote for few
        single = aggregator.single_label
        one = votes.layout == "classes"
        fits = single if one else not single or aggregator.max_votes_per_teacher is None
        released = "one label per query" if one else "several labels"
        rule = f"one that releases {released}, votes are of layout {votes.layout}"
        require(fits, "aggregator", _configured_name(aggregator), rule)
        sets = isinstance(aggregator, aggregators.PowersetGNMax)
        rule = "votes of layout teacher_votes, as counts of labels do not say which teachers voted for which set; of "
        rule += (
            "counts of sets, a column for each, the release is aggregator=gnmax with layout=classes"
        )
        require(
            not sets or votes.layout == "teacher_votes",
            "aggregator",
            _configured_name(aggregator),
            rule,
        )
        usual = [aggregator, *(rival for rival in usual if type(rival) is not type(aggregator))]
    findings = list[AuditFinding]()
    for start in usual:
        with_parameters, used, bare = parameters.applied(start)
        applied = with_failure_prob_for(
            with_parameters, delta=target_delta, num_queries=shape.num_queries
        )
        both = [(each, replace(applied, adjacency=each)) for each in Adjacency]
        events = {
            str(each): NonPrivateEvent() if bare else made.event(shape) for each, made in both
        }
        bounds = {
            each: accountant().compose(event).get_epsilon(target_delta)
            for each, event in events.items()
        }
        claimed = (
            (0.0, "no noise costs nothing")
            if bare
            else published_claim(applied, votes, target_delta)
        )
        on_votes = None
        if data_dependent and not bare:
            with suppress(UnknownCost):
                on_votes = epsilon_on(applied, votes.counts, shape, target_delta)
        assumed = (
            ()
            if start is aggregator
            else tuple(name for name in used if name in parameters.assumed)
        )
        if not (given_only and assumed and findings):
            name = _configured_name(applied)
            findings.append(AuditFinding(name, bounds, *claimed, used, assumed, on_votes))
    return VoteAudit(
        tuple(findings), parameters, target_delta, accountant().name, votes.layout, shape
    )


def _usual_aggregators(layout: str, shape: VoteShape, target_delta: float) -> list[Aggregator]:
    """Those that can release such votes, with parameters to start from; the plain one first."""
    noise_std = ASSUMED["noise_std"]
    screened: dict[str, Any] = {
        name: value for name, value in ASSUMED.items() if name != "vote_clip"
    }
    if layout == "classes":
        return [aggregators.GNMax(noise_std=noise_std), aggregators.ConfidentGNMax(**screened)]
    usual: list[Aggregator] = [
        aggregators.GaussianVotes(noise_std=noise_std),
        aggregators.ConfidentVotes(**screened),
        aggregators.ClippedVotes(noise_std=noise_std, vote_clip=int(ASSUMED["vote_clip"])),
    ]
    if layout == "teacher_votes":  # counts of labels do not say who voted for which set
        usual.append(aggregators.PowersetGNMax(noise_std=noise_std))
    if shape.num_labels == 1:
        return usual
    # the paper's, where that leaves some of delta
    failure = min(1e-9, 0.6 * target_delta / shape.num_queries)
    return [
        *usual,
        aggregators.StableTopK(
            selection_noise="gaussian",
            selection_scale=noise_std,
            test_std=noise_std,
            failure_prob=failure,
        ),
    ]


def _configured_name(aggregator: Aggregator) -> str:
    """Returns the name of the class as the configuration spells it: GNMax is gnmax, ClippedVotes is clipped_votes."""
    text = type(aggregator).__name__.replace("GNMax", "Gnmax").replace("TopK", "Top_k")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


# What is taken where nothing is said.
ASSUMED: dict[str, float] = {
    "noise_std": 50.0,
    "screening_std": 50.0,
    "threshold_share": 0.6,
    "vote_clip": 2,
}

_OTHER_NAMES = {"noise_std": "selection_scale", "screening_std": "test_std"}
_NOISES = {*_OTHER_NAMES, *_OTHER_NAMES.values()}


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """The parameters of somebody's release; None for those that are not known."""

    noise_std: float | None = None  # of the answers, the scale of a selection; 0 for no noise
    screening_std: float | None = None  # of the screening, or of a stability test; 0 for no noise
    threshold_share: float | None = None  # of the teachers who must agree
    vote_clip: int | None = None  # how many votes of a teacher count
    max_size: int | None = None  # of a set of labels

    def __post_init__(self) -> None:
        for name in sorted(_OTHER_NAMES.keys() & self.known):
            require_non_negative(name, self.known[name])

    @property
    def known(self) -> dict[str, float]:
        """Those that something is known of, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """The parameters that releases have and of which nothing was said."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def applied(self, aggregator: Aggregator) -> tuple[Aggregator, dict[str, float], bool]:
        """Returns the aggregator with these parameters, what it then has of them, and whether some of its noise is 0.

        No aggregator takes that: it has noise of 1 instead.
        """
        fields_of = {item.name for item in fields(aggregator)}
        known = self.known
        spelled = [
            (item.name, each)
            for item in fields(self)
            for each in (_OTHER_NAMES.get(item.name), item.name)
        ]
        # what the aggregator calls those it has
        names = {name: each for name, each in spelled if each in fields_of}
        own: dict[str, Any] = {each: known[name] for name, each in names.items() if name in known}
        bare = [each for each, value in own.items() if value == 0 and each in _NOISES]
        if "screening_std" not in names:
            # which without a screening has no part in a price or a claim
            names.pop("threshold_share", None)
        found = {name: known.get(name, getattr(aggregator, each)) for name, each in names.items()}
        used = {name: value for name, value in found.items() if isinstance(value, (int, float))}
        return replace(aggregator, **own | dict.fromkeys(bare, 1.0)), used, bool(bare)
