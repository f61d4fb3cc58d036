"""The privacy card of a release: its price, its warnings, and what it must not reveal."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from pate.report import Privacy, PrivacyStatement, Report, privacy_card


def card_of(report: Report, known_share_of_label: Mapping[str, float] | None = None) -> str:
    """Returns the privacy card of a report.

    Args:
        report: the report.
        known_share_of_label: by label, the released share of records for which the label is known; None if labels have
            no gaps.
    """
    return privacy_card(
        report.privacy,
        dataset=report.data.name,
        num_answered=report.release.num_answered,
        num_labels=report.data.num_labels,
        num_teachers=report.teachers.num_teachers,
        known_shares=known_share_of_label,
    )


def test_the_card_states_price_unit_and_mechanism(report: Report) -> None:
    """The card has rows with epsilon, delta, unit, accountant, queries, teachers, mechanism and noise."""
    text = card_of(report=report)
    assert (
        "This release is (8.00, 1e-6)-differentially private under the adjacency replace_one"
        in text
    )
    rows = {
        "epsilon": "8.00",
        "delta": "1e-6",
        "unit of privacy": "one family of glosses",
        "accountant": "rdp",
        "queries priced": "6",
        "queries answered": "3",
        "mechanism": "stable_top_k_table",
        "teachers": "411",
        "mechanism.selection_noise": "gumbel",
        "mechanism.selection_scale": "39.5",
        "noise": "ChaCha20, from the operating system's entropy",
        "failure probability, within delta": "6e-7",
    }
    assert {f"| {name} | {value} |" for name, value in rows.items()} <= set(text.splitlines())
    assert (
        "More than one unit of privacy at once"
        in text.partition("## What the epsilon does not cover")[2]
    )


def test_the_card_has_no_number_without_an_epsilon(report: Report) -> None:
    """The card has no number that no epsilon covers: neither the seed, scores nor counts of private records."""
    seeded_report = replace(report, seed=918273, privacy=replace(report.privacy, noise_seeded=True))
    text = card_of(report=seeded_report)
    forbidden = [
        seeded_report.seed,
        seeded_report.duration_s,
        seeded_report.data.label_cardinality,
        seeded_report.data.num_private,
        seeded_report.teachers.mean_accuracy,
        seeded_report.teachers.records_per_teacher,
        seeded_report.release.label_accuracy,
        seeded_report.release.micro_f1,
    ]
    for scores in (seeded_report.student, *vars(seeded_report.baselines).values()):
        forbidden += vars(scores).values()
    for value in forbidden:
        for number in {str(value), f"{value:.3f}", f"{value:.2f}", f"{value:,}"}:
            assert number not in text, number
    for word in ("accuracy", "F1", "majority", "baseline", "prior", "/"):
        assert word not in text, word


def test_the_card_takes_only_the_price_from_the_report() -> None:
    """`Privacy`, the part of a report that the card shows, has exactly the listed fields, so a new one is noticed."""
    # Whoever adds a field to Privacy must decide whether it may be published.
    # `scores` were released at a price of their own, and `start` repeats the price of an earlier, published release.
    # `tuning` has the distribution of the number of runs, and not the number.
    # `won_by` is decided by the price's event and by what is installed, `plain_epsilon` by the queries that were asked.
    names = (
        "epsilon delta adjacency unit accountant mechanism num_queries paper_epsilon noise_seeded failure_prob max_gap "
        "gap_at_50 gap_at_95 parameters target_hits plain_epsilon won_by classes unit_columns attacks scores start "
        "tuning"
    )
    assert {item.name for item in fields(Privacy)} == set(names.split())


def test_the_card_warns_of_seeded_noise_twice(report: Report) -> None:
    """With seeded noise, the card says so in a row and in a sentence. Without it, the card has no word on seeds."""
    assert "seed" not in card_of(report=report)
    text = card_of(report=replace(report, privacy=replace(report.privacy, noise_seeded=True)))
    assert "| noise | seeded: seeded noise protects nobody who knows the seed |" in text
    assert "holds only against readers who do not know the seed" in text


def test_an_infinite_epsilon_is_called_no_guarantee(report: Report) -> None:
    """With an infinite epsilon the card says that there is no privacy guarantee."""
    text = card_of(report=replace(report, privacy=replace(report.privacy, epsilon=math.inf)))
    assert "**no privacy guarantee**" in text
    assert "differentially private" not in text


def test_markup_in_a_name_stays_in_its_table_cell(report: Report) -> None:
    """A unit and a parameter with Markdown and HTML are escaped within their cells."""
    privacy_with_markup = replace(
        report.privacy, unit="a|b\n# <script>", parameters={"test": "`x`|[y](z)"}
    )
    text = card_of(report=replace(report, privacy=privacy_with_markup))
    assert "| unit of privacy | a\\|b \\# \\<script\\> |" in text.splitlines()
    assert "| mechanism.test | \\`x\\`\\|\\[y\\](z) |" in text.splitlines()


def test_only_an_epsilon_above_ten_is_called_weak(report: Report) -> None:
    """At epsilon 387 the card says that it promises little, and at 7.99 it does not."""
    weak = "An epsilon above 10 promises one person little."
    assert weak in card_of(report=replace(report, privacy=replace(report.privacy, epsilon=387.0)))
    assert weak not in card_of(report=report)


def test_the_card_of_a_session_has_one_price_for_all_its_hits(report: Report) -> None:
    """The card of a session says how many hits its price allows, and not that refused queries cost like answers."""
    each_query = "a refused query costs as much as an answered one"
    whole_session = "they are the price of a session of up to 5 hits, however many it has"
    text = card_of(report=report)
    assert each_query in text and whole_session not in text
    session = replace(report.privacy, target_hits=5)
    text = card_of(report=replace(report, privacy=session))
    assert whole_session in text and each_query not in text


def test_a_notebook_shows_the_terms_of_a_statement(report: Report) -> None:
    """The HTML of a statement has its terms, in which names with markup are escaped."""
    statement = PrivacyStatement.from_privacy(
        replace(report.privacy, unit="one <b>"),
        data_name="ward & clinic",
        num_answered=3,
        num_labels=4,
        num_teachers=411,
    )
    shown = statement._repr_html_()
    for text in (
        "ward &amp; clinic",
        "one &lt;b&gt;",
        "<td>8.00</td>",
        "replace_one",
        "3 of 6 answered",
    ):
        assert text in shown


def test_the_card_says_that_labels_may_be_missing(report: Report) -> None:
    """The card ends with lines on gaps, whose first says that it is public that labels may be missing.

    Without gaps, the card has all other lines and none of these.
    """
    sentence = "- That labels of private records may be missing: that is public."
    text = privacy_card(
        report.privacy,
        dataset=report.data.name,
        num_answered=report.release.num_answered,
        num_labels=report.data.num_labels,
        num_teachers=report.teachers.num_teachers,
        labels_have_gaps=True,
    )
    assert sentence in text
    lines_on_gaps = text[text.index(sentence) - 1 :].rstrip("\n")
    assert text.replace(lines_on_gaps, "") == card_of(report=report)


def test_released_known_shares_are_published_by_label(report: Report, tmp_path: Path) -> None:
    """If labels have gaps, the card names the labels that are known least often, and privacy.json has all known shares.

    Without gaps, neither file mentions them.
    """
    known_share_of_label = {f"label {number}": number / 10 for number in range(1, 8)}
    text = card_of(report=report, known_share_of_label=known_share_of_label)
    assert "40.0% of all; least often: label 1 10.0%, label 2 20.0%," in text
    assert "label 6" not in text
    assert "labels that are known" not in card_of(report=report)
    for stated_share_of_label in (known_share_of_label, {}):
        statement = PrivacyStatement.from_privacy(
            report.privacy,
            data_name="clinic",
            num_answered=3,
            num_labels=7,
            num_teachers=5,
            known_shares=stated_share_of_label,
        )
        statement.write(tmp_path)
        read_back = PrivacyStatement.read(tmp_path, remedy="")
        assert read_back.known_shares == stated_share_of_label
        has_field = "known_shares" in (tmp_path / "privacy.json").read_text(encoding="utf-8")
        assert has_field == bool(stated_share_of_label)
