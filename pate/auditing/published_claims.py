"""Audits of published releases: the price of a release of given votes, and the epsilon that published code claims."""

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
    Event,
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


@dataclass(frozen=True)
class ClaimedGaussian:
    """A number of Gaussian mechanisms, with the sensitivity that a published claim assumes."""

    noise_std: float  # the standard deviation of the noise, in votes
    # the number of counts that differ by 1 between neighbors, according to the claim
    num_moved: int
    num_releases: float  # the number of releases, according to the claim

    def curve(self, orders: Array) -> Array:
        """Returns the claimed Renyi divergence of all releases together, `[A]`, at orders `[A]`."""
        multiplier = self.noise_std / self.num_moved**0.5
        return np.asarray(self.num_releases * curve_of(GaussianEvent(multiplier))(orders))


def published_claim(
    aggregator: Aggregator, votes: ImportedVotes, target_delta: float
) -> tuple[float | None, str]:
    """Returns the epsilon that published code computes for a release of votes, and the code's reasoning in few words.

    The epsilon is not a valid bound. It is None if published code computes no epsilon for this type of aggregator.

    Args:
        aggregator: the aggregator of the release, with its noise.
        votes: the votes of the release.
        target_delta: the delta of the epsilon.
    """
    counts = votes.counts
    num_teachers = votes.num_teachers
    num_queries, num_labels = counts.shape
    gaussians: list[ClaimedGaussian] = []
    match aggregator:
        case aggregators.GaussianVotes():
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=2, num_releases=num_queries)
            ]
            claim = "all labels cost like one"
        case aggregators.PowersetGNMax():
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=2, num_releases=num_queries)
            ]
            claim = "two counts move"
        case aggregators.ClippedVotes():
            num_moved = min(aggregator.vote_clip, num_labels)
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=num_moved, num_releases=num_queries)
            ]
            claim = "only tau counts move"
        case aggregators.GNMax():
            claim = "data dependent: private, one direction"
        case aggregators.ConfidentVotes() | aggregators.ConfidentGNMax():
            # all screenings, and the expected number of answers on these votes
            one_label = isinstance(aggregator, aggregators.ConfidentGNMax)
            smallest_majority = np.maximum(counts, num_teachers - counts).min(axis=1)
            agreement = counts.max(axis=1) if one_label else smallest_majority
            needed = aggregator.threshold_share * num_teachers
            expected = float(ndtr((agreement - needed) / aggregator.screening_std).sum())
            num_moved = 2 if one_label else num_labels
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=num_moved, num_releases=expected),
                ClaimedGaussian(aggregator.screening_std, num_moved=1, num_releases=num_queries),
            ]
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
        return np.asarray(sum(gaussian.curve(orders) for gaussian in gaussians))

    return converted(curve, count=1, target_delta=target_delta, conversion="classic"), claim


@dataclass(frozen=True)
class AuditFinding:
    """The price of a release of given votes by one aggregator, and the published claim about such a release."""

    aggregator: str  # the name of the aggregator, as in the configuration
    epsilon: Mapping[str, float]  # the price, a valid upper bound, for each adjacency
    # the epsilon that published code computes, which is no valid bound; None if published code computes none
    paper_epsilon: float | None
    claim: str  # the reasoning behind `paper_epsilon`, in a few words
    # the parameters of the release, by the names of `ReleaseParameters`
    parameters: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[
        str, ...
    ] = ()  # the names of parameters whose values are assumed, because they are not known
    # the data-dependent epsilon, which is private and no guarantee; None if it was not requested or is not known
    data_dependent: DataDependentEpsilon | None = None


