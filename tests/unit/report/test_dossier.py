"""The dossier of a release: its page of questions and answers, its trade-off curve, and the attacks that it shows."""

import json
import math
import re
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import AutoAccountant, GaussianEvent
from pate.accounting.attack_bounds import AttackBounds
from pate.files.manifest import MANIFEST, Manifest
from pate.report.attack_report import AttackReport
from pate.report.card import PrivacyStatement
from pate.report.dossier import Dossier, probability_in_words
from pate.report.released_scores import ReleasedScore, ReleasedScores
from pate.report.tuning import Tuning
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

# The noise of the release makes it MU-GDP.
MU = 1.0
ACCOUNTANT = AutoAccountant().compose(GaussianEvent(noise_multiplier=1 / MU))
STATEMENT = PrivacyStatement(
    epsilon=5.0,  # rounded up from 4.89
    delta=1e-6,
    adjacency="replace_one",
    unit="one value of the column patient, with all its rows",
    accountant="exact",
    mechanism="CenteredVotes",
    parameters={"noise_multiplier": 1.0},
    noise="system",
    data="clinic",
    num_queries=100,
    num_answered=90,
    num_labels=2,
    num_teachers=960,
    attacks=AttackBounds.from_accountant(ACCOUNTANT),
)
DIGEST = "0" * 64
DOSSIER = Dossier(
    statement=STATEMENT, labels=("flu", "cough"), model="linear", files={"privacy.json": DIGEST}
)
# The result of an attack on the release of `STATEMENT`, without sabotage.
ATTACK_REPORT = AttackReport(
    epsilon=5.0,
    delta=1e-6,
    lower_bound=2.29,
    confidence=0.95,
    num_canaries=4000,
    num_guesses=379,
    num_correct=300,
    unit="record",
    aggregator="CenteredVotes",
    sabotage=None,
)


