"""The price of a release as it is published: a privacy card for people, and `privacy.json` for programs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from pate.accounting import Budget, Event, PrivacyUnit, SelfComposedEvent
from pate.accounting.attack_bounds import AttackBounds
from pate.accounting.event_tree import failure_probability
from pate.aggregators import Aggregator, CenteredVotes, Release
from pate.aggregators.centered_release import CenteredRelease, RoundsRelease
from pate.aggregators.release import ChargedRelease
from pate.data import Split
from pate.files.atomic import write_text
from pate.files.published_fields import published_fields
from pate.pricing import PricedRelease
from pate.report import Privacy, PrivacyStatement, privacy_card
from pate.report.metrics import micro_f1
from pate.report.privacy import NUM_LABELED_AT_START, EarlierPrice, Scalar
from pate.report.report import ReleaseSummary
from pate.run.released_start import ReleasedStart
from pate.run.tuned_runs import TunedRuns
from pate.votes.labeled_rows import LabeledRows


class Charge(Protocol):
    """The charge of a drawn release: of a run in its ledger (`RunCharge`), or of a classifier's fit (`FitPrice`)."""

    @property
    def priced_release(self) -> PricedRelease:
        """The release, with the price of one draw of its noise."""

    @property
    def budget(self) -> Budget:
        """The epsilon and delta that the release may cost, and the accountant that computes the price."""

    @property
    def unit(self) -> PrivacyUnit:
        """The unit of privacy: what two neighboring data sets differ in, such as one group of records."""

    @property
    def seed(self) -> int | None:
        """The seed of the noise; None for noise from the operating system."""

    @property
    def num_draws(self) -> int:
        """The number of draws of the noise that were charged, of which the last one is published."""

    @property
    def epsilon(self) -> float:
        """The epsilon of all draws together, or of the best run of a tuning; infinity for no guarantee."""

    @property
    def tuned(self) -> TunedRuns | None:
        """The public facts on the tuning, if the release is the best run of one; None otherwise.

        They are the price of one run and of its score, the distribution of the number of runs, and the number of
        settings that competed.
        """

    @property
    def published_event(self) -> Event:
        """The price of what is published as an event, from which any accountant can compute an epsilon."""


def privacy_of(drawn_release: Release, release_charge: Charge) -> Privacy:
    """Returns the price of a release and the parameters of its mechanism; all of them may be published.

    Args:
        drawn_release: the release.
        release_charge: the charge of the release.
    """
    priced_release = release_charge.priced_release
    budget = release_charge.budget
    session = drawn_release if isinstance(drawn_release, ChargedRelease) else None
    aggregator = priced_release.aggregator
    tuned = release_charge.tuned
    num_teachers = priced_release.shape.num_teachers
    stability_test = aggregator.stability_test(num_teachers=num_teachers)
    published = published_fields(type(aggregator), values=vars(aggregator))
    # The price of a session is shown beside that of the same queries, drawn as often, under plain composition.
    plain_composition_event = None
    if session is not None:
        asked_shape = replace(priced_release.shape, num_queries=session.num_asked)
        event_of_draw = aggregator.plain_event(asked_shape)
        if event_of_draw is not None:
            plain_composition_event = SelfComposedEvent(
                event_of_draw, count=release_charge.num_draws
            )
    paper_epsilon = aggregator.paper_epsilon(
        num_queries=drawn_release.num_queries, target_delta=budget.delta
    )
    parameters: dict[str, Scalar] = {
        name: value
        for name, value in published.items()
        if isinstance(value, (str, int, float, bool))
    }
    parameters |= _num_public_labels(aggregator)
    return Privacy(
        epsilon=release_charge.epsilon,
        delta=budget.delta,
        adjacency=str(drawn_release.adjacency),
        unit=release_charge.unit.protected_under(drawn_release.adjacency),
        unit_columns=release_charge.unit.columns,
        accountant=budget.accountant().name,
        won_by=_cheapest_accountant(release_charge),
        mechanism=type(aggregator).__name__,
        num_queries=drawn_release.num_queries,
        paper_epsilon=paper_epsilon,
        noise_seeded=release_charge.seed is not None,
        failure_prob=failure_probability(release_charge.published_event),
        max_gap=None if stability_test is None else stability_test.num_teachers,
        gap_at_50=None if stability_test is None else stability_test.gap_to_pass(probability=0.5),
        gap_at_95=None if stability_test is None else stability_test.gap_to_pass(probability=0.95),
        target_hits=None if session is None else session.target_hits,
        plain_epsilon=None
        if plain_composition_event is None
        else budget.epsilon_of(plain_composition_event),
        parameters=parameters,
        classes={
            budget_class.name: budget_class.epsilon for budget_class in priced_release.classes
        },
        start=_price_of_earlier_release(aggregator),
        attacks=None if math.isinf(release_charge.epsilon) else _attack_bounds(release_charge),
        tuning=None if tuned is None else tuned.statement(budget),
    )


def _price_of_earlier_release(aggregator: Aggregator) -> EarlierPrice | None:
    """Returns the price of the earlier release that the student of a release started from; None if it had none."""
    start = aggregator.start if isinstance(aggregator, CenteredVotes) else None
    return start.earlier_price if isinstance(start, ReleasedStart) else None


def _cheapest_accountant(release_charge: Charge) -> str | None:
    """Returns the name of the accountant that found the smallest price, if the budget's accountant compares several.

    The result is None if the budget's accountant is a single one. The price is that of one draw, or, for a tuned
    release, that of the best run.
    """
    if release_charge.tuned is None:
        return release_charge.priced_release.won_by
    budget = release_charge.budget
    composed_accountant = budget.accountant().compose(release_charge.published_event)
    winner = composed_accountant.winner(budget.delta)
    return None if winner == composed_accountant.name else winner