@dataclass(frozen=True)
class VoteAudit:
    """The prices of releases of one file of votes by several aggregators."""

    findings: tuple[AuditFinding, ...]  # one for each aggregator
    parameters: ReleaseParameters  # the known parameters of the release
    target_delta: float  # the delta of every epsilon
    accountant: str  # the name of the accountant that computed all prices
    layout: str  # the layout of the votes, such as "classes"
    shape: VoteShape  # the numbers of queries, labels and teachers

    def to_json(self, adjacency: Adjacency | str = Adjacency.REPLACE_ONE) -> dict[str, Any]:
        """Returns a dictionary for JSON.

        At the top level, the aggregator and its three epsilons (the price, the published and the data-dependent one)
        are those of the first finding. The price is that for `adjacency`. The entry `findings` has all findings.
        """
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
    """Computes the price of a release of given votes by each aggregator that could have released them.

    Each finding has the price under both adjacencies and the epsilon of published code. Prices depend on the numbers of
    queries, labels and teachers alone. Some published epsilons depend on the votes and are therefore private.

    Args:
        votes: the votes of the release.
        target_delta: the delta of all epsilons.
        parameters: the known parameters of the release, which are set in every aggregator that has them. All other
            parameters have assumed values.
        aggregator: the aggregator of the first finding, with its own values of all parameters that are not known; None
            for the usual aggregator of votes of this layout.
        accountant: computes the prices.
        given_only: whether to leave out findings with an assumed parameter, except the first finding.
        data_dependent: whether to add the data-dependent epsilon of each release, if a theorem bounds it.

    Raises:
        InvalidValue: the aggregator does not release such votes, or a value is out of range.
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
        is_of_classes = votes.layout == "classes"
        fits = single if is_of_classes else not single or aggregator.max_votes_per_teacher is None
        released = "one label per query" if is_of_classes else "several labels"
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
    findings: list[AuditFinding] = []
    for start in usual:
        known_release = parameters.applied(start)
        applied = with_failure_prob_for(
            known_release.aggregator, delta=target_delta, num_queries=shape.num_queries
        )
        bounds: dict[str, float] = {}
        for adjacency in Adjacency:
            event: Event = NonPrivateEvent()
            if not known_release.is_noiseless:
                event = replace(applied, adjacency=adjacency).event(shape)
            bounds[str(adjacency)] = accountant().compose(event).get_epsilon(target_delta)
        paper_epsilon: float | None = 0.0
        claim = "no noise costs nothing"
        on_votes = None
        if not known_release.is_noiseless:
            paper_epsilon, claim = published_claim(applied, votes, target_delta)
            if data_dependent:
                with suppress(UnknownCost):
                    on_votes = epsilon_on(applied, votes.counts, shape, target_delta)
        assumed: tuple[str, ...] = ()
        if start is not aggregator:
            assumed = tuple(name for name in known_release.parameters if name in parameters.assumed)
        if not (given_only and assumed and findings):
            findings.append(
                AuditFinding(
                    aggregator=_configured_name(applied),
                    epsilon=bounds,
                    paper_epsilon=paper_epsilon,
                    claim=claim,
                    parameters=known_release.parameters,
                    assumed=assumed,
                    data_dependent=on_votes,
                )
            )
    return VoteAudit(
        findings=tuple(findings),
        parameters=parameters,
        target_delta=target_delta,
        accountant=accountant().name,
        layout=votes.layout,
        shape=shape,
    )


def _usual_aggregators(layout: str, shape: VoteShape, target_delta: float) -> list[Aggregator]:
    """Returns the aggregators that can release votes of a layout, the usual one first, with assumed parameters."""
    noise_std = ASSUMED["noise_std"]
    screening_std = ASSUMED["screening_std"]
    threshold_share = ASSUMED["threshold_share"]
    if layout == "classes":
        return [
            aggregators.GNMax(noise_std=noise_std),
            aggregators.ConfidentGNMax(
                noise_std=noise_std, screening_std=screening_std, threshold_share=threshold_share
            ),
        ]
    usual: list[Aggregator] = [
        aggregators.GaussianVotes(noise_std=noise_std),
        aggregators.ConfidentVotes(
            noise_std=noise_std, screening_std=screening_std, threshold_share=threshold_share
        ),
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
    """Returns the name of an aggregator's class in snake case, as in the configuration, such as clipped_votes."""
    text = type(aggregator).__name__.replace("GNMax", "Gnmax").replace("TopK", "Top_k")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


# The parameters of a release whose own parameters are not known.
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
    """The known parameters of a release by somebody else. None stands for a parameter that is not known."""

    # the noise of answers, or the scale of a selection, in votes; 0 for no noise
    noise_std: float | None = None
    # the noise of the screening or of a stability test, in votes; 0 for no noise
    screening_std: float | None = None
    threshold_share: float | None = None  # the fraction of teachers who must agree for an answer
    vote_clip: int | None = None  # the most votes of a teacher that count in a query
    max_size: int | None = None  # the largest size of a set of labels

    def __post_init__(self) -> None:
        for name in sorted(_OTHER_NAMES.keys() & self.known):
            require_non_negative(name, self.known[name])

    @property
    def known(self) -> dict[str, float]:
        """The known parameters: their values by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """The assumed values, by name, of parameters that are not known."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def applied(self, aggregator: Aggregator) -> KnownRelease:
        """Returns an aggregator in which the known parameters are set, and its parameters by name.

        Aggregators refuse noise of 0. They get noise of 1 instead, and the result is marked as noiseless.
        """
        names_of_fields = {dataclass_field.name for dataclass_field in fields(aggregator)}
        # the aggregator's own name of each parameter that it has
        own_names: dict[str, str] = {}
        for dataclass_field in fields(self):
            for name in (_OTHER_NAMES.get(dataclass_field.name), dataclass_field.name):
                if name in names_of_fields:
                    own_names[dataclass_field.name] = name
        changes: dict[str, Any] = {
            own_name: self.known[name] for name, own_name in own_names.items() if name in self.known
        }
        noiseless = [name for name, value in changes.items() if value == 0 and name in _NOISES]
        if "screening_std" not in own_names:
            # without a screening the threshold has no part in a price or a claim
            own_names.pop("threshold_share", None)
        parameters: dict[str, float] = {}
        for name, own_name in own_names.items():
            value = self.known.get(name, getattr(aggregator, own_name))
            if isinstance(value, (int, float)):
                parameters[name] = value
        return KnownRelease(
            aggregator=replace(aggregator, **changes | dict.fromkeys(noiseless, 1.0)),
            parameters=parameters,
            is_noiseless=bool(noiseless),
        )


@dataclass(frozen=True)
class KnownRelease:
    """An aggregator in which the known parameters of a release by somebody else are set."""

    aggregator: Aggregator
    # all parameters, known or assumed, by the names of `ReleaseParameters`
    parameters: dict[str, float]
    is_noiseless: bool  # whether a standard deviation of the release is 0