def text_of(html_page: str) -> str:
    """Returns the words of a page in HTML, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html_page)).split())


def write_release(folder: Path, statement: PrivacyStatement = STATEMENT) -> Path:
    """Makes the folder of a release with `privacy.json`, a schema and the manifest, and returns the folder."""
    folder.mkdir()
    statement.write(folder)
    schema = {"labels": ["flu", "cough"], "model": "linear", "kind": "features", "input_shape": [3]}
    (folder / "schema.json").write_text(json.dumps(schema))
    file_names = ("privacy.json", "schema.json")
    Manifest.from_files(folder, file_names, missing_file_remedy="").write(folder)
    return folder


def write_attack(folder: Path, attack: AttackReport = ATTACK_REPORT) -> Path:
    """Writes the output of `pate-attack format=json` for an attack, and returns the file."""
    attack_file = folder / "attack.json"
    printed_values = asdict(attack) | {"refuted": False, "seconds": 3.0}
    attack_file.write_text(json.dumps(printed_values))
    return attack_file


ANSWERS = {
    "what was published": "90 of 100 public records got 2 labels each",
    "whom it protects": "one value of the column patient, with all its rows",
    "what it promises me": "Nobody who sees the release can tell these worlds apart better than the figures",
    "what delta is": "times that in the other, plus one in a million, called delta",
    "was the noise random": "from random numbers of the operating system, which were stored nowhere",
    "can we publish a second model": "two like this one: epsilon 10.00, delta 2 in a million",
    "what if consent is withdrawn": "After publication: the person cannot be taken out",
    "who publishes it": "contact for questions and objections to be filled in by the publisher",
    "what a word means": "Whoever knows it can compute the noise again and subtract it",
    "what an attacker finds": "1% 9.3% 9.3 times",
    "what it does not promise": "Their epsilons and deltas are added to those of this one",
    "may I publish this": "yes, the whole folder, and this page",
    "what must stay inside": "the private data, the ledger, votes, teachers",
    "how good is it": "Not published. Scores read private labels",
    "was it attacked": "it is proved for all attacks",
    "did anybody attack it": "This page shows no attack, and does not say whether there was one",
    "is epsilon 5 a lot": "Is that epsilon a lot? It is in the middle: 5.00 limits attacks",
    "what an attacker finds, in short": "Of the members at most 9.3%",
    "who is responsible": "Who is responsible? The publisher, who is not named yet, chose the data, epsilon",
    "what it does not cover, in short": "facts about everybody, other releases of the same data",
    "who is in the test records": "Nothing in the folder was computed from test records",
    "what a unit is for a person": "whether all data of one person are in one unit",
    "where the script is": "scripts/verify_release.py in the source of pate-multilabel",
    "what a coin has to do with it": "Without the release it is 50%",
    "how do I check it": "python scripts/verify_release.py release/",
    "why should I believe it": "docs/proofs/centered_votes.md",
    "what goes into a registry": "privacy_parameters.epsilon 5.00 privacy_parameters.delta 1e-6 (one in a million)",
}


@pytest.mark.parametrize("question", ANSWERS)
def test_page_answers_a_question_of_a_non_expert(question: str) -> None:
    """The page of a release has the answer to each question, in the words of `ANSWERS`."""
    assert ANSWERS[question] in text_of(html_page=DOSSIER.html())


@pytest.mark.parametrize(
    ("epsilon", "answer"),
    [
        (1.0, "No: 1.00 counts as a strong guarantee"),
        (10.0, "It is in the middle: 10.00"),
        (10.01, "Yes: 10.01 promises one person little"),
    ],
)
def test_scale_of_epsilon_is_that_of_a_guide(epsilon: float, answer: str) -> None:
    """The page calls an epsilon of 1 strong, one of 10 in the middle, and 10.01 weak (Ponomareva et al. 2023)."""
    dossier = replace(DOSSIER, statement=replace(STATEMENT, epsilon=epsilon))
    assert answer in text_of(html_page=dossier.html())


@pytest.mark.parametrize(
    "words",
    [
        "This is the best of several runs : 3 settings competed by noisy scores",
        "about 4 were expected",
        "The people in the test records have a promise of their own (question 1)",
        "for them holds what question 1 says",
    ],
)
def test_tuned_release_says_who_pays_for_the_choice(words: str) -> None:
    """The page of a tuned release says that its run was chosen by scores, and what test records pay for it."""
    num_candidate_settings = 3
    tuning = Tuning(
        eta=1.0,
        gamma=0.25,
        mean_runs=4.0,
        num_candidates=num_candidate_settings,
        run_epsilon=4.0,
    )
    text = text_of(html_page=replace(DOSSIER, statement=replace(STATEMENT, tuning=tuning)).html())
    assert words in text
    assert "Nothing in the folder was computed from test records" not in text


def test_unit_of_wordnet_is_explained() -> None:
    """If the unit of privacy is one of WordNet, the page says that its records are of no person.

    For another unit, the page has no explanation of the unit.
    """
    unit = "one family of synsets with the same gloss, with all its synsets"
    text = text_of(html_page=replace(DOSSIER, statement=replace(STATEMENT, unit=unit)).html())
    assert "The records are entries of WordNet, a dictionary, and of no person." in text
    assert "What a unit is here" not in text_of(html_page=DOSSIER.html())


@pytest.mark.parametrize("mechanism", ["CenteredVotes", "StableTopK"])
def test_page_says_whether_the_script_recomputes_epsilon(mechanism: str) -> None:
    """For stable top-k the page says that the script that verifies a release does not recompute the epsilon.

    For centered votes the page does not say so.
    """
    dossier = replace(DOSSIER, statement=replace(STATEMENT, mechanism=mechanism))
    is_named = "not recomputed" in text_of(html_page=dossier.html())
    assert is_named == (mechanism == "StableTopK")


def test_page_refers_to_nothing_outside() -> None:
    """The page has no script, no link and no reference to another file, and names with markup are escaped."""
    hostile = '"><script>document.title = "taken"</script>'
    page = replace(DOSSIER, labels=(hostile,), statement=replace(STATEMENT, data=hostile)).html()
    assert "<script" not in page
    assert not re.search(r'(src|href)\s*=\s*["\']', page)
    assert "url(" not in page


@pytest.mark.parametrize("false_alarm_rate", [1e-4, 1e-3, 0.02, 0.1, 0.5, 0.9])
def test_curve_of_a_gaussian_is_above_the_exact_one_and_close(false_alarm_rate: float) -> None:
    """The bound on the share of members found is at least that of the Gaussian release, and at most 5% above it."""
    exact = norm.cdf(norm.ppf(false_alarm_rate) + MU)
    assert exact - 1e-9 <= DOSSIER.max_share_found(false_alarm_rate) <= 1.05 * exact


def test_page_says_what_the_publisher_added_to_the_folder() -> None:
    """A page states that it comes from the folder alone only if the publisher added neither lines nor an attack."""
    assert "made from that folder alone" in text_of(html_page=DOSSIER.html())
    with_attack = text_of(html_page=replace(DOSSIER, attack=ATTACK_REPORT).html())
    assert "what the publisher added: the attack in question 6" in with_attack
    with_both = replace(DOSSIER, attack=ATTACK_REPORT, publisher="A hospital")
    assert "the lines below and the attack in question 6" in text_of(html_page=with_both.html())
    for page in (with_attack, text_of(html_page=with_both.html())):
        assert "folder alone" not in page


def test_curve_without_bounds_on_attacks_is_that_of_epsilon_and_delta() -> None:
    """Without `attacks`, as in files of earlier versions, epsilon and delta alone bound the share of members found."""
    dossier = replace(DOSSIER, statement=replace(STATEMENT, attacks=None))
    assert dossier.max_share_found(false_alarm_rate=0.001) == pytest.approx(
        math.exp(5) * 0.001 + 1e-6
    )
    assert dossier.max_share_found(false_alarm_rate=0.5) == pytest.approx(
        1 - (0.5 - 1e-6) / math.exp(5)
    )


def test_curve_rises_from_corner_to_corner() -> None:
    """The points of the curve rise in both coordinates, from the share delta to the share 1."""
    false_alarm_rates, shares = np.array(DOSSIER.curve).T
    assert (np.diff(false_alarm_rates) >= 0).all()
    assert (np.diff(shares) >= -1e-12).all()
    assert shares[0] == STATEMENT.delta
    assert shares[-1] == 1


def test_budget_classes_limit_what_is_compared() -> None:
    """With budget classes, a unit may be replaced by one of its class. The page states each class's epsilon."""
    statement = replace(STATEMENT, classes={"cautious": 1.0, "usual": 5.0})
    text = text_of(html_page=replace(DOSSIER, statement=statement).html())
    assert "your unit is replaced by any other of the same budget class" in text
    assert "cautious 1.00, usual 5.00" in text


