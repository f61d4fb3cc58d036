"""Audits of published releases: the price of a release of given votes by each of the usual aggregators."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pate import aggregators
from pate.accounting import (
    Accountant,
    Adjacency,
    AutoAccountant,
    Event,
    NonPrivateEvent,
)
from pate.accounting.accountant import require_maker
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.aggregators import Aggregator
from pate.aggregators.failures import with_failure_prob_for
from pate.auditing.aggregator_cost import epsilon_on
from pate.auditing.published_claims import published_claim
from pate.auditing.release_parameters import ASSUMED, ReleaseParameters
from pate.files.strict_json import plain
from pate.validation import InvalidValue, require_probability
from pate.votes.imported import ImportedVotes
from pate.votes.shape import VoteShape


@dataclass(frozen=True)
class AuditFinding:
    """The price of a release of votes by one aggregator, and the published claim about such a release.

    Attributes:
        aggregator: the name of the aggregator, as in the configuration.
        epsilon: the price, a valid upper bound, for each adjacency.
        paper_epsilon: the epsilon that published code computes, which may be too low; None if published code computes
            none.
        claim: the reasoning behind `paper_epsilon`, in a few words.
        parameters: the parameters of the release, by the names of `ReleaseParameters`.
        assumed: the names of parameters whose values are assumed, because they are not known.
        data_dependent: the data-dependent epsilon, which is private and no guarantee; None if it was not requested or
            is not known, and for a release without noise.
    """

    aggregator: str
    epsilon: Mapping[str, float]
    paper_epsilon: float | None
    claim: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    data_dependent: DataDependentEpsilon | None = None


@dataclass(frozen=True)
class VoteAudit:
    """The prices of one release of votes, one for each aggregator that may have drawn it.

    Attributes:
        findings: the price by each aggregator, the epsilon of published code and its reasoning.
        parameters: the parameters of the release that the caller of the audit knew; others are assumed.
        target_delta: the delta of every epsilon.
        accountant: the name of the accountant that computed all prices.
        layout: the layout of the votes, such as "classes".
        shape: the numbers of queries, labels and teachers.
    """

    findings: tuple[AuditFinding, ...]
    parameters: ReleaseParameters
    target_delta: float
    accountant: str
    layout: str
    shape: VoteShape

    def to_json(self, adjacency: Adjacency | str = Adjacency.REPLACE_ONE) -> dict[str, Any]:
        """Returns a dictionary for JSON.

        At the top level, the aggregator and its three epsilons (the price, the published and the data-dependent one)
        are those of the first finding. The price is that for `adjacency`. The entry `findings` has all findings.
        """
        findings = plain(self)["findings"]
        first_finding = findings[0]
        adjacency = Adjacency.parse(adjacency)
        return {
            "epsilon": first_finding["epsilon"][adjacency],
            "delta": self.target_delta,
            "adjacency": str(adjacency),
            "accountant": self.accountant,
            "paper_epsilon": first_finding["paper_epsilon"],
            "data_dependent": first_finding["data_dependent"],
            "aggregator": first_finding["aggregator"],
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
    """Computes the price of a release of given votes by each usual aggregator of votes of their layout.

    Each finding has the price under both adjacencies and the epsilon of published code. Prices depend on the votes only
    by the numbers of queries, labels and teachers. Some published epsilons depend on the votes themselves and are
    therefore private.

    Args:
        votes: the votes of the release.
        target_delta: the delta of all epsilons.
        parameters: the known parameters of the release, which are set in every aggregator that has them. All other
            parameters have assumed values.
        aggregator: the aggregator of the first finding, with its own values of all parameters that are not known; None
            for the most usual aggregator of votes of this layout.
        accountant: a function without arguments that returns an empty accountant, which computes the prices.
        given_only: whether to leave out findings with an assumed parameter, except the first finding. A threshold may
            be assumed where nothing is screened, as it hardly moves the price there.
        data_dependent: whether to add the data-dependent epsilon of each release, if a theorem bounds it.

    Raises:
        InvalidValue: the aggregator does not release such votes, or a value is out of range.
    """
    require_probability("target_delta", target_delta)
    make_accountant = require_maker(accountant)
    release_parameters = parameters or ReleaseParameters()
    num_queries, num_labels = votes.counts.shape
    vote_shape = VoteShape(
        num_queries=num_queries, num_labels=num_labels, num_teachers=votes.num_teachers
    )
    candidates = _usual_aggregators(
        layout=votes.layout, vote_shape=vote_shape, target_delta=target_delta
    )
    if aggregator is not None:
        _require_releases(aggregator, layout=votes.layout)
        others = [usual for usual in candidates if type(usual) is not type(aggregator)]
        candidates = [aggregator, *others]
    findings: list[AuditFinding] = []
    for candidate in candidates:
        finding_of_aggregator = _finding(
            audited_aggregator=candidate,
            imported_votes=votes,
            vote_shape=vote_shape,
            release_parameters=release_parameters,
            is_own=candidate is aggregator,
            target_delta=target_delta,
            make_accountant=make_accountant,
            data_dependent=data_dependent,
        )
        assumed = set(finding_of_aggregator.assumed)
        if "screening_std" not in finding_of_aggregator.parameters:
            assumed.discard("threshold_share")
        if not (given_only and assumed and findings):
            findings.append(finding_of_aggregator)
    return VoteAudit(
        findings=tuple(findings),
        parameters=release_parameters,
        target_delta=target_delta,
        accountant=make_accountant().name,
        layout=votes.layout,
        shape=vote_shape,
    )


def _finding(
    audited_aggregator: Aggregator,
    *,
    imported_votes: ImportedVotes,
    vote_shape: VoteShape,
    release_parameters: ReleaseParameters,
    is_own: bool,
    target_delta: float,
    make_accountant: Callable[[], Accountant],
    data_dependent: bool,
) -> AuditFinding:
    """Returns the price of a release of votes by one aggregator, and the published claim about it.

    Args:
        audited_aggregator: the aggregator, with assumed values of the parameters that are not known.
        imported_votes: the votes of the release.
        vote_shape: the size of the release.
        release_parameters: the known parameters of the release.
        is_own: whether the caller passed the aggregator, so that its own values are not assumed.
        target_delta: the delta of all epsilons.
        make_accountant: returns an empty accountant, which computes the prices.
        data_dependent: whether to add the data-dependent epsilon.
    """
    known_release = release_parameters.applied(audited_aggregator)
    aggregator = with_failure_prob_for(
        known_release.aggregator, delta=target_delta, num_queries=vote_shape.num_queries
    )
    epsilon_by_adjacency: dict[str, float] = {}
    for adjacency in Adjacency:
        event: Event = NonPrivateEvent()
        if not known_release.is_noiseless:
            event = replace(aggregator, adjacency=adjacency).event(vote_shape)
        accountant = make_accountant().compose(event)
        epsilon_by_adjacency[str(adjacency)] = accountant.get_epsilon(target_delta)
    paper_epsilon: float | None = 0.0
    claim_reasoning = "no noise costs nothing"
    epsilon_and_delta_on_votes = None
    if not known_release.is_noiseless:
        paper_epsilon, claim_reasoning = published_claim(
            aggregator, imported_votes=imported_votes, target_delta=target_delta
        )
        if data_dependent:
            with suppress(UnknownCost):
                epsilon_and_delta_on_votes = epsilon_on(
                    aggregator,
                    vote_counts=imported_votes.counts,
                    vote_shape=vote_shape,
                    target_delta=target_delta,
                )
    assumed: tuple[str, ...] = ()
    if not is_own:
        assumed = tuple(
            name for name in known_release.all_parameters if name in release_parameters.assumed
        )
    return AuditFinding(
        aggregator=_configured_name(aggregator),
        epsilon=epsilon_by_adjacency,
        paper_epsilon=paper_epsilon,
        claim=claim_reasoning,
        parameters=known_release.all_parameters,
        assumed=assumed,
        data_dependent=epsilon_and_delta_on_votes,
    )


def _require_releases(aggregator: Aggregator, *, layout: str) -> None:
    """Raises `InvalidValue` unless an aggregator can release votes of a layout.

    Args:
        aggregator: the aggregator.
        layout: the layout of the votes: "teacher_votes", "histogram", "classes" or "pairs" (`pate.votes.imported`).
    """
    aggregator_name = _configured_name(aggregator)
    if layout == "classes" and not aggregator.single_label:
        rule = f"one that releases one label per query, votes are of layout {layout}"
        raise InvalidValue("aggregator", aggregator_name, rule=rule)
    # An aggregator of one label may need that a teacher votes for few labels, which only classes ensure.
    needs_classes = aggregator.single_label and aggregator.max_votes_per_teacher is not None
    if layout != "classes" and needs_classes:
        rule = f"one that releases several labels, votes are of layout {layout}"
        raise InvalidValue("aggregator", aggregator_name, rule=rule)
    if isinstance(aggregator, aggregators.PowersetGNMax) and layout != "teacher_votes":
        rule = (
            "votes of layout teacher_votes, as counts of labels do not say which teachers voted for which set; of "
            "counts of sets, a column for each, the release is aggregator=gnmax with layout=classes"
        )
        raise InvalidValue("aggregator", aggregator_name, rule=rule)


def _usual_aggregators(
    layout: str, *, vote_shape: VoteShape, target_delta: float
) -> list[Aggregator]:
    """Returns the usual aggregators of votes of a layout, the most usual one first, with assumed parameters.

    Args:
        layout: the layout of the votes, such as "classes".
        vote_shape: the numbers of queries, labels and teachers.
        target_delta: the delta of the price, of which failure probabilities take a part.
    """
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
    usual_aggregators: list[Aggregator] = [
        aggregators.GaussianVotes(noise_std=noise_std),
        aggregators.ConfidentVotes(
            noise_std=noise_std, screening_std=screening_std, threshold_share=threshold_share
        ),
        aggregators.ClippedVotes(noise_std=noise_std, vote_clip=int(ASSUMED["vote_clip"])),
    ]
    if layout == "teacher_votes":
        # The other layouts have counts of labels, which do not say which teachers voted for which set.
        usual_aggregators.append(aggregators.PowersetGNMax(noise_std=noise_std))
    if vote_shape.num_labels == 1:
        return usual_aggregators
    # The failure probability of the paper, or a smaller one, so that failures leave some of delta.
    failure_prob = min(1e-9, 0.6 * target_delta / vote_shape.num_queries)
    return [
        *usual_aggregators,
        aggregators.StableTopK(
            selection_noise="gaussian",
            selection_scale=noise_std,
            test_std=noise_std,
            failure_prob=failure_prob,
        ),
    ]


def _configured_name(aggregator: Aggregator) -> str:
    """Returns the name of an aggregator's class in snake case, as in the configuration, such as clipped_votes."""
    class_name = type(aggregator).__name__.replace("GNMax", "Gnmax").replace("TopK", "Top_k")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()
