"""What somebody else's release really cost, beside what was claimed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, AutoAccountant, GaussianEvent, NonPrivateEvent
from pate.accounting.conversion import converted
from pate.accounting.data_dependent import DataDependentEpsilon, gnmax_log_q, theorem_6_rdp
from pate.accounting.rdp import curve_of
from pate.accounting.special import ndtr
from pate.aggregators import (
    Aggregator,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.files.values import plain
from pate.pricing.priced_release import Budget, ReleaseShape, epsilon_on
from pate.validation import require, require_non_negative
from pate.votes.foreign import ImportedVotes

PublishedClaim = tuple[float | None, str]
"""An epsilon that is no bound, None where published code prints nothing of its own; and how it comes about."""


@singledispatch
def published_claim(aggregator: Aggregator, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    """What published code says of a release of these votes by this aggregator."""
    claimed = aggregator.paper_epsilon(num_queries=len(votes.counts), target_delta=target_delta)
    return claimed, "" if claimed is None else "selection as a Gaussian"


@published_claim.register
def _(aggregator: GaussianVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return _gaussian(aggregator.noise_std, 2, votes, target_delta), "all labels cost like one"


@published_claim.register
def _(aggregator: PowersetGNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return _gaussian(aggregator.noise_std, 2, votes, target_delta), "two counts move"


@published_claim.register
def _(aggregator: ClippedVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    moved = min(aggregator.vote_clip, votes.counts.shape[1])
    return _gaussian(aggregator.noise_std, moved, votes, target_delta), "only tau counts move"


@published_claim.register
def _(aggregator: GNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    log_q = gnmax_log_q(votes.counts, noise_std=aggregator.noise_std)

    def curve(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(theorem_6_rdp(log_q, noise_std=aggregator.noise_std, orders=orders).sum(axis=0))

    epsilon = converted(curve, count=1, target_delta=target_delta, conversion="classic")
    return epsilon, "data dependent: private, one direction"


@published_claim.register
def _(aggregator: ConfidentVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    agreement = np.maximum(votes.counts, votes.num_teachers - votes.counts).min(axis=1)
    return _expected_answers(aggregator, agreement, votes.counts.shape[1], votes, target_delta)


@published_claim.register
def _(aggregator: ConfidentGNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return _expected_answers(aggregator, votes.counts.max(axis=1), 2, votes, target_delta)


def _gaussian(noise_std: float, moved: int, votes: ImportedVotes, target_delta: float) -> float:
    """Gaussian noise on every query, of which so many counts move by 1."""
    event, num_queries = GaussianEvent(noise_std / moved**0.5), len(votes.counts)
    return converted(curve_of(event), count=num_queries, target_delta=target_delta, conversion="classic")


def _expected_answers(
    aggregator: ConfidentVotes | ConfidentGNMax,
    agreement: NDArray[np.int64],
    moved: int,
    votes: ImportedVotes,
    target_delta: float,
) -> PublishedClaim:
    """Every screening, and answers as often as the votes let expect."""
    needed = aggregator.threshold_share * votes.num_teachers
    expected = float(ndtr((agreement - needed) / aggregator.screening_std).sum())
    answer = curve_of(GaussianEvent(aggregator.noise_std / moved**0.5))
    screening = curve_of(GaussianEvent(aggregator.screening_std))

    def both(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(expected * answer(orders) + len(votes.counts) * screening(orders))

    epsilon = converted(both, count=1, target_delta=target_delta, conversion="classic")
    return epsilon, "expected answers only: private"


@dataclass(frozen=True)
class AuditFinding:
    """One aggregator's price on a vote file."""

    aggregator: str  # its name as in the configuration
    epsilon: Mapping[str, float]  # an upper bound, by adjacency
    paper_epsilon: float | None  # no bound: what published code prints for such a release, if anything of its own
    claim: str  # how that figure comes about
    parameters: Mapping[str, float] = field(default_factory=dict)  # what the price is for, as in `ReleaseParameters`
    assumed: tuple[str, ...] = ()  # those of them that nobody gave
    data_dependent: DataDependentEpsilon | None = None  # on the votes, if asked and known: private, no guarantee