SCORE = ReleasedScore(value=0.688, low=0.6604, high=0.7101)
SCORES = ReleasedScores(
    epsilon=0.5,
    delta=1e-6,
    unit="one visit",
    noise_multiplier=8.1,
    num_groups=900,
    micro_f1=SCORE,
    accuracy=SCORE,
    macro_f1=SCORE,
    mean_average_precision=SCORE,
    calibration_error=SCORE,
    subgroups={"sex": {"f": SCORE}},
)
DOSSIER_WITH_RELEASED_SCORES = replace(DOSSIER, statement=replace(STATEMENT, scores=SCORES))


def test_released_scores_are_rows_with_intervals_rounded_outwards() -> None:
    """Each released score, also that of a subgroup, has a row with its name, value and interval."""
    rows = DOSSIER_WITH_RELEASED_SCORES.score_rows
    assert rows[0] == ("micro-F1", "0.688", "0.660 to 0.711")
    assert rows[-1] == ("micro-F1, sex = f", "0.688", "0.660 to 0.711")


@pytest.mark.parametrize(
    "words",
    [
        "micro-F1 0.688 0.660 to 0.711",
        "micro-F1 is 0.688; with 95% confidence it lies from 0.660 to 0.711",
        "an epsilon of their own, 0.5000 at a delta of one in a million",
        "Its unit is one visit , among 900 units of test records",
        "Epsilon for the people in the test records, of the published scores ≤ 0.5000",
        "The people in the test records have a promise of their own (question 5)",
        "It does not protect the people in the test records: for them holds what question 5 says",
        "A second release of scores on the same test records adds its epsilon to this one",
        "epsilon 5.50 at a delta of 2 in a million",
    ],
)
def test_page_says_what_released_scores_cost(words: str) -> None:
    """The page states the price of scores for the people in the test records.

    The sum of both prices, for people who are in private and in test records, is stated as well.
    """
    assert words in text_of(html_page=DOSSIER_WITH_RELEASED_SCORES.html())


