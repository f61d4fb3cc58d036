"""The published statements about a release: the privacy card for people, and `privacy.json` for programs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any, Self

from pate.accounting.attack_bounds import AttackBounds
from pate.accounting.rounding import format_delta, format_epsilon
from pate.extras import VERSION
from pate.files.atomic import write_text
from pate.files.reading import read_value
from pate.files.strict_json import plain, to_json
from pate.html_table import html_table
from pate.report.privacy import (
    NUM_PUBLIC_LABELS,
    EarlierPrice,
    Privacy,
    Scalar,
    guarantee_line,
)
from pate.report.released_scores import ReleasedScores
from pate.report.tuning import Tuning
from pate.report.wording import PAPER_LABEL, SEEDED_WARNING, percent
from pate.validation import require, require_count

_CARD = Template(Path(__file__).with_name("privacy_card.md").read_text(encoding="utf-8"))

_GAPS = (
    "\n- That labels of private records may be missing: that is public. Which labels a record has is covered, "
    "as the labels are."
)
_FEWEST_KNOWN = 5  # labels that the card names

PRIVACY = "privacy.json"  # the name of `PrivacyStatement` in a bundle


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The price of a release as it is published in `privacy.json`: the same facts as on the privacy card.

    The price can be computed again from these fields.
    """

    format: int = 1  # of the file
    package: str = f"pate-multilabel {VERSION}"  # the package that wrote it, with its version
    # the bound of the card, rounded up; infinity, in the file `"inf"`, is no guarantee
    epsilon: float
    delta: float  # at which epsilon holds, rounded up
    adjacency: str  # `replace_one` or `add_remove`
    unit: str  # the private records that one change replaces together, in words
    accountant: str  # the accountant whose figure epsilon is
    mechanism: str  # the class of the aggregator
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # its public parameters by name
    # `system` for entropy of the operating system, `seeded` if whoever knows a seed can remove the noise
    noise: str
    data: str  # the public name of the data set
    num_queries: int  # queries that were priced; `num_answered` of them were answered
    num_answered: int
    num_labels: int  # per query
    num_teachers: int  # that voted
    # the epsilon of each class of groups with a budget of its own, rounded up; empty without such classes
    classes: Mapping[str, float] = field(default_factory=dict)
    # the columns whose values make a unit; empty if no column does, or in statements of earlier versions
    unit_columns: tuple[str, ...] = ()
    # what was read from private data and is public by the statement of its owner alone, such as "classes"; left out of
    # the file if there is nothing
    stated_public: tuple[str, ...] = ()
    # the most that attacks find in the release; None for an infinite epsilon, and in statements of earlier versions
    attacks: AttackBounds | None = None
    # the released share of records for which a label is known, by label; left out of the file if none were released
    known_shares: Mapping[str, float] = field(default_factory=dict)
    # the SHA-256 of the public model's answers that the votes were compared with; left out of the file without any
    public_answers: str = ""
    # the scores on test records, which were released at a price of their own; left out of the file where none were
    scores: ReleasedScores | None = None
    # the price of the earlier release that this one started from; left out of the file where there is none
    start: EarlierPrice | None = None
    # the runs of which the release is the best; left out of the file for a release that was not tuned
    tuning: Tuning | None = None

    @classmethod
    def from_privacy(
        cls,
        privacy: Privacy,
        *,
        data: str,
        num_answered: int,
        num_labels: int,
        num_teachers: int,
        stated_public: Sequence[str] = (),
        known_shares: Mapping[str, float] | None = None,
        public_answers: str = "",
    ) -> Self:
        """Returns the statement of a price.

        The arguments have the meaning of the arguments of `privacy_card`; `data` is the public name of the data set.
        """
        return cls(
            adjacency=privacy.adjacency,
            unit=privacy.unit,
            unit_columns=privacy.unit_columns,
            mechanism=privacy.mechanism,
            parameters=privacy.parameters,
            num_queries=privacy.num_queries,
            epsilon=float(format_epsilon(privacy.epsilon)),
            delta=float(format_delta(privacy.delta)),
            accountant=privacy.won_by or privacy.accountant,
            noise="seeded" if privacy.noise_seeded else "system",
            classes={
                name: float(format_epsilon(epsilon)) for name, epsilon in privacy.classes.items()
            },
            data=data,
            num_answered=num_answered,
            num_labels=num_labels,
            num_teachers=num_teachers,
            stated_public=tuple(stated_public),
            attacks=privacy.attacks,
            known_shares=known_shares or {},
            public_answers=public_answers,
            scores=privacy.scores,
            start=privacy.start,
            tuning=privacy.tuning,
        )

    @property
    def guarantee(self) -> str:
        """The guarantee in one line; an infinite epsilon is called no guarantee."""
        return guarantee_line(self.epsilon, self.delta, adjacency=self.adjacency, unit=self.unit)

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The epsilon, the delta, and what they are for, as rows (name, text)."""
        is_infinite = math.isinf(self.epsilon)
        rows = [
            ("epsilon", "infinite: no guarantee" if is_infinite else format_epsilon(self.epsilon)),
            ("delta", format_delta(self.delta)),
            ("adjacency", self.adjacency),
            ("unit of privacy", self.unit),
            ("mechanism", self.mechanism),
            ("queries", f"{self.num_answered} of {self.num_queries} answered"),
        ]
        if self.attacks is not None:
            rows.append(("attacks", self.attacks.sentence))
        if self.scores is not None:
            rows += self.scores.rows
        if self.start is not None:
            rows.append(("start", self.start.sentence))
        if self.tuning is not None:
            rows += self.tuning.rows
        return [*rows, ("noise", SEEDED_WARNING)] if self.noise == "seeded" else rows

    def _repr_html_(self) -> str:
        """Returns the terms as a table for notebooks."""
        return html_table(f"Privacy of a release of {self.data}", self.terms)

    def write(self, folder: Path | str) -> None:
        """Writes `privacy.json` into the folder of a bundle."""
        write_text(Path(folder, PRIVACY), text=to_json(self.published_values()) + "\n")

    def published_values(self) -> dict[str, Any]:
        """Returns the content of `privacy.json`, without fields that only some releases have."""
        values = dict(plain(self))
        for name in (
            "stated_public",
            "known_shares",
            "public_answers",
            "scores",
            "start",
            "tuning",
        ):
            if not values[name]:
                del values[name]
        return values

    @classmethod
    def read(cls, folder: Path | str, *, remedy: str) -> Self:
        """Reads `privacy.json` from the folder of a bundle.

        Args:
            folder: the folder.
            remedy: advice in the error if the file is damaged.

        Raises:
            DamagedFile: the file is missing, or is no statement.
        """
        return read_value(
            cls, Path(folder, PRIVACY), name="privacy", rule="the price of a release", remedy=remedy
        )


def privacy_card(
    privacy: Privacy,
    *,
    name: str | None = None,
    dataset: str,
    num_answered: int,
    num_labels: int,
    num_teachers: int,
    num_hits: int | None = None,
    features: Mapping[str, Scalar] | None = None,
    places: Sequence[str] = (),
    stated_public: Sequence[str] = (),
    labels_have_gaps: bool = False,
    known_shares: Mapping[str, float] | None = None,
    public_answers: str = "",
) -> str:
    """Returns the privacy card as Markdown.

    The arguments are the price, public parameters and the released number of answers. So the card cannot reveal
    anything else, such as a score, a baseline, a vote, a seed or a path of the data owner.

    Args:
        privacy: the price of the release.
        name: the name of the aggregator in the configuration; None shows its class.
        dataset: the public name of the data set.
        num_answered: the number of answered queries, which is part of the release.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers.
        num_hits: the number of hits, if the mechanism is charged by hits; None for other mechanisms. It is part of the
            release.
        features: the origin of extracted features (`Preprocessing.origin`); None if inputs are not transformed.
        places: sentences for each holder of records (`pate.run.places`); empty without holders.
        stated_public: what is public by the statement of the data owner alone, such as "classes"; empty for nothing.
        labels_have_gaps: whether labels of private records may be unknown, which is public.
        known_shares: the released share of records for which a label is known, by label; None if none were released.
        public_answers: the SHA-256 of the public model's answers that the votes were compared with; empty without any.

    Raises:
        InvalidValue: there are more answers than queries, or a number is negative or not whole.
    """
    require_count("num_answered", num_answered, minimum=0)
    require_count("num_labels", num_labels)
    require_count("num_teachers", num_teachers)
    rule = f"at most num_queries={privacy.num_queries}"
    require(num_answered <= privacy.num_queries, "num_answered", num_answered, rule)
    made_of = f"{features['features']}, which {features_origin(features)}" if features else None
    origin = {"data set": dataset, "features": made_of}
    counts = {"queries answered": num_answered, "hits": num_hits}
    counts |= {"labels per query": num_labels, "teachers": num_teachers}
    rows = [*origin.items(), *privacy.terms, *privacy.mechanism_rows(name), *counts.items()]
    if known_shares:
        rows.append(("labels that are known, released with noise", _coverage(known_shares)))
    if public_answers:
        rows.append(("public answers, which all votes are compared with", _origin(public_answers)))
    scores = privacy.scores
    if scores is not None:
        rows += scores.rows
    promise, reading = _promise(privacy)
    covered = "\n".join(
        (
            "\n## Whom it covers, as votes come from several places\n",
            *(f"- {line}" for line in places),
        )
    )
    paper = f"\n- The accounting of the paper that the mechanism comes from gives epsilon {{}}: {PAPER_LABEL}."
    return _CARD.substitute(
        promise=promise,
        rows="\n".join(
            f"| {cell(key)} | {cell(str(value))} |" for key, value in rows if value is not None
        ),
        reading=reading,
        num_queries=privacy.num_queries,
        paper=""
        if privacy.paper_epsilon is None
        else paper.format(format_epsilon(privacy.paper_epsilon)),
        places=f"{covered}\n" if places else "",
        classes="\n- Who is in which budget class: that is taken as public."
        if privacy.classes
        else "",
        start="" if privacy.start is None else f"\n- {privacy.start.sentence}",
        scores=""
        if scores is None
        else f"\n- {scores.promise} One change replaces {cell(scores.unit)}.",
        stated="".join(
            f"\n- The names of the {cell(name)}: they are public by the statement of the data owner."
            for name in stated_public
        )
        + _public_labels_line(privacy)
        + (_GAPS if labels_have_gaps else ""),
    )


def _public_labels_line(privacy: Privacy) -> str:
    """Returns a line on the labels of public rows that the student began at; empty if it began at none."""
    num_labeled = privacy.parameters.get(NUM_PUBLIC_LABELS)
    if num_labeled is None:
        return ""
    return (
        f"\n- The labels of the first {num_labeled} public samples: the student began with what they teach. They "
        "are taken as public."
    )


def features_origin(features: Mapping[str, Scalar]) -> str:
    """Returns a sentence on the public data that features of pictures or texts were fitted on, with digests."""
    fitted = "fitted on nothing"
    for kind_of_input in ("pictures", "texts"):
        if count := features.get(f"num_{kind_of_input}"):
            fitted = f"fitted on {count} public {kind_of_input} (SHA-256 {features.get(f'{kind_of_input}_sha256', '')})"
    weights = ""
    if "model" in features:
        weights = f", weights from {features['model']} (SHA-256 {features['weights_sha256']})"
    return f"were {fitted}{weights}, on no private record; the extractor's SHA-256 is {features['extractor_sha256']}"


def _origin(public_answers: str) -> str:
    """Returns a line on the public model's answers, whose SHA-256 is given."""
    return (
        f"those of a model that saw no private example, by the statement of the data owner (SHA-256 {public_answers}); "
        "the price covers the difference"
    )


