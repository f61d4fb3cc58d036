"""Findings of an audit of votes: sound prices under both adjacencies, and the claims of papers beside them."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, AutoAccountant, RdpAccountant
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    ClippedVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.auditing.published_claims import published_claim
from pate.auditing.release_parameters import ReleaseParameters
from pate.auditing.vote_audit import AuditFinding, VoteAudit, audit_votes
from pate.votes.imported import ImportedVotes
from tests.refusals import Refusal, refused_parameter

VOTE_COUNTS = np.tile(np.arange(40) * 20, (600, 1))
IMPORTED_TEACHER_VOTES = ImportedVotes(
    layout="teacher_votes", counts=VOTE_COUNTS, num_teachers=800, max_votes=9
)
UNKNOWN_PARAMETERS = ReleaseParameters()
CLIPPED_VOTES = ClippedVotes(noise_std=1.0, vote_clip=1, threshold_share=0.4)
IMPORTED_CLASS_VOTES = ImportedVotes(
    layout="classes", counts=np.tile([240, 6, 4], (500, 1)), num_teachers=250, max_votes=1
)


def audit_of(
    votes: ImportedVotes,
    aggregator: Aggregator | None = None,
    parameters: ReleaseParameters = UNKNOWN_PARAMETERS,
    *,
    accountant: Any = RdpAccountant,
    given_only: bool = False,
) -> VoteAudit:
    """Returns the audit of a vote file at delta 1e-6."""
    return audit_votes(
        votes,
        aggregator=aggregator,
        parameters=parameters,
        target_delta=1e-6,
        accountant=accountant,
        given_only=given_only,
    )


def findings_of(
    votes: ImportedVotes,
    aggregator: Aggregator | None = None,
    parameters: ReleaseParameters = UNKNOWN_PARAMETERS,
    *,
    accountant: Any = RdpAccountant,
    given_only: bool = False,
) -> dict[str, AuditFinding]:
    """Returns the findings of an audit by the names of their aggregators."""
    audit = audit_of(
        votes=votes,
        aggregator=aggregator,
        parameters=parameters,
        accountant=accountant,
        given_only=given_only,
    )
    return {finding.aggregator: finding for finding in audit.findings}


@pytest.mark.slow
def test_prices_are_those_of_the_aggregators_under_both_adjacencies() -> None:
    """The audit's price of clipped votes, for each adjacency, is that of an aggregator with the same noise and clip."""
    findings = findings_of(
        votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(noise_std=40.0, vote_clip=3)
    )
    for adjacency in Adjacency:
        aggregator = ClippedVotes(noise_std=40.0, vote_clip=3, adjacency=adjacency)
        event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
        expected = RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)
        assert findings["clipped_votes"].epsilon[adjacency] == expected


@pytest.mark.slow
def test_the_papers_claim_and_its_true_price() -> None:
    """For stable top-k, the paper claims epsilon 3.66; the audit's valid bounds are 7.71 and 17.78.

    The claim and the bound of 7.71 are for add-remove; the bound of 17.78 is for replace-one.
    """
    finding = findings_of(
        votes=IMPORTED_TEACHER_VOTES,
        parameters=ReleaseParameters(noise_std=50.0, screening_std=60.0),
        accountant=AutoAccountant,
    )["stable_top_k"]
    assert finding.paper_epsilon == pytest.approx(3.66, abs=0.01)
    assert finding.epsilon["add_remove"] == pytest.approx(7.71, abs=0.05)
    assert finding.epsilon["replace_one"] == pytest.approx(17.78, abs=0.1)