@pytest.mark.parametrize("false_alarm_rate", [0.001, 0.01, 0.1, 0.5])
def test_curve_of_scores_is_above_the_exact_one_and_close(false_alarm_rate: float) -> None:
    """The bound on the share found by the scores is that of a Gaussian with their noise multiplier, within 0.1%."""
    exact = norm.cdf(norm.ppf(false_alarm_rate) + 1 / SCORES.noise_multiplier)
    assert (
        exact - 1e-9
        <= DOSSIER_WITH_RELEASED_SCORES.max_share_found_in_scores(false_alarm_rate)
        <= 1.001 * exact
    )


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            replace(DOSSIER_WITH_RELEASED_SCORES.statement, noise="seeded"),
            "Do not publish this release. Its noise was made from a seed",
        ),
        (
            replace(DOSSIER_WITH_RELEASED_SCORES.statement, epsilon=math.inf, attacks=None),
            "Its epsilon is infinite",
        ),
    ],
    ids=["seeded noise", "infinite epsilon"],
)
def test_release_without_protection_is_not_to_be_published(
    statement: PrivacyStatement, words: str
) -> None:
    """The page of a release without protection says not to publish it, and not that the page may be given away."""
    dossier = replace(DOSSIER_WITH_RELEASED_SCORES, statement=statement)
    text = text_of(html_page=dossier.html())
    assert words in text
    assert "May I publish this? No (question 4)" in text
    assert "may be given to anybody" not in text


@pytest.mark.parametrize(
    "start_of_part",
    [
        "<header>",
        "<h2>In short",
        "<h2>2. ",
        "<h2>3. ",
        "<h2>4. ",
        "<h2>5. ",
        "<h2>6. ",
        "<h2>7. ",
        "<h2>8. ",
        "<h2>9. ",
        "<h2>10. ",
    ],
)
def test_each_part_of_a_seeded_page_names_the_seed(start_of_part: str) -> None:
    """Each part of a seeded release's page but question 1 mentions the seed, so that none promises too much alone."""
    seeded_dossier = replace(
        DOSSIER_WITH_RELEASED_SCORES,
        statement=replace(DOSSIER_WITH_RELEASED_SCORES.statement, noise="seeded"),
    )
    _, _, html_from_part_on = seeded_dossier.html().partition(start_of_part)
    html_of_part, _, _ = html_from_part_on.partition("<section>")
    assert "seed" in text_of(html_page=html_of_part)


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.0, "none"),
        (0.0184, "1.9%"),
        (0.001, "0.1%"),
        (0.00099, "990 in a million"),
        (3.15e-6, "3.15 in a million"),
        (3.1501e-6, "3.16 in a million"),
        (1e-6, "one in a million"),
        (2e-8, "20 in a billion"),
        (1e-12, "one in a trillion"),
        (1e-13, "less than one in a trillion"),
    ],
)
def test_small_probabilities_are_written_in_words(probability: float, words: str) -> None:
    """A probability from 0.1% is written as a percentage, and a smaller one in words. Both are rounded up."""
    assert probability_in_words(probability) == words


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (0.0, "1"),
        (1.0, "2.72"),
        (5.0, "149"),
        (8.0, "2,990"),
        (20.0, "486,000,000"),
        (30.0, "10 to the power of 14"),
    ],
)
def test_factor_is_e_to_the_power_of_epsilon(epsilon: float, words: str) -> None:
    """The factor is e to the power of epsilon, rounded up to three digits, or to a power of 10 if it is large."""
    assert replace(DOSSIER, statement=replace(STATEMENT, epsilon=epsilon)).factor == words


def test_publisher_stands_on_the_page_and_in_the_registry(tmp_path: Path) -> None:
    """The publisher's name, contact and date replace the blanks on the page.

    Name and date are also in the fields for a public registry of deployments of differential privacy.
    """
    release_folder = write_release(folder=tmp_path / "release")
    dossier = Dossier.read(
        release_folder, publisher="City <clinic>", contact="Ann", date="2026-11-29"
    )
    text = text_of(html_page=dossier.html())
    assert "published by City <clinic> contact for questions and objections Ann" in text
    assert "Who publishes this, whom to ask" not in text
    product = dossier.to_json()["registry"]["product"]
    assert product["data_curators"] == "City <clinic>"
    assert product["publication_date"] == "2026-11-29"


