"""The dossier of a release: one page for a data protection officer or an ethics board, from public facts alone.

A dossier reads the folder `release/`. The publisher may add a name, a contact, a date and the result of an attack. All
else on the page can be made by whoever has the folder, and tells nothing that the folder does not tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from pate import aggregators
from pate.accounting.attack_bounds import percent
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.trade_off import gaussian_trade_off
from pate.extras import VERSION
from pate.files.digests import file_digest
from pate.files.manifest import Manifest
from pate.files.reading import damaged, read_json
from pate.files.strict_json import plain
from pate.pricing.guard import WEAK_EPSILON
from pate.report.attack_report import AttackReport
from pate.report.card import PRIVACY_FILE, PrivacyStatement
from pate.report.registry_entry import LIMIT_IF_SEEDED, TO_FILL, registry_entry
from pate.report.released_scores import ReleasedScores
from pate.report.trade_off_svg import trade_off_svg
from pate.report.wording import ADJACENCY_NAMES
from pate.validation import InvalidValue

# Advice in errors about files of a release.
_REMEDY = "copy the folder anew from where it was published"
# The content of the manifest, as errors describe it.
_DIGESTS_RULE = "the digests of a published release"
# A proof note in the docstring of an aggregator.
_PROOF_NOTE = re.compile(r"(?:docs/proofs/|and )(\w+)\.md")
# A larger exponent of e is computed as this one, so that floats do not overflow.
_MAX_EXPONENT = 700.0
# The number of points on the trade-off curve, without its two ends.
_NUM_POINTS = 120
# The shares of false alarms in the tables, as text.
_FALSE_ALARM_RATES = ("0.001", "0.01", "0.1")
# The words for rare events, with the number of trials that each stands for.
_RARE_TRIALS = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
# Smaller probabilities are stated in words, such as "one in a million", and not as percentages.
_MIN_PERCENTAGE = 0.001
# Larger powers of 10 are written in words, such as 10 to the power of 12.
_MAX_POWER = 9
# The meaning of settings of mechanisms.
_MEANING_OF_SETTINGS = {
    "noise_multiplier": "the size of the noise (its standard deviation), divided by the most that one change moves the "
    "sum",
    "prevalence_share": "the part of the privacy budget that was spent on how frequent each label is",
    "clip_factor": "how much one teacher may count, compared with the usual length of its vote",
}
# The meaning of units of privacy, for data sets that ship.
_EXPLANATION_OF_UNITS = {
    "one family of synsets with the same gloss, with all its synsets": "The records are entries of WordNet, a "
    "dictionary, and of no person. An entry (synset) is a meaning with the words that have it; its gloss is its "
    "definition. Entries with the same definition are one family, which stands for a person here."
}
# Facts that are guessed with this probability or a larger one, even without the release, are left out.
_MAX_RARE_GUESS = 0.1
# Up to this epsilon, a guarantee counts as strong (Ponomareva et al. 2023, section 5.2.1).
_STRONG_EPSILON = 1.0
# The names of kinds of models for people, where the kind alone says too little.
_MODEL_NAME_OF_KIND = {"released": "logistic", "released_kernel": "logistic (with a kernel)"}


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """The public facts about a release.

    Attributes:
        statement: the price, as `privacy.json` states it.
        labels: the names of the labels; empty if the release has no model.
        model: the kind of the published model; empty if there is none.
        inputs: the inputs of the model, in words; empty if there is no model.
        files: the SHA-256 digest of each file of the release, by its name; all were checked.
        attack: the result of an attack that the publisher shows; None for none.
        publisher: who publishes the release, in the publisher's own words; empty leaves it to be filled in.
        contact: whom people may ask or object to; empty leaves it to be filled in.
        date: the date of publication; empty leaves it to be filled in.
    """

    statement: PrivacyStatement
    labels: tuple[str, ...] = ()
    model: str = ""
    inputs: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    attack: AttackReport | None = None
    publisher: str = ""
    contact: str = ""
    date: str = ""

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        attack_file: Path | None = None,
        rehearsed_on: str | None = None,
        publisher: str = "",
        contact: str = "",
        date: str = "",
    ) -> Self:
        """Reads a folder `release/`, checks the digests of its files, and returns the dossier.

        Args:
            folder: the folder `release/` of a run, or a copy of it.
            attack_file: the file with the output of `pate-attack format=json`; None shows no attack.
            rehearsed_on: "public" states that the attack ran on public records in place of the private ones.
            publisher: who publishes the release.
            contact: whom people may ask or object to.
            date: the date of publication.

        Raises:
            InvalidValue: the folder is no release, or a file was altered; or the result of the attack belongs to
                another release, or it may not be published without a price.
        """
        release_folder = folder
        file_digests = _checked_digests(release_folder=release_folder)
        privacy_statement = PrivacyStatement.read(release_folder, remedy=_REMEDY)
        model_schema: Mapping[str, Any] = {}
        if "schema.json" in file_digests:
            model_schema = read_json(release_folder / "schema.json", remedy=_REMEDY)
        attack_report = None
        if attack_file is not None:
            attack_report = AttackReport.read(attack_file)
            attack_report.require_publishable(
                privacy_statement, stated_kind_of_records=rehearsed_on
            )
        return cls(
            statement=privacy_statement,
            labels=tuple(map(str, model_schema.get("labels", ()))),
            model=str(model_schema.get("model", "")),
            inputs=_inputs_text(model_schema),
            files=file_digests,
            attack=attack_report,
            publisher=publisher,
            contact=contact,
            date=date,
        )

    @property
    def is_bounded(self) -> bool:
        """Whether epsilon is finite."""
        return math.isfinite(self.statement.epsilon)

    @property
    def is_seeded(self) -> bool:
        """Whether the noise was made from a seed, by which it can be computed again."""
        return self.statement.noise == "seeded"

    @property
    def is_private(self) -> bool:
        """Whether the release has a guarantee: a finite epsilon and noise that nobody can repeat."""
        return self.is_bounded and not self.is_seeded

    @property
    def is_weak(self) -> bool:
        """Whether epsilon is finite, and so large that it promises one person little."""
        return self.is_bounded and self.statement.epsilon > WEAK_EPSILON

    @property
    def scale(self) -> str:
        """An answer in words to whether a finite epsilon is a lot, without a period at its end.

        It has one of three grades (Ponomareva et al. 2023, section 5.2.1). Up to 1, epsilon counts as a strong
        guarantee, and above `WEAK_EPSILON` it promises one person little. Between them, it limits attacks.
        """
        epsilon = format_epsilon(self.statement.epsilon)
        if self.is_weak:
            return f"Yes: {epsilon} promises one person little"
        if self.statement.epsilon > _STRONG_EPSILON:
            return f"It is in the middle: {epsilon} limits attacks, and is no strong guarantee"
        return f"No: {epsilon} counts as a strong guarantee"

    @property
    def unit_explained(self) -> str:
        """An explanation of the unit of privacy of a data set that ships with the package; empty for other units."""
        return _EXPLANATION_OF_UNITS.get(self.statement.unit, "")

    @property
    def rare_guesses(self) -> list[tuple[float, float]]:
        """Probabilities of guessing a fact on a member, for facts that are hard to guess.

        Each pair has the probability without the release, below 0.1, and a bound on it for whoever sees the release.
        The list is empty if the statement has no bounds on attacks.
        """
        if self.statement.attacks is None:
            return []
        guesses = [
            (float(prob_without_release), max_prob_with_release)
            for prob_without_release, max_prob_with_release in self.statement.attacks.guessed.items()
        ]
        return [
            (prob_without_release, max_prob_with_release)
            for prob_without_release, max_prob_with_release in guesses
            if prob_without_release < _MAX_RARE_GUESS
        ]

    @property
    def adjacency(self) -> str:
        """The change that the guarantee is about, in words."""
        adjacency = self.statement.adjacency
        change = ADJACENCY_NAMES.get(adjacency, adjacency)
        if self.statement.classes and adjacency == "replace_one":
            return f"{change} of the same budget class"
        return change

    @property
    def scores(self) -> ReleasedScores | None:
        """The released scores; None if none were released."""
        return self.statement.scores

    @property
    def model_name(self) -> str:
        """The kind of the model for people; empty without a model."""
        return _MODEL_NAME_OF_KIND.get(self.model, self.model.replace("_", " "))

    @property
    def mechanism_in_words(self) -> str:
        """A sentence on what the mechanism releases, the first line of its class's docstring.

        It is empty for a mechanism that is not of this package.
        """
        return self._mechanism_docstring.split("\n", maxsplit=1)[0]

    @property
    def setting_rows(self) -> list[tuple[str, str]]:
        """The public settings of the mechanism as rows (name, value).

        Three settings that few readers know have an explanation after the value.
        """
        rows = []
        for setting_name, setting in self.statement.parameters.items():
            meaning = _MEANING_OF_SETTINGS.get(setting_name)
            rows.append((setting_name, f"{setting}: {meaning}" if meaning else str(setting)))
        return rows

    @property
    def score_rows(self) -> list[tuple[str, str, str]]:
        """The released scores as rows: name, value, and the ends of the interval; empty if none were released."""
        if self.scores is None:
            return []
        scores = dict(self.scores.by_name)
        for column, score_of_value in self.scores.subgroups.items():
            for value, score in score_of_value.items():
                scores[f"micro-F1, {column} = {value}"] = score
        return [
            (score_name, f"{score.value:.3f}", score.interval)
            for score_name, score in scores.items()
        ]

    @property
    def total(self) -> tuple[float, float]:
        """The epsilon and delta of somebody who is both in the private records and in the test records of the scores.

        Both numbers are sums over the release and the scores. Without scores they are those of the release.
        """
        if self.scores is None:
            return self.statement.epsilon, self.statement.delta
        return (
            self.statement.epsilon + self.scores.epsilon,
            min(self.statement.delta + self.scores.delta, 1.0),
        )

    @property
    def factor(self) -> str:
        """The number e to the power of a finite epsilon, rounded up, as text."""
        power_of_ten = self.statement.epsilon / math.log(10)
        if power_of_ten > _MAX_POWER:
            return f"10 to the power of {math.ceil(power_of_ten)}"
        return f"{_rounded_up(math.exp(self.statement.epsilon), num_digits=3):,.12g}"

    def max_share_found(self, false_alarm_rate: float) -> float:
        """Returns a bound on the share of members that an attack on the release finds.

        The result is the smallest of three bounds. The first follows from epsilon and delta. The second follows from
        the mu of mu-GDP that the statement has. The third is the one that the statement itself has for this rate. The
        last two may be missing.

        Args:
            false_alarm_rate: the share of non-members that the attack takes for members, in [0, 1].
        """
        attack_bounds = self.statement.attacks
        max_share = _max_share_found(
            false_alarm_rate,
            epsilon=self.statement.epsilon,
            delta=self.statement.delta,
            mu=math.inf if attack_bounds is None else attack_bounds.gdp_mu,
        )
        if attack_bounds is not None:
            for stated_false_alarm_rate, stated_max_share in attack_bounds.found.items():
                if float(stated_false_alarm_rate) == false_alarm_rate:
                    max_share = min(max_share, stated_max_share)
        return max_share

    def max_share_found_in_scores(self, false_alarm_rate: float) -> float:
        """Returns an upper bound on the share of units with test records that any attack on the released scores finds.

        A unit, such as a person, has one or more records. The bound follows from the epsilon, delta and noise of the
        scores. If no scores were released, an attack finds no larger share than `false_alarm_rate`, which is returned.

        Args:
            false_alarm_rate: the share of units without test records that the attack takes for units with some.
        """
        if self.scores is None:
            return false_alarm_rate
        return _max_share_found(
            false_alarm_rate,
            epsilon=self.scores.epsilon,
            delta=self.scores.delta,
            mu=1 / self.scores.noise_multiplier,
        )

    @property
    def found_rows(self) -> list[tuple[str, str, str]]:
        """Rows of a table of attacks, as text, for false alarms of 0.1%, 1% and 10%.

        Each row has the share of false alarms, the largest share of members that an attack finds, and their quotient.
        """
        rows = []
        for false_alarm_rate in map(float, _FALSE_ALARM_RATES):
            share_found = self.max_share_found(false_alarm_rate=false_alarm_rate)
            factor = _rounded_up(share_found / false_alarm_rate, num_digits=2)
            rows.append((percent(false_alarm_rate), percent(share_found), f"{factor:g} times"))
        return rows

    @property
    def found_rows_of_scores(self) -> list[tuple[str, str]]:
        """Rows of a table of bounds on attacks on the released scores, as text, for false alarms of 0.1%, 1% and 10%.

        A unit, such as a person, has one or more test records. Each row has two shares. The first is the share of units
        outside the test records that an attack takes for units in them. The second is an upper bound on the share of
        units in the test records that any attack finds.
        """
        return [
            (
                percent(false_alarm_rate),
                percent(self.max_share_found_in_scores(false_alarm_rate=false_alarm_rate)),
            )
            for false_alarm_rate in map(float, _FALSE_ALARM_RATES)
        ]

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Points of the trade-off curve by rising share of false alarms, from 0 to 1.

        Each pair has a share of false alarms, and a bound on the share of members that an attack finds with it.
        """
        # Points that are evenly spaced on the normal scale show both ends of the curve.
        normal = NormalDist()
        normal_quantiles = np.linspace(-3.5, 3.5, _NUM_POINTS)
        false_alarm_rates = [
            0.0,
            *(normal.cdf(float(normal_quantile)) for normal_quantile in normal_quantiles),
        ]
        curve_points = [
            (false_alarm_rate, self.max_share_found(false_alarm_rate=false_alarm_rate))
            for false_alarm_rate in false_alarm_rates
        ]
        return [*curve_points, (1.0, 1.0)]

    @property
    def svg(self) -> str:
        """The trade-off curve as an `<svg>` element, in the colors of the page."""
        return trade_off_svg(found_share_curve=self.curve)

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proof notes of the mechanism and of the trade-off curve, as paths in the source of the package."""
        note_names = _PROOF_NOTE.findall(self._mechanism_docstring)
        distinct_note_names = dict.fromkeys([*note_names, "trade_off"])
        return tuple(f"docs/proofs/{note_name}.md" for note_name in distinct_note_names)

    @property
    def _mechanism_docstring(self) -> str:
        """The docstring of the mechanism's class; empty for a mechanism that is not of this package."""
        aggregator = getattr(aggregators, self.statement.mechanism, None)
        return "" if aggregator is None else aggregator.__doc__ or ""

    @cached_property
    def registry(self) -> dict[str, dict[str, Any]]:
        """The entry for a public registry of deployments of differential privacy, as `registry_entry` returns it."""
        return registry_entry(dossier=self)

    def to_json(self) -> dict[str, Any]:
        """Returns all facts of the dossier for JSON."""
        attack_facts = None
        if self.attack is not None:
            attack_facts = vars(self.attack) | {"why_free": self.attack.why_free}
        facts = plain(
            {
                "dossier": 1,
                "publisher": self.publisher or TO_FILL,
                "contact": self.contact or TO_FILL,
                "date": self.date or TO_FILL,
                "made_by": f"pate-multilabel {VERSION}",
                "is_private": self.is_private,
                "privacy": self.statement.published_values(),
                "change": self.adjacency,
                "labels": self.labels,
                "model": self.model,
                "inputs": self.inputs,
                "curve": [
                    {"false_alarms": false_alarm_rate, "found_at_most": share_found}
                    for false_alarm_rate, share_found in self.curve
                ],
                "scores": self.scores or "not published",
                "attack": attack_facts or "not published",
                "proofs": self.proofs,
                "registry": self.registry,
                "files": dict(self.files),
            }
        )
        return dict(facts)

    def html(self) -> str:
        """Returns the page, one file without scripts and without references to other files; every text is escaped."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("pate", ""), autoescape=True, undefined=StrictUndefined
        )
        environment.trim_blocks = True
        environment.lstrip_blocks = True
        environment.filters |= {
            "probability_in_words": probability_in_words,
            "delta": format_delta,
            "epsilon": format_epsilon,
            "percent": percent,
        }
        return environment.get_template("report/dossier.html").render(
            dossier=self,
            statement=self.statement,
            limit_if_seeded=LIMIT_IF_SEEDED,
            to_fill=TO_FILL,
            weak_epsilon=WEAK_EPSILON,
            version=VERSION,
        )


def probability_in_words(probability: float) -> str:
    """Returns a probability as a percentage, or in words if it is below 0.1%; rounded up.

    >>> probability_in_words(0.0184), probability_in_words(1e-6)
    ('1.9%', 'one in a million')
    >>> probability_in_words(3.15e-6), probability_in_words(2e-8)
    ('3.15 in a million', '20 in a billion')
    """
    if probability <= 0:
        return "none"
    if probability >= _MIN_PERCENTAGE:
        return percent(probability)
    for word, num_trials in _RARE_TRIALS.items():
        expected_events = probability * num_trials
        if expected_events >= 1 - 1e-9:
            count = _rounded_up(expected_events, num_digits=3)
            count_text = "one" if count == 1 else f"{count:g}"
            return f"{count_text} in a {word}"
    return "less than one in a trillion"


def _checked_digests(release_folder: Path) -> Mapping[str, str]:
    """Returns the SHA-256 digest of each file of a release, by its name.

    Raises `InvalidValue` if the folder is no release, or if a file was altered.
    """
    if not release_folder.is_dir():
        raise InvalidValue("release", release_folder, rule="the folder release/ of a finished run")
    if (
        not (release_folder / PRIVACY_FILE).exists()
        and (release_folder / "release" / PRIVACY_FILE).exists()
    ):
        raise InvalidValue(
            "release", release_folder, rule=f"the folder {release_folder / 'release'} within it"
        )
    file_digests = Manifest.read(release_folder, rule=_DIGESTS_RULE, remedy=_REMEDY).sha256
    for file_name, stated_digest in file_digests.items():
        file = release_folder / file_name
        if file_digest(file, rule="a file of the release", remedy=_REMEDY) != stated_digest:
            rule = "the file as it was published"
            raise damaged(file, rule=rule, finding="it is another", remedy=_REMEDY)
    if PRIVACY_FILE not in file_digests:
        raise InvalidValue("release", release_folder, rule=f"a release with {PRIVACY_FILE}")
    return file_digests


def _max_share_found(false_alarm_rate: float, *, epsilon: float, delta: float, mu: float) -> float:
    """Returns an upper bound on the share of members that an attack finds, at a share of false alarms.

    It is the smaller one of two bounds: by epsilon and delta, and by mu.

    Args:
        false_alarm_rate: the share of false alarms.
        epsilon: the epsilon of the release.
        delta: the delta at which `epsilon` holds.
        mu: the release is mu-GDP; infinity if no mu is known.
    """
    if false_alarm_rate <= 0:
        # Without false alarms, the bound by epsilon and delta is the release's delta.
        return min(delta, 1.0)
    if false_alarm_rate >= 1:
        return false_alarm_rate
    e_to_epsilon = math.exp(min(epsilon, _MAX_EXPONENT))
    return min(
        e_to_epsilon * false_alarm_rate + delta,
        1 - (1 - delta - false_alarm_rate) / e_to_epsilon,
        1.0,
        1 - gaussian_trade_off(mu=mu, alpha=false_alarm_rate),
    )


def _inputs_text(model_schema: Mapping[str, Any]) -> str:
    """Returns the inputs of a model in words, such as "12 columns of a table"; empty without a model.

    Args:
        model_schema: the description of the model that is published with it; empty without a model.
    """
    if not model_schema:
        return ""
    preprocessing = model_schema.get("preprocessing") or {}
    if "columns" in preprocessing:
        return f"{len(preprocessing['columns'])} columns of a table"
    shape_text = " x ".join(
        str(dimension_size) for dimension_size in model_schema.get("input_shape", ())
    )
    if model_schema.get("kind") == "images":
        return f"pictures of {shape_text} numbers"
    return f"{shape_text} numbers for each record, made as those of the data set {model_schema.get('name', '')}"


def _rounded_up(positive_number: float, *, num_digits: int) -> float:
    """Returns a number > 0, rounded up to `num_digits` significant digits."""
    last_digit_unit = 10.0 ** (math.floor(math.log10(positive_number)) - num_digits + 1)
    return float(f"{math.ceil(positive_number / last_digit_unit - 1e-9) * last_digit_unit:.12g}")