@pytest.mark.slow
def test_data_dependent_and_expected_claims_are_below_the_bound_and_marked_private() -> None:
    """The published epsilons of GNMax and ConfidentGNMax, which depend on the votes, are below the audit's price.

    The words of both claims say that these epsilons are themselves private.
    """
    gnmax, confident = findings_of(
        votes=IMPORTED_CLASS_VOTES,
        parameters=ReleaseParameters(noise_std=20.0, screening_std=100.0, threshold_share=0.95),
    ).values()
    for finding in (gnmax, confident):
        assert (finding.paper_epsilon or math.inf) < finding.epsilon["replace_one"]
        assert "private" in finding.claim


@pytest.mark.slow
def test_no_noise_is_infinite_whatever_is_claimed() -> None:
    """A noise std of 0 has an infinite price, although published code claims epsilon 0.

    A screening std of 0 makes the price of confident votes infinite, and not that of Gaussian votes, which have no
    screening.
    """
    for finding in findings_of(
        votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(noise_std=0.0)
    ).values():
        assert set(finding.epsilon.values()) == {math.inf}
        assert finding.paper_epsilon == 0
    findings = findings_of(
        votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(screening_std=0.0)
    )
    assert findings["confident_votes"].epsilon["replace_one"] == math.inf
    assert findings["gaussian_votes"].epsilon["replace_one"] < math.inf


@pytest.mark.slow
def test_the_aggregator_given_comes_first_with_its_own_parameters() -> None:
    """An audit lists a given aggregator first, with its own parameters and without a claim of the paper.

    The given aggregator replaces the finding of the same name with assumed parameters.
    """
    known_aggregator = StableTopK(selection_scale=39.0, test_std=60.0)
    first = next(
        iter(
            findings_of(
                votes=IMPORTED_TEACHER_VOTES, aggregator=known_aggregator, accountant=AutoAccountant
            ).values()
        )
    )
    assert (first.aggregator, first.paper_epsilon) == ("stable_top_k", None)
    assert first.epsilon["replace_one"] == pytest.approx(7.59, abs=0.02)
    assert (
        list(findings_of(votes=IMPORTED_TEACHER_VOTES, aggregator=known_aggregator)).count(
            "stable_top_k"
        )
        == 1
    )


@pytest.mark.parametrize(
    ("refusal", "audit_invalidly"),
    [
        (
            refused_parameter("aggregator", value="gnmax", rule_words="releases several"),
            lambda: findings_of(votes=IMPORTED_TEACHER_VOTES, aggregator=GNMax(noise_std=1.0)),
        ),
        (
            refused_parameter("aggregator", value="clipped_votes"),
            lambda: findings_of(votes=IMPORTED_CLASS_VOTES, aggregator=CLIPPED_VOTES),
        ),
        (
            refused_parameter("noise_std", value=-1.0),
            lambda: findings_of(
                votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(noise_std=-1.0)
            ),
        ),
        (
            refused_parameter("screening_std", value=-1.0),
            lambda: findings_of(
                votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(screening_std=-1.0)
            ),
        ),
    ],
)
def test_invalid_audit_is_refused(refusal: Refusal, audit_invalidly: Any) -> None:
    """An aggregator that does not fit the votes, or a negative std of noise or screening, is refused."""
    with refusal:
        audit_invalidly()


@pytest.mark.slow
def test_an_aggregator_of_one_label_takes_votes_for_several_where_its_price_does() -> None:
    """An audit of boundary max, which releases one label, accepts votes for one class and votes for several labels."""
    known_aggregator = BoundaryMax(selection_scale=20.0, target_hits=5)
    assert (
        next(iter(findings_of(votes=IMPORTED_TEACHER_VOTES, aggregator=known_aggregator)))
        == next(iter(findings_of(votes=IMPORTED_CLASS_VOTES, aggregator=known_aggregator)))
        == "boundary_max"
    )