@dataclass(frozen=True, kw_only=True)
class VoteAudit:
    """What releases of one vote file cost."""

    findings: tuple[AuditFinding, ...]  # one per aggregator, the one that was asked for first
    parameters: ReleaseParameters  # what was known of the release
    target_delta: float  # of every epsilon
    accountant: str  # the name of the one that priced them
    layout: str  # of the votes
    shape: ReleaseShape

    def to_json(self, adjacency: Adjacency | str = Adjacency.REPLACE_ONE) -> dict[str, Any]:
        """The values as JSON has them: the first finding under this adjacency at the top, all of them below."""
        findings = plain(self)["findings"]
        adjacency = Adjacency.parse(adjacency)
        return {
            "epsilon": findings[0]["epsilon"][adjacency],
            "delta": self.target_delta,
            "adjacency": str(adjacency),
            "accountant": self.accountant,
            "paper_epsilon": findings[0]["paper_epsilon"],
            "data_dependent": findings[0]["data_dependent"],
            "aggregator": findings[0]["aggregator"],
            "layout": self.layout,
            "num_teachers": self.shape.num_teachers,
            "num_queries": self.shape.num_queries,
            "num_labels": self.shape.num_labels,
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

    Args:
        votes: from `ImportedVotes.read`.
        target_delta: in (0, 1).
        parameters: what is known of the release, for every aggregator that has them; for the rest see `assumed`.
        aggregator: the one that comes first, with its own parameters; None for the plain one of the layout.
        accountant: makes an empty accountant.
        given_only: whether to leave out releases with a parameter that nobody gave, but the first one.
        data_dependent: whether to compute as well what a release cost on these votes, with every query answered.

    Raises:
        InvalidValue: an aggregator that cannot release such votes, or a price that has no epsilon.
    """
    budget = Budget(target_delta=target_delta, accountant=accountant)
    parameters = parameters or ReleaseParameters()
    num_queries, num_labels = votes.counts.shape
    shape = ReleaseShape(num_queries=num_queries, num_labels=num_labels, num_teachers=votes.num_teachers)
    usual = _usual_aggregators(votes.layout, shape, target_delta)
    if aggregator is not None:
        single, one = aggregator.single_label, votes.layout == "classes"  # others may need that teachers vote for few
        fits = single if one else not single or aggregator.max_votes_per_teacher is None
        released = "one label per query" if one else "several labels"
        rule = f"one that releases {released}, votes are of layout {votes.layout}"
        require(fits, "aggregator", _configured_name(aggregator), rule)
        usual = [aggregator, *(rival for rival in usual if type(rival) is not type(aggregator))]
    findings = [_finding(each, parameters, votes, shape, budget) for each in usual]
    if aggregator is not None:  # it has parameters of its own
        findings[0] = replace(findings[0], assumed=())
    if data_dependent:
        made = [parameters.applied(each) for each in usual]
        findings = [
            each if bare else replace(each, data_dependent=epsilon_on(aggregator, votes.counts, shape, target_delta))
            for each, (aggregator, bare) in zip(findings, made, strict=True)
        ]
    return VoteAudit(
        findings=tuple(each for each in findings if not (given_only and each.assumed) or each is findings[0]),
        parameters=parameters,
        target_delta=target_delta,
        accountant=accountant().name,
        layout=votes.layout,
        shape=shape,
    )


def _finding(
    start: Aggregator, parameters: ReleaseParameters, votes: ImportedVotes, shape: ReleaseShape, budget: Budget
) -> AuditFinding:
    aggregator, bare = parameters.applied(start)
    bounds = {}
    for adjacency in Adjacency:
        event = NonPrivateEvent() if bare else shape.event_of(replace(aggregator, adjacency=adjacency))
        bounds[str(adjacency)] = budget.accountant().compose(event).get_epsilon(budget.target_delta)
    free = (0.0, "no noise costs nothing")
    paper_epsilon, claim = free if bare else published_claim(aggregator, votes, budget.target_delta)
    used = parameters.used_by(aggregator)
    assumed = tuple(name for name in used if name in parameters.assumed)
    return AuditFinding(_configured_name(aggregator), bounds, paper_epsilon, claim, used, assumed)


def _usual_aggregators(layout: str, shape: ReleaseShape, target_delta: float) -> list[Aggregator]:
    """Those that can release such votes, with parameters to start from; the plain one first."""
    noise_std = ASSUMED["noise_std"]
    screened: dict[str, Any] = {name: value for name, value in ASSUMED.items() if name != "vote_clip"}
    if layout == "classes":
        return [GNMax(noise_std=noise_std), ConfidentGNMax(**screened)]
    usual: list[Aggregator] = [
        GaussianVotes(noise_std=noise_std),
        ConfidentVotes(**screened),
        ClippedVotes(noise_std=noise_std, vote_clip=int(ASSUMED["vote_clip"])),
        PowersetGNMax(noise_std=noise_std),
    ]
    if shape.num_labels == 1:
        return usual
    failure = min(1e-9, 0.6 * target_delta / shape.num_queries)  # the paper's, where that leaves some of delta
    stable = StableTopK(selection_noise="gaussian", selection_scale=noise_std, test_std=noise_std, failure_prob=failure)
    return [*usual, stable]


def _configured_name(aggregator: Aggregator) -> str:
    """The name of the class as the configuration spells it: GNMax is gnmax, ClippedVotes is clipped_votes."""
    text = type(aggregator).__name__.replace("GNMax", "Gnmax").replace("TopK", "Top_k")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


ASSUMED: dict[str, float] = {"noise_std": 50.0, "screening_std": 50.0, "threshold_share": 0.6, "vote_clip": 2}
"""What is taken where nothing is said."""

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
        for name in _OTHER_NAMES:
            if name in self.known:
                require_non_negative(name, self.known[name])

    @property
    def known(self) -> dict[str, float]:
        """Those that something is known of, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """What releases have of which nothing was said."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def used_by(self, aggregator: Aggregator) -> dict[str, float]:
        """What an aggregator has of them, by these names: as given, or else as the aggregator has it."""
        own = {item.name for item in fields(aggregator)}
        found: dict[str, float] = {}
        for item in fields(self):
            if item.name == "threshold_share" and "screening_std" not in found:
                continue  # a threshold without a screening has no part in a price or a claim
            name = item.name if item.name in own else _OTHER_NAMES.get(item.name, item.name)
            value = self.known.get(item.name, getattr(aggregator, name, None)) if name in own else None
            if isinstance(value, (int, float)):
                found[item.name] = value
        return found

    def applied(self, aggregator: Aggregator) -> tuple[Aggregator, bool]:
        """The aggregator with these parameters, and whether some of its noise is 0, which no aggregator takes."""
        own = {item.name for item in fields(aggregator)}
        named = {name if name in own else _OTHER_NAMES.get(name, name): value for name, value in self.known.items()}
        used: dict[str, Any] = {name: value for name, value in named.items() if name in own}
        bare = [name for name, value in used.items() if value == 0 and name in _NOISES]
        return replace(aggregator, **used | dict.fromkeys(bare, 1.0)), bool(bare)