def _num_public_labels(aggregator: Aggregator) -> dict[str, Scalar]:
    """Returns the number of public rows from whose labels the student started, as a parameter of the mechanism.

    The mapping has this number by its published name. It is empty if the student did not start from public labels.
    """
    start = aggregator.start if isinstance(aggregator, CenteredVotes) else None
    return {NUM_LABELED_AT_START: len(start.labels)} if isinstance(start, LabeledRows) else {}


def _attack_bounds(release_charge: Charge) -> AttackBounds:
    """Returns bounds on what an attack can find out from all draws of a release, or from the best run of a tuning."""
    composed_accountant = release_charge.budget.accountant().compose(release_charge.published_event)
    return AttackBounds.from_accountant(accountant=composed_accountant)


def summary_of(drawn_release: Release, queries: Split | None = None) -> ReleaseSummary:
    """Returns how many queries were answered, how accurate the released labels are and, for a session, its hits.

    Args:
        drawn_release: the release.
        queries: the queries with their true labels; None if no label is known, and then there is no accuracy.
    """
    labels = drawn_release.labels[drawn_release.answered]
    label_accuracy = None
    answer_f1 = None
    if queries is not None and len(labels):
        true_labels = queries.labels[drawn_release.answered]
        known = None if queries.known is None else queries.known[drawn_release.answered]
        is_released_bit_right = labels == true_labels
        if known is not None:
            is_released_bit_right = is_released_bit_right[known]
        if is_released_bit_right.size > 0:
            label_accuracy = float(np.mean(is_released_bit_right))
            answer_f1 = micro_f1(labels, true_labels=true_labels, known=known)
    summary = ReleaseSummary(
        num_queries=drawn_release.num_queries,
        num_answered=drawn_release.num_answered,
        answer_rate=drawn_release.num_answered / drawn_release.num_queries,
        label_accuracy=label_accuracy,
        micro_f1=answer_f1,
    )
    if not isinstance(drawn_release, ChargedRelease):
        return summary
    return replace(
        summary,
        num_hits=drawn_release.num_hits,
        remaining_hits=drawn_release.remaining_hits,
        num_abstained=drawn_release.num_abstained,  # the hits without an answer
        num_asked=drawn_release.num_asked,
    )


def known_shares_by_label(
    drawn_release: Release, *, label_names: Sequence[str]
) -> dict[str, float]:
    """Returns the released share of records for which each label is known, by the label's name; empty if there is none.

    Args:
        drawn_release: the release.
        label_names: the name of each label.
    """
    if not isinstance(drawn_release, (CenteredRelease, RoundsRelease)):
        return {}
    shares = drawn_release.known_shares
    return {} if shares is None else dict(zip(label_names, shares.tolist(), strict=True))


def write_price(
    drawn_release: Release,
    release_charge: Charge,
    privacy: Privacy,
    *,
    release_folder: Path,
    sentences_on_people: Sequence[str] = (),
    data_name: str,
    is_real: bool,
    aggregator_name: str | None,
    feature_settings: Mapping[str, Scalar] | None,
    stated_public: Sequence[str] = (),
    labels_have_gaps: bool = False,
    label_names: Sequence[str] = (),
    public_answers_digest: str = "",
) -> None:
    """Writes the privacy card of a release for people, and `privacy.json`, which states the same price for programs.

    Args:
        drawn_release: the release.
        release_charge: the charge of the release.
        privacy: the price, with the parameters of the mechanism.
        release_folder: the folder of published files.
        sentences_on_people: sentences on whose data the price protects (`Places.promises`); empty without holders.
        data_name: the public name of the data.
        is_real: true for records of real people, false for synthetic records.
        aggregator_name: the name of the aggregator in the configuration; None if the name may not be published.
        feature_settings: the settings of the features that replace pictures or texts; None if the inputs are plain
            numbers.
        stated_public: what is public by the statement of the data owner alone, such as "classes"; empty for nothing.
        labels_have_gaps: whether labels of private records may be unknown, which is public.
        label_names: the names of the labels, beside which released known shares are published.
        public_answers_digest: the SHA-256 of the public answers that votes are compared with; empty where there are
            none.
    """
    known_share_of_label = known_shares_by_label(drawn_release, label_names=label_names)
    num_hits = drawn_release.num_hits if isinstance(drawn_release, ChargedRelease) else None
    vote_shape = release_charge.priced_release.shape
    shown_name = data_name if is_real else f"{data_name} (synthetic)"
    card_text = privacy_card(
        privacy,
        name=aggregator_name,
        dataset=shown_name,
        num_answered=drawn_release.num_answered,
        num_labels=vote_shape.num_labels,
        num_teachers=vote_shape.num_teachers,
        num_hits=num_hits,
        features=feature_settings,
        places=sentences_on_people,
        stated_public=stated_public,
        labels_have_gaps=labels_have_gaps,
        known_shares=known_share_of_label,
        public_answers=public_answers_digest,
    )
    write_text(release_folder / "privacy_card.md", text=card_text)
    privacy_statement = PrivacyStatement.from_privacy(
        privacy,
        data_name=shown_name,
        num_answered=drawn_release.num_answered,
        num_labels=vote_shape.num_labels,
        num_teachers=vote_shape.num_teachers,
        stated_public=stated_public,
        known_shares=known_share_of_label,
        public_answers=public_answers_digest,
    )
    privacy_statement.write(release_folder)