def _coverage(known_shares: Mapping[str, float]) -> str:
    """Returns a line on how often labels are known, with those that are known least often."""
    shares = sorted(known_shares.items(), key=itemgetter(1))
    least = ", ".join(f"{name} {percent(share)}" for name, share in shares[:_FEWEST_KNOWN])
    mean = percent(sum(known_shares.values()) / len(known_shares))
    return f"{mean} of all; least often: {least}. A label that few records know is learned with more noise"


def _promise(privacy: Privacy) -> tuple[str, str]:
    """Returns two sentences: the guarantee, and an explanation of its epsilon."""
    if math.isinf(privacy.epsilon):
        none = "This release has **no privacy guarantee**: its epsilon is infinite."
        return none, "Nothing bounds what the release says about one unit of privacy."
    epsilon = format_epsilon(privacy.epsilon)
    delta = format_delta(privacy.delta)
    sentence = f"This release is ({epsilon}, {delta})-differentially private under the adjacency {privacy.adjacency}"
    sentence += f"; the unit of privacy is {cell(privacy.unit)}."
    if privacy.classes:
        sentence += f" By budget class epsilon is {cell(privacy.class_epsilons)}."
    if privacy.weak_epsilon_warning:
        sentence += f" An {privacy.weak_epsilon_warning}."
    if privacy.noise_seeded:
        sentence += " The noise was seeded, and the guarantee holds only against readers who do not know the seed."
    change = "Change one unit of privacy as the adjacency says: the probability of any outcome grows at most"
    reading = f"{change} by the factor e^{epsilon}, plus {delta}."
    if privacy.attacks is not None:
        attack = privacy.attacks.sentence
        reading += f"\n- {attack[0].upper()}{attack[1:]}, whatever else they know. A member is one unit of privacy."
    return sentence, reading


def cell(text: str) -> str:
    """Returns text for one cell of a Markdown table: one line, in which characters of Markdown and HTML are escaped."""
    line = " ".join(text.split())
    for character in "\\`*[]<>|#":
        line = line.replace(character, f"\\{character}")
    return line