def test_json_has_the_first_finding_at_the_top_and_no_infinity() -> None:
    """The JSON of an audit repeats its first finding at the top, writes infinity as "inf", and
    names the votes' layout and the assumed parameters.
    """
    audit = audit_of(
        votes=IMPORTED_TEACHER_VOTES,
        aggregator=StableTopK(selection_scale=39.0, test_std=60.0),
        parameters=ReleaseParameters(screening_std=0.0),
    )
    values = json.loads(json.dumps(audit.to_json(adjacency="add_remove"), allow_nan=False))
    first, *others = values["findings"]
    assert (values["aggregator"], values["paper_epsilon"]) == ("stable_top_k", 0.0)
    assert values["epsilon"] == first["epsilon"]["add_remove"] == "inf"
    assert (values["layout"], values["num_queries"], values["num_labels"]) == (
        "teacher_votes",
        600,
        40,
    )
    assert values["assumed"] == {"noise_std": 50.0, "threshold_share": 0.6, "vote_clip": 2}
    assert (
        next(finding for finding in others if finding["aggregator"] == "clipped_votes")["epsilon"][
            "add_remove"
        ]
        < 100
    )


def test_an_aggregator_of_ones_own_claims_what_its_paper_says() -> None:
    """A user's subclass has the claim of its base class, unless the subclass defines `paper_epsilon`."""

    class SubclassWithoutClaim(GaussianVotes):
        pass

    class SubclassWithClaim(StableTopK):
        def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float:
            return num_queries * target_delta

    claim_of_subclass, claim_of_base_class = (
        published_claim(
            aggregator=aggregator_class(noise_std=40.0),
            imported_votes=IMPORTED_TEACHER_VOTES,
            target_delta=1e-6,
        )
        for aggregator_class in (SubclassWithoutClaim, GaussianVotes)
    )
    assert claim_of_subclass == claim_of_base_class
    assert (
        published_claim(
            aggregator=SubclassWithClaim(selection_scale=1.0, test_std=1.0),
            imported_votes=IMPORTED_TEACHER_VOTES,
            target_delta=1e-6,
        )[0]
        == 600 * 1e-6
    )


@pytest.mark.slow
def test_powerset_votes_are_not_priced_for_counts_of_labels() -> None:
    """Counts of labels, which do not determine the counts of label sets, have no finding for powerset GNMax.

    Votes of single teachers have one. As the audited aggregator, powerset GNMax is refused for counts of labels.
    """
    imported_counts = ImportedVotes(
        layout="histogram", counts=VOTE_COUNTS, num_teachers=800, max_votes=None
    )
    assert "powerset_gnmax" in findings_of(
        votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(noise_std=40.0)
    )
    assert "powerset_gnmax" not in findings_of(
        votes=imported_counts, parameters=ReleaseParameters(noise_std=40.0)
    )
    with refused_parameter("aggregator", value="powerset_gnmax", rule_words="layout teacher_votes"):
        findings_of(votes=imported_counts, aggregator=PowersetGNMax(noise_std=40.0))


@pytest.mark.slow
def test_given_only_leaves_out_releases_with_assumed_parameters() -> None:
    """With `given_only`, an audit prices only releases whose parameters are all known, or the audited aggregator alone.

    The threshold of clipped votes may still be assumed. If no parameter is known, Gaussian votes with an assumed noise
    std are the only finding. Without `given_only`, each finding names the parameters that were assumed.
    """

    def assumed_parameters(
        known_parameters: ReleaseParameters = UNKNOWN_PARAMETERS,
        aggregator: Aggregator | None = None,
    ) -> dict[str, tuple[str, ...]]:
        findings = findings_of(
            votes=IMPORTED_TEACHER_VOTES,
            aggregator=aggregator,
            parameters=known_parameters,
            given_only=True,
        )
        return {name: finding.assumed for name, finding in findings.items()}

    noise_only = ReleaseParameters(noise_std=40.0)
    noise_and_clip = ReleaseParameters(noise_std=40.0, vote_clip=3)
    both_noises = ReleaseParameters(noise_std=40.0, screening_std=60.0)
    stable = StableTopK(selection_scale=39.0, test_std=60.0)
    assert assumed_parameters() == {"gaussian_votes": ("noise_std",)}
    assert assumed_parameters(known_parameters=noise_only) == {
        "gaussian_votes": (),
        "powerset_gnmax": (),
    }
    assert assumed_parameters(known_parameters=noise_and_clip) == {
        "gaussian_votes": (),
        "clipped_votes": ("threshold_share",),
        "powerset_gnmax": (),
    }
    assert list(assumed_parameters(aggregator=stable)) == ["stable_top_k"]
    both = assumed_parameters(known_parameters=both_noises)
    assert both["stable_top_k"] == ()
    assert "confident_votes" not in both
    finding = findings_of(
        votes=IMPORTED_TEACHER_VOTES,
        parameters=ReleaseParameters(noise_std=40.0, screening_std=60.0),
    )["stable_top_k"]
    assert finding.parameters == {"noise_std": 40.0, "screening_std": 60.0}
    assert findings_of(votes=IMPORTED_TEACHER_VOTES, parameters=ReleaseParameters(noise_std=40.0))[
        "confident_votes"
    ].assumed == (
        "screening_std",
        "threshold_share",
    )