def test_attack_among_teachers_is_free(tmp_path: Path) -> None:
    """An attack on made-up votes of teachers needs no statement of the publisher, and the page says why it is free."""
    release_folder = write_release(
        folder=tmp_path / "release", statement=replace(STATEMENT, mechanism="GNMax")
    )
    attack_report_among_teachers = replace(ATTACK_REPORT, unit="teacher", aggregator="GNMax")
    attack_file = write_attack(folder=tmp_path, attack=attack_report_among_teachers)
    text = text_of(html_page=Dossier.read(release_folder, attack_file=attack_file).html())
    assert "epsilon cannot be below 2.29" in text
    assert "all votes in the rehearsal were made up" in text


def test_attack_among_records_needs_a_statement(tmp_path: Path) -> None:
    """An attack on records, which may be private, is refused unless the publisher states that they were public."""
    release_folder = write_release(folder=tmp_path / "release")
    attack_file = write_attack(folder=tmp_path)
    with refused_parameter("rehearsed_on", value=None):
        Dossier.read(release_folder, attack_file=attack_file)
    dossier = Dossier.read(release_folder, attack_file=attack_file, rehearsed_on="public")
    assert "by the statement of the publisher" in text_of(html_page=dossier.html())


@pytest.mark.parametrize(
    ("attack", "value"),
    [
        (replace(ATTACK_REPORT, aggregator="GNMax"), "GNMax"),
        (replace(ATTACK_REPORT, sabotage="noise"), "noise"),
        (replace(ATTACK_REPORT, delta=1e-5), 1e-5),
        (replace(ATTACK_REPORT, epsilon=4.0), 4.0),
    ],
    ids=["another aggregator", "sabotage", "another delta", "another epsilon"],
)
def test_attack_on_another_release_is_refused(
    attack: AttackReport, value: object, tmp_path: Path
) -> None:
    """An attack with another mechanism, epsilon or delta than the release's is refused.

    So is an attack on a release with a sabotage, that is, a fault that was built in to test the attack.
    """
    release_folder = write_release(folder=tmp_path / "release")
    attack_file = write_attack(folder=tmp_path, attack=attack)
    with refused_parameter("lower_bound", value=value):
        Dossier.read(release_folder, attack_file=attack_file, rehearsed_on="public")


def test_attack_that_refutes_the_price_is_a_warning(tmp_path: Path) -> None:
    """An attack whose lower bound, 5.5, is above the stated epsilon, 5, becomes a warning on the page."""
    release_folder = write_release(folder=tmp_path / "release")
    attack_file = write_attack(folder=tmp_path, attack=replace(ATTACK_REPORT, lower_bound=5.5))
    dossier = Dossier.read(release_folder, attack_file=attack_file, rehearsed_on="public")
    assert "An attack refutes the stated epsilon" in text_of(html_page=dossier.html())


def test_altered_file_is_refused(tmp_path: Path) -> None:
    """A release with an altered file is refused by the file's name, and one without a manifest by the manifest's."""
    release_folder = write_release(folder=tmp_path / "release")
    (release_folder / "schema.json").write_text("{}")
    with pytest.raises(InvalidValue, match=r"schema\.json"):
        Dossier.read(release_folder)
    (release_folder / MANIFEST).unlink()
    with pytest.raises(InvalidValue, match=r"manifest\.json"):
        Dossier.read(release_folder)


def test_folder_of_a_run_is_refused_with_its_release(tmp_path: Path) -> None:
    """The folder of a run is refused as a release, and the error names the release's folder within it."""
    write_release(folder=tmp_path / "release")
    with refused_parameter("release", value=tmp_path, rule_words="within it"):
        Dossier.read(tmp_path)


def test_json_has_the_same_facts(tmp_path: Path) -> None:
    """The JSON of a dossier holds the price, the curve, the fields of the registry and the digests of the files."""
    facts = Dossier.read(write_release(folder=tmp_path / "release")).to_json()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["privacy"]["epsilon"] == 5.0
    assert facts["scores"] == facts["attack"] == "not published"
    assert facts["curve"][-1] == {"false_alarms": 1.0, "found_at_most": 1.0}
    assert facts["registry"]["privacy_loss"]["privacy_unit"] == STATEMENT.unit
    assert set(facts["files"]) == {"privacy.json", "schema.json"}


def test_attack_report_of_another_form_is_refused(tmp_path: Path) -> None:
    """A JSON file with a list is refused as the result of an attack."""
    file_with_a_list = tmp_path / "other.json"
    file_with_a_list.write_text("[1, 2]")
    with refused_parameter("lower_bound", value=file_with_a_list):
        AttackReport.read(file_with_a_list)
