"""The dossier of a release: one page for a data protection officer or an ethics board, from public facts alone.

A dossier reads the folder `release/` and nothing of the owner. So whoever has the folder can make the same page, and
the page tells nothing that the folder does not tell.
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
from pate.report.card import PRIVACY, PrivacyStatement
from pate.report.released_scores import ReleasedScores
from pate.report.wording import ADJACENCY_NAMES
from pate.validation import InvalidValue, require

_REMEDY = "copy the folder anew from where it was published"
_DIGESTS_RULE = "the digests of a published release"
_PROOF = re.compile(r"(?:docs/proofs/|and )(\w+)\.md")
_LARGEST_EXPONENT = 700.0
_SAME_EPSILON = 1.01  # at most this factor lies between a price and its price in a rehearsal
_TO_FILL = "to be filled in by the publisher"
# the picture, in its own units
_LEFT, _BOTTOM, _WIDTH, _HEIGHT = 46.0, 212.0, 280.0, 200.0
_NUM_POINTS = 120
_ALPHAS = ("0.001", "0.01", "0.1")
# how often a rare event happens, in words
_RARE = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
_LEAST_PERCENTAGE = 0.001  # rarer events are counted in a million, or in more
_LARGEST_POWER = 9  # of 10, up to which a number is written with all digits
# what settings of mechanisms mean
_PARAMETERS = {
    "noise_multiplier": "the size of the noise (its standard deviation), divided by the most that one change moves the "
    "sum",
    "prevalence_share": "the part of the privacy budget that was spent on how frequent each label is",
    "clip_factor": "how much one teacher may count, compared with the usual length of its vote",
}
# what units of data sets that ship mean
_UNITS = {
    "one family of synsets with the same gloss, with all its synsets": "The records are entries of WordNet, a "
    "dictionary, and of no person. An entry (synset) is a meaning with the words that have it; its gloss is its "
    "definition. Entries with the same definition are one family, which stands for a person here."
}
_RARE_GUESS = 0.1  # facts that are guessed with a larger probability are left out
_STRONG_EPSILON = 1.0
_MODELS = {"released": "logistic", "released_kernel": "logistic (with a kernel)"}
_ONLY_SEEDED = "only against readers who do not know the seed"


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """The result of `pate-attack format=json` that a publisher wants to show: a lower bound on epsilon.

    `Dossier` shows it only where it costs nothing. Canaries that are teachers have made-up votes, so no private record
    is read. Canaries that are records are planted into data, whose other records steer the later rounds; the result is
    free only if these data are public.
    """

    epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    num_canaries: int
    num_guesses: int
    num_correct: int
    unit: str  # what a canary is: "record" or "teacher"
    aggregator: str
    sabotage: str | None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the JSON that `pate-attack format=json` prints; raises `InvalidValue` for anything else."""
        rule = "what `pate-attack format=json` prints"
        values = read_json(path, rule=rule, remedy="print it again")
        names = cls.__dataclass_fields__
        is_report = isinstance(values, dict) and names.keys() <= values.keys()
        require(is_report, "lower_bound", path, rule)
        report = cls(**{name: values[name] for name in names})
        numbers = (report.epsilon, report.delta, report.lower_bound, report.confidence)
        are_numbers = all(isinstance(number, (int, float)) for number in numbers)
        require(are_numbers, "lower_bound", path, rule)
        return report

    @property
    def is_refuted(self) -> bool:
        """Whether the attack refutes the price."""
        return self.lower_bound > self.epsilon

    @property
    def lower_bound_down(self) -> float:
        """The lower bound on epsilon, rounded down to two decimals."""
        return math.floor(100 * self.lower_bound) / 100

    @property
    def why_free(self) -> str:
        """A sentence on why publishing the result costs no privacy."""
        if self.unit == "teacher":
            return (
                "Publishing this costs nothing: all votes in the rehearsal were made up, and no private record was "
                "read."
            )
        return (
            "Publishing this costs nothing: the rehearsal ran on public records in place of the private ones, by the "
            "statement of the publisher."
        )


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """The public facts about a release.

    Attributes:
        statement: the price, as `privacy.json` states it.
        labels: the names of the labels; empty if the release has no model.
        model: the kind of the published model; empty if there is none.
        inputs: what the model reads, in words.
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
        lower_bound: Path | None = None,
        rehearsed_on: str | None = None,
        publisher: str = "",
        contact: str = "",
        date: str = "",
    ) -> Self:
        """Reads a folder `release/`, checks the digests of its files, and returns the dossier.

        Args:
            folder: the folder `release/` of a run, or a copy of it.
            lower_bound: the file with the output of `pate-attack format=json`; None shows no attack.
            rehearsed_on: "public" states that the attack ran on public records in place of the private ones.
            publisher: who publishes the release.
            contact: whom people may ask or object to.
            date: the date of publication.

        Raises:
            InvalidValue: the folder is no release, or a file was altered; or the result of the attack belongs to
                another release, or it may not be published without a price.
        """
        require(folder.is_dir(), "release", folder, "the folder release/ of a finished run")
        if not (folder / PRIVACY).exists() and (folder / "release" / PRIVACY).exists():
            raise InvalidValue("release", folder, rule=f"the folder {folder / 'release'} within it")
        digests = Manifest.read(folder, rule=_DIGESTS_RULE, remedy=_REMEDY).sha256
        for name, digest in digests.items():
            path = folder / name
            if file_digest(path, rule="a file of the release", remedy=_REMEDY) != digest:
                rule = "the file as it was published"
                raise damaged(path, rule=rule, finding="it is another", remedy=_REMEDY)
        require(PRIVACY in digests, "release", folder, f"a release with {PRIVACY}")
        statement = PrivacyStatement.read(folder, remedy=_REMEDY)
        schema: Mapping[str, Any] = {}
        if "schema.json" in digests:
            schema = read_json(folder / "schema.json", remedy=_REMEDY)
        attack = None
        if lower_bound is not None:
            attack = AttackReport.read(lower_bound)
            _require_publishable(attack, statement, rehearsed_on)
        return cls(
            statement=statement,
            labels=tuple(map(str, schema.get("labels", ()))),
            model=str(schema.get("model", "")),
            inputs=_inputs_in_words(schema),
            files=digests,
            attack=attack,
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
        """A finite epsilon on a scale in words, without a period (Ponomareva et al. 2023, section 5.2.1)."""
        epsilon = format_epsilon(self.statement.epsilon)
        if self.is_weak:
            return f"Yes: {epsilon} promises one person little"
        if self.statement.epsilon > _STRONG_EPSILON:
            return f"It is in the middle: {epsilon} limits attacks, and is no strong guarantee"
        return f"No: {epsilon} counts as a strong guarantee"

    @property
    def unit_explained(self) -> str:
        """What the unit of privacy means, for data sets that ship; empty for others."""
        return _UNITS.get(self.statement.unit, "")

    @property
    def rare_guesses(self) -> list[tuple[float, float]]:
        """Facts that can hardly be guessed: the probability without the release, and the most with it."""
        guessed = {} if self.statement.attacks is None else self.statement.attacks.guessed
        rates = {float(rate): share for rate, share in guessed.items()}
        return [(rate, share) for rate, share in rates.items() if rate < _RARE_GUESS]

    @property
    def adjacency(self) -> str:
        """The change that the guarantee is about, in words."""
        adjacency = self.statement.adjacency
        change = ADJACENCY_NAMES.get(adjacency, adjacency)
        has_classes = self.statement.classes and adjacency == "replace_one"
        return f"{change} of the same budget class" if has_classes else change

    @property
    def scores(self) -> ReleasedScores | None:
        """The released scores; None if none were released."""
        return self.statement.scores

    @property
    def model_name(self) -> str:
        """The kind of the model for people; empty without a model."""
        return _MODELS.get(self.model, self.model.replace("_", " "))

    @property
    def mechanism_in_words(self) -> str:
        """A sentence on what the mechanism releases; empty for a mechanism that is not of this package."""
        aggregator = getattr(aggregators, self.statement.mechanism, None)
        return "" if aggregator is None else (aggregator.__doc__ or "").split("\n", maxsplit=1)[0]

    @property
    def setting_rows(self) -> list[tuple[str, str]]:
        """The public settings of the mechanism as rows: name and value, with the meaning where it has one here."""
        rows = []
        for name, value in self.statement.parameters.items():
            meaning = _PARAMETERS.get(name)
            rows.append((name, f"{value}: {meaning}" if meaning else str(value)))
        return rows

    @property
    def score_rows(self) -> list[tuple[str, str, str]]:
        """The released scores as rows: name, value, and the ends of the interval."""
        if self.scores is None:
            return []
        rows = dict(self.scores.by_name)
        for column, of_values in self.scores.subgroups.items():
            rows |= {f"micro-F1, {column} = {value}": score for value, score in of_values.items()}
        return [(name, f"{score.value:.3f}", score.interval) for name, score in rows.items()]

    @property
    def total(self) -> tuple[float, float]:
        """The epsilon and delta of somebody who is both in the private records and in the test records of scores."""
        if self.scores is None:
            return self.statement.epsilon, self.statement.delta
        return (
            self.statement.epsilon + self.scores.epsilon,
            min(self.statement.delta + self.scores.delta, 1.0),
        )

    @property
    def factor(self) -> str:
        """The number e to the power of a finite epsilon, rounded up, in words."""
        power = self.statement.epsilon / math.log(10)
        if power > _LARGEST_POWER:
            return f"10 to the power of {math.ceil(power)}"
        return f"{_rounded_up(math.exp(self.statement.epsilon), digits=3):,.12g}"

    def found(self, alpha: float) -> float:
        """Returns a bound on the share of members that an attack finds with false alarms of `alpha`.

        The bound is the smaller one of those that follow from epsilon and delta and from `gdp_mu`.
        """
        attacks = self.statement.attacks
        share = _most_found(
            alpha,
            epsilon=self.statement.epsilon,
            delta=self.statement.delta,
            mu=math.inf if attacks is None else attacks.gdp_mu,
        )
        stated = {} if attacks is None else attacks.found
        return min([share, *(most for rate, most in stated.items() if float(rate) == alpha)])

    def found_in_scores(self, alpha: float) -> float:
        """Returns a bound on the share of units of the test records that an attack on the scores finds."""
        if self.scores is None:
            return alpha
        return _most_found(
            alpha,
            epsilon=self.scores.epsilon,
            delta=self.scores.delta,
            mu=1 / self.scores.noise_multiplier,
        )

    @property
    def found_rows(self) -> list[tuple[str, str, str]]:
        """Rows: false alarms, the most members that an attack finds, and by which factor it beats a blind guess."""
        rows = []
        for rate in _ALPHAS:
            share = self.found(float(rate))
            factor = share / float(rate)
            rows.append(
                (percent(float(rate)), percent(share), f"{_rounded_up(factor, digits=2):g} times")
            )
        return rows

    @property
    def found_rows_of_scores(self) -> list[tuple[str, str]]:
        """Rows for the units of the test records: false alarms, and the most members that an attack finds."""
        return [
            (percent(float(rate)), percent(self.found_in_scores(float(rate)))) for rate in _ALPHAS
        ]

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Points (false alarms, most members found) of the trade-off curve."""
        normal = NormalDist()
        levels = np.linspace(-3.5, 3.5, _NUM_POINTS)
        alphas = [normal.cdf(float(level)) for level in levels]
        return [
            (0.0, self.found(0.0)),
            *((alpha, self.found(alpha)) for alpha in alphas),
            (1.0, 1.0),
        ]

    @property
    def svg(self) -> str:
        """The trade-off curve as an `<svg>` element, in the colors of the page."""
        points = " ".join(f"{_x(alpha):.1f},{_y(share):.1f}" for alpha, share in self.curve)
        ticks = "".join(
            f'<text x="{_x(tick):.0f}" y="{_BOTTOM + 16:.0f}" text-anchor="middle">{tick:.0%}</text>'
            f'<text x="{_LEFT - 6:.0f}" y="{_y(tick) + 4:.0f}" text-anchor="end">{tick:.0%}</text>'
            for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
        )
        return (
            '<svg viewBox="0 0 348 250" role="img" aria-label="Most members found, by false alarms" '
            'font-size="11" fill="var(--muted)">'
            f'<rect x="{_LEFT}" y="{_BOTTOM - _HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
            'stroke="var(--rule)"/>'
            f'<line x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}" '
            'stroke="var(--faint)" stroke-dasharray="4 3"/>'
            f'<polyline points="{points}" fill="none" stroke="var(--accent)" stroke-width="2"/>{ticks}'
            f'<text x="{_LEFT + _WIDTH / 2:.0f}" y="{_BOTTOM + 33:.0f}" text-anchor="middle">'
            "false alarms, of those who take no part</text></svg>"
        )

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proof notes that the mechanism names, and that of the curves; paths in the source of the package."""
        aggregator = getattr(aggregators, self.statement.mechanism, None)
        names = _PROOF.findall(aggregator.__doc__ or "") if aggregator is not None else []
        return tuple(f"docs/proofs/{name}.md" for name in dict.fromkeys([*names, "trade_off"]))

    @cached_property
    def registry(self) -> dict[str, dict[str, Any]]:
        """The entry for a registry of deployments, by the fields that the registry of OpenDP publishes.

        What only the publisher knows is marked as to be filled in.
        """
        statement = self.statement
        parameters = ", ".join(f"{name}={value}" for name, value in statement.parameters.items())
        stated = "".join(f", the names of the {name}" for name in statement.stated_public)
        noise = "noise from the operating system's entropy"
        if self.is_seeded:
            noise = f"noise from a seed, so that the guarantee holds {_ONLY_SEEDED}"
        scores = ""
        if self.scores is not None:
            scores = (
                f"; scores on test records, at epsilon {format_epsilon(self.scores.epsilon)} and delta "
                f"{format_delta(self.scores.delta)} of their own, for the people in these records"
            )
        start = "" if statement.start is None else f". {statement.start.sentence}"
        return {
            "product": {
                "name": _TO_FILL,
                "data_curators": self.publisher or _TO_FILL,
                "intended_use": _TO_FILL,
                "data_product_type": "Machine learning model" if self.model else "Labels",
                "data_product_region": _TO_FILL,
                "description": f"labels that private teachers voted on for public records of {statement.data}"
                + (f", and a {self.model_name} model that learned from them" if self.model else ""),
                "publication_date": self.date or _TO_FILL,
                "data_product_sector": _TO_FILL,
            },
            "dp_flavor": {
                "name": "Approximate DP" if statement.delta > 0 else "Pure DP",
                "input_metric": statement.adjacency,
                "bound_on_input_distance": f"1: {self.adjacency}",
                "output_measure": "(epsilon, delta), and the trade-off curve",
                "data_domain": _TO_FILL,
                "unprotected_quantities": f"the number of units, and all settings in config.yaml{stated}",
            },
            "privacy_loss": {
                "privacy_unit": statement.unit,
                "privacy_unit_description": self.adjacency,
                "privacy_parameters.epsilon": statement.epsilon,
                "privacy_parameters.delta": statement.delta,
            },
            "model": {
                "model_name": "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "the model learned from the released labels and public records alone",
                "composition": f"the accountant {statement.accountant}, for all {statement.num_queries} queries "
                f"together{scores}{start}",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": "no epsilon covers choices after a look at "
                f"private data; {_TO_FILL}",
                "mechanisms": f"{statement.mechanism} ({parameters}) by {statement.package}; {noise}",
                "justification": _TO_FILL,
            },
        }

    def to_json(self) -> dict[str, Any]:
        """Returns all facts of the dossier for JSON."""
        attack = None
        if self.attack is not None:
            attack = vars(self.attack) | {"why_free": self.attack.why_free}
        facts = plain(
            {
                "dossier": 1,
                "publisher": self.publisher or _TO_FILL,
                "contact": self.contact or _TO_FILL,
                "date": self.date or _TO_FILL,
                "made_by": f"pate-multilabel {VERSION}",
                "is_private": self.is_private,
                "privacy": self.statement.published_values(),
                "change": self.adjacency,
                "labels": self.labels,
                "model": self.model,
                "inputs": self.inputs,
                "curve": [
                    {"false_alarms": alpha, "found_at_most": share} for alpha, share in self.curve
                ],
                "scores": self.scores or "not published",
                "attack": attack or "not published",
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
            "chance": chance,
            "delta": format_delta,
            "epsilon": format_epsilon,
            "percent": percent,
        }
        return environment.get_template("report/dossier.html").render(
            dossier=self,
            statement=self.statement,
            only_seeded=_ONLY_SEEDED,
            to_fill=_TO_FILL,
            weak_epsilon=WEAK_EPSILON,
            version=VERSION,
        )


def _require_publishable(
    attack: AttackReport, statement: PrivacyStatement, rehearsed_on: str | None
) -> None:
    """Raises `InvalidValue` unless an attack is on this kind of release, and its result may be published for free."""
    rule = f"an attack on {statement.mechanism}, as released"
    require(attack.aggregator == statement.mechanism, "lower_bound", attack.aggregator, rule)
    require(attack.sabotage is None, "lower_bound", attack.sabotage, "an attack without sabotage=")
    same_delta = math.isclose(attack.delta, statement.delta, rel_tol=1e-6)
    rule = f"an attack at target_delta={statement.delta:g}, as released"
    require(same_delta, "lower_bound", attack.delta, rule)
    ratio = attack.epsilon / statement.epsilon if statement.epsilon > 0 else math.inf
    rule = f"an attack at target_epsilon={statement.epsilon:g}, as released"
    require(1 / _SAME_EPSILON <= ratio <= _SAME_EPSILON, "lower_bound", attack.epsilon, rule)
    if attack.unit != "teacher":
        rule = (
            "public: where canaries lie among private records, no epsilon covers what the attack finds. Run "
            "pate-attack with public records as data.private=, and say so"
        )
        require(rehearsed_on == "public", "rehearsed_on", rehearsed_on, rule)


def chance(probability: float) -> str:
    """Returns a probability as a percentage, or in words if it is below 0.1%; rounded up.

    >>> chance(0.0184), chance(1e-6), chance(3.15e-6), chance(2e-8)
    ('1.9%', 'one in a million', '3.15 in a million', '20 in a billion')
    """
    if probability <= 0:
        return "none"
    if probability >= _LEAST_PERCENTAGE:
        return percent(probability)
    for word, number in _RARE.items():
        count = probability * number
        if count >= 1 - 1e-9:
            count = _rounded_up(count, digits=3)
            return f"{'one' if count == 1 else f'{count:g}'} in a {word}"
    return "less than one in a trillion"


def _most_found(alpha: float, *, epsilon: float, delta: float, mu: float) -> float:
    """Returns the most members that attacks find with false alarms of `alpha`, by epsilon and delta and by mu."""
    if not 0 < alpha < 1:
        return alpha if alpha > 0 else min(delta, 1.0)
    growth = math.exp(min(epsilon, _LARGEST_EXPONENT))
    shares = (growth * alpha + delta, 1 - (1 - delta - alpha) / growth, 1.0)
    return min(*shares, 1 - gaussian_trade_off(mu, alpha=alpha))


def _inputs_in_words(schema: Mapping[str, Any]) -> str:
    """Returns what a model reads, in words; empty without a model."""
    if not schema:
        return ""
    preprocessing = schema.get("preprocessing") or {}
    if "columns" in preprocessing:
        return f"{len(preprocessing['columns'])} columns of a table"
    shape = " x ".join(str(size) for size in schema.get("input_shape", ()))
    if schema.get("kind") == "images":
        return f"pictures of {shape} numbers"
    return (
        f"{shape} numbers for each record, made as those of the data set {schema.get('name', '')}"
    )


def _rounded_up(value: float, *, digits: int) -> float:
    """Returns a number > 0 rounded up to some significant digits."""
    scale = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / scale - 1e-9) * scale:.12g}")


def _x(alpha: float) -> float:
    return _LEFT + _WIDTH * alpha


def _y(share: float) -> float:
    return _BOTTOM - _HEIGHT * share