def test_known_parameters_replace_those_of_an_aggregator() -> None:
    """Known parameters of a release replace those fields of an aggregator that have their names.

    Other fields stay, and unknown parameters are listed as assumed.
    """
    parameters = ReleaseParameters(noise_std=40.0, vote_clip=3, max_size=4)
    known_release = parameters.applied(aggregator=CLIPPED_VOTES)
    assert known_release.aggregator == ClippedVotes(
        noise_std=40.0, vote_clip=3, threshold_share=0.4
    )
    assert not known_release.is_noiseless
    assert parameters.known == {"noise_std": 40.0, "vote_clip": 3, "max_size": 4}
    assert parameters.assumed == {"screening_std": 50.0, "threshold_share": 0.6}


def test_the_threshold_of_clipped_votes_is_listed() -> None:
    """An audit lists the threshold of clipped votes, whose price depends on it, given or assumed."""
    noise_and_clip = ReleaseParameters(noise_std=3.0, vote_clip=3)
    given = replace(noise_and_clip, threshold_share=0.5003)
    assumed_finding, given_finding = (
        findings_of(votes=IMPORTED_TEACHER_VOTES, parameters=parameters)["clipped_votes"]
        for parameters in (noise_and_clip, given)
    )
    listed = {"noise_std": 3.0, "vote_clip": 3}
    assert assumed_finding.parameters == listed | {"threshold_share": 0.5}
    assert assumed_finding.assumed == ("threshold_share",)
    assert given_finding.parameters == listed | {"threshold_share": 0.5003}
    assert given_finding.assumed == ()
    assert given_finding.epsilon["replace_one"] != assumed_finding.epsilon["replace_one"]


def test_known_noise_takes_the_names_of_a_stable_aggregator() -> None:
    """For stable top-k, `noise_std` becomes the `selection_scale`, and `screening_std` the `test_std`."""
    stable = StableTopK(selection_scale=1.0, test_std=2.0)
    known_release = ReleaseParameters(noise_std=40.0, screening_std=60.0).applied(aggregator=stable)
    assert known_release.aggregator == StableTopK(selection_scale=40.0, test_std=60.0)
    assert not known_release.is_noiseless
    assert ReleaseParameters().applied(aggregator=stable).aggregator == stable


def test_a_release_is_noiseless_where_a_noise_of_its_own_is_zero() -> None:
    """A screening std of 0 makes stable top-k noiseless, as its test has this noise, and leaves clipped votes noisy."""
    no_screening = ReleaseParameters(screening_std=0.0)
    assert no_screening.applied(
        aggregator=StableTopK(selection_scale=1.0, test_std=2.0)
    ).is_noiseless
    assert not no_screening.applied(aggregator=CLIPPED_VOTES).is_noiseless
