"""The published statements about a release: the privacy card for people, and `privacy.json` for programs.

Both state a `Privacy` with the public numbers of the release, and nothing else of the run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    NUM_LABELED_AT_START,
    EarlierPrice,
    Privacy,
    Scalar,
    guarantee_line,
)
from pate.report.released_scores import ReleasedScores
from pate.report.tuning import Tuning
from pate.report.wording import PAPER_LABEL, SEEDED_WARNING, percent
from pate.validation import InvalidValue, require_count

# The page with gaps for the numbers of a release.
_CARD_TEMPLATE = Template(Path(__file__).with_name("privacy_card.md").read_text(encoding="utf-8"))

# A line of the card, for data in which labels of private records may be unknown.
_GAPS_LINE = (
    "\n- That labels of private records may be missing: that is public. Which labels a record has is covered, "
    "as the labels are."
)
# The card names so many of the labels that are known for the fewest records.
_NUM_RARELY_KNOWN = 5

PRIVACY_FILE = "privacy.json"
"""The name of the file with a `PrivacyStatement` in a bundle."""

# The fields of a `PrivacyStatement` that are left out of the file if they are empty or None.
_OPTIONAL_FIELDS = (
    "stated_public",
    "known_shares",
    "public_answers",
    "scores",
    "start",
    "tuning",
)


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The price of a release as it is published in `privacy.json`, with most of the facts on the privacy card.

    The price can be computed again from these fields. Fields from `stated_public` on, but for `attacks`, are left out
    of the file if they are empty or None.

    Attributes:
        format: the version of the file's format.
        package: the package that wrote the file, with its version.
        epsilon: the bound of the card, rounded up; infinity, in the file `"inf"`, is no guarantee.
        delta: the delta at which `epsilon` holds, rounded up.
        adjacency: `replace_one` or `add_remove`.
        unit: the private records that one change replaces together, in words.
        accountant: the name of the accountant that computed `epsilon`.
        mechanism: the class of the aggregator.
        parameters: the public parameters of the aggregator by name.
        noise: `system` for entropy of the operating system; `seeded` if whoever knows a seed can remove the noise.
        data: the public name of the data set.
        num_queries: the number of queries that were priced, refused ones included.
        num_answered: the number of queries that were answered.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers that voted.
        classes: the epsilon of each class of groups with a budget of its own, rounded up; empty without such classes.
        unit_columns: the columns whose values make a unit; empty if no column does, or in statements of earlier
            versions.
        stated_public: names of facts that were read from private data, and are public by the statement of its owner
            alone, such as "classes".
        attacks: upper bounds on the success of attacks on the release; None for an infinite epsilon, and in statements
            of earlier versions.
        known_shares: the released share of records for which a label is known, by label.
        public_answers: the SHA-256 of the public model's answers that the votes were compared with.
        scores: the scores on test records, released at a price of their own.
        start: the price of the earlier release that this one started from.
        tuning: the tuning whose best run the release is.
    """

    format: int = 1
    package: str = f"pate-multilabel {VERSION}"
    epsilon: float
    delta: float
    adjacency: str
    unit: str
    accountant: str
    mechanism: str
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    noise: str
    data: str
    num_queries: int
    num_answered: int
    num_labels: int
    num_teachers: int
    classes: Mapping[str, float] = field(default_factory=dict)
    unit_columns: tuple[str, ...] = ()
    stated_public: tuple[str, ...] = ()
    attacks: AttackBounds | None = None
    known_shares: Mapping[str, float] = field(default_factory=dict)
    public_answers: str = ""
    scores: ReleasedScores | None = None
    start: EarlierPrice | None = None
    tuning: Tuning | None = None

    @classmethod
    def from_privacy(
        cls,
        privacy: Privacy,
        *,
        data_name: str,
        num_answered: int,
        num_labels: int,
        num_teachers: int,
        stated_public: Sequence[str] = (),
        known_shares: Mapping[str, float] | None = None,
        public_answers: str = "",
    ) -> Self:
        """Returns the statement of a price.

        The arguments have the meaning of the arguments of `privacy_card`; `data_name` is its `dataset`.
        """
        public_answers_digest = public_answers
        attack_bounds = privacy.attacks
        earlier_price = privacy.start
        released_scores = privacy.scores
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
                class_name: float(format_epsilon(class_epsilon))
                for class_name, class_epsilon in privacy.classes.items()
            },
            data=data_name,
            num_answered=num_answered,
            num_labels=num_labels,
            num_teachers=num_teachers,
            stated_public=tuple(stated_public),
            attacks=attack_bounds,
            known_shares=known_shares or {},
            public_answers=public_answers_digest,
            scores=released_scores,
            start=earlier_price,
            tuning=privacy.tuning,
        )

    @property
    def guarantee(self) -> str:
        """The guarantee in one line; an infinite epsilon is called no guarantee."""
        return guarantee_line(self.epsilon, self.delta, adjacency=self.adjacency, unit=self.unit)

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The price and the public numbers of the release, as rows (name, text)."""
        epsilon_text = format_epsilon(self.epsilon)
        if math.isinf(self.epsilon):
            epsilon_text = "infinite: no guarantee"
        rows = [
            ("epsilon", epsilon_text),
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
            rows.append(("start", self.start.text))
        if self.tuning is not None:
            rows += self.tuning.rows
        if self.noise == "seeded":
            rows.append(("noise", SEEDED_WARNING))
        return rows

    def _repr_html_(self) -> str:
        """Returns the terms as a table for notebooks."""
        return html_table(title=f"Privacy of a release of {self.data}", rows=self.terms)

    def write(self, folder: Path | str) -> None:
        """Writes `privacy.json` into the folder of a release."""
        write_text(Path(folder, PRIVACY_FILE), text=to_json(self.published_values()) + "\n")

    def published_values(self) -> dict[str, Any]:
        """Returns the content of `privacy.json`: all fields, but the optional ones only where they say something."""
        value_by_field = dict(plain(self))
        for field_name in _OPTIONAL_FIELDS:
            if not value_by_field[field_name]:
                del value_by_field[field_name]
        return value_by_field

    @classmethod
    def read(cls, folder: Path | str, *, remedy: str) -> Self:
        """Reads `privacy.json` from the folder of a bundle, that is, of a published student.

        Args:
            folder: the folder.
            remedy: advice in the error if the file is damaged.

        Raises:
            DamagedFile: the file is missing, or is no statement.
        """
        return read_value(
            cls,
            Path(folder, PRIVACY_FILE),
            name="privacy",
            rule="the price of a release",
            remedy=remedy,
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

    The arguments are the price, public parameters and released numbers. So the card cannot reveal anything else, such
    as a score without a price, a baseline, a vote, a seed or a path of the data owner.

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
        places: sentences on whose data the price protects if votes come from several holders (`Places.promises`); empty
            without holders.
        stated_public: names of facts that are public by the statement of the data owner alone, such as "classes".
        labels_have_gaps: whether labels of private records may be unknown, which is public.
        known_shares: the released share of records for which a label is known, by label; None if none were released.
        public_answers: the SHA-256 of the public model's answers that the votes were compared with; empty without any.

    Raises:
        InvalidValue: there are more answers than queries, or fewer than 0; there is no label or no teacher; or one of
            these numbers is not whole.
    """
    require_count("num_answered", num_answered, minimum=0)
    require_count("num_labels", num_labels)
    require_count("num_teachers", num_teachers)
    if num_answered > privacy.num_queries:
        rule = f"at most num_queries={privacy.num_queries}"
        raise InvalidValue("num_answered", num_answered, rule=rule)
    rows = [("data set", dataset)]
    if features:
        rows.append(
            ("features", f"{features['features']}, which {describe_features_origin(features)}")
        )
    rows += privacy.terms

    rows += privacy.mechanism_rows(aggregator_name=name)
    rows.append(("queries answered", str(num_answered)))
    if num_hits is not None:
        rows.append(("hits", str(num_hits)))
    rows.append(("labels per query", str(num_labels)))
    rows.append(("teachers", str(num_teachers)))
    if known_shares:
        shares_text = _known_shares_text(known_shares)
        rows.append(("labels that are known, released with noise", shares_text))
    if public_answers:
        answers_text = _public_answers_text(answers_digest=public_answers)
        rows.append(("public answers, which all votes are compared with", answers_text))
    if privacy.scores is not None:
        rows += privacy.scores.rows
    return _CARD_TEMPLATE.substitute(
        promise=_promise_text(privacy),
        rows="\n".join(
            f"| {markdown_cell(row_name)} | {markdown_cell(row_text)} |"
            for row_name, row_text in rows
        ),
        reading=_epsilon_explanation(privacy),
        num_queries=privacy.num_queries,
        refused_queries=_price_of_refused_queries(privacy),
        paper=_paper_epsilon_line(privacy),
        coverage_section=_covered_people_section(sentences_on_people=places),
        classes=_public_budget_classes_line(privacy),
        start=_student_start_line(privacy),
        scores=_scores_line(privacy),
        stated=_stated_public_lines(fact_names=stated_public)
        + _public_labels_line(privacy)
        + (_GAPS_LINE if labels_have_gaps else ""),
    )


def _price_of_refused_queries(privacy: Privacy) -> str:
    """Returns a main clause, without its period, on what refused queries cost beside answered ones."""
    if privacy.target_hits is None:
        return "a refused query costs as much as an answered one"
    return (
        f"they are the price of a session of up to {privacy.target_hits} hits, however many it has"
    )


def _promise_text(privacy: Privacy) -> str:
    """Returns the guarantee in a few sentences of Markdown, with warnings of a large epsilon and of seeded noise."""
    if math.isinf(privacy.epsilon):
        return "This release has **no privacy guarantee**: its epsilon is infinite."
    epsilon = format_epsilon(privacy.epsilon)
    delta = format_delta(privacy.delta)
    promise = (
        f"This release is ({epsilon}, {delta})-differentially private under the adjacency {privacy.adjacency}; "
        f"the unit of privacy is {markdown_cell(privacy.unit)}."
    )
    if privacy.classes:
        class_epsilons_text = privacy.class_epsilons
        promise += f" By budget class epsilon is {markdown_cell(class_epsilons_text)}."
    if privacy.weak_epsilon_warning:
        promise += f" An {privacy.weak_epsilon_warning}."
    if privacy.noise_seeded:
        promise += " The noise was seeded, and the guarantee holds only against readers who do not know the seed."
    return promise


def _epsilon_explanation(privacy: Privacy) -> str:
    """Returns an explanation of the release's epsilon: what it bounds, and what an attacker can find at most.

    An infinite epsilon bounds nothing, and the text says so.
    """
    if math.isinf(privacy.epsilon):
        return "Nothing bounds what the release says about one unit of privacy."
    epsilon_text = format_epsilon(privacy.epsilon)
    delta_text = format_delta(privacy.delta)
    explanation = (
        "Change one unit of privacy as the adjacency says: the probability of any outcome grows at most "
        f"by the factor e^{epsilon_text}, plus {delta_text}."
    )
    if privacy.attacks is not None:
        attack = privacy.attacks.sentence
        explanation += f"\n- {attack[0].upper()}{attack[1:]}, whatever else they know. A member is one unit of privacy."
    return explanation


def _paper_epsilon_line(privacy: Privacy) -> str:
    """Returns a line with the epsilon that the accounting of the mechanism's paper gives, which is no bound.

    The line is empty if the paper has no accounting.
    """
    if privacy.paper_epsilon is None:
        return ""
    epsilon_text = format_epsilon(privacy.paper_epsilon)
    return f"\n- The accounting of the paper that the mechanism comes from gives epsilon {epsilon_text}: {PAPER_LABEL}."


def _covered_people_section(sentences_on_people: Sequence[str]) -> str:
    """Returns a section of the card on whom the price covers if votes come from several holders; empty without holders.

    Args:
        sentences_on_people: the sentences of the section, of which each is on a line (`Places.promises`).
    """
    if not sentences_on_people:
        return ""
    lines = "".join(f"\n- {sentence}" for sentence in sentences_on_people)
    return f"\n## Whom it covers, as votes come from several places\n{lines}\n"


def _public_budget_classes_line(privacy: Privacy) -> str:
    """Returns the line that who is in which budget class is taken as public; empty without budget classes."""
    if not privacy.classes:
        return ""
    return "\n- Who is in which budget class: that is taken as public."


def _student_start_line(privacy: Privacy) -> str:
    """Returns a line on the earlier release that the student started from; empty without an earlier release."""
    return "" if privacy.start is None else f"\n- {privacy.start.text}"


def _scores_line(privacy: Privacy) -> str:
    """Returns a line on the price of the released scores; empty if none were released."""
    if privacy.scores is None:
        return ""
    return f"\n- {privacy.scores.promise} One change replaces {markdown_cell(privacy.scores.unit)}."


def _stated_public_lines(fact_names: Sequence[str]) -> str:
    """Returns lines on names that are public by the statement of the data owner, one line for each kind of name.

    Args:
        fact_names: the kinds of names, such as "classes".
    """
    bullets = [
        f"\n- The names of the {markdown_cell(fact_name)}: they are public by the statement of the data owner."
        for fact_name in fact_names
    ]
    return "".join(bullets)


def _public_labels_line(privacy: Privacy) -> str:
    """Returns a line on the public labels that the student learned from before any vote; empty if there were none."""
    num_labeled = privacy.parameters.get(NUM_LABELED_AT_START)
    if num_labeled is None:
        return ""
    return (
        f"\n- The labels of the first {num_labeled} public samples: the student began with what they teach. They "
        "are taken as public."
    )


def describe_features_origin(extractor_origin: Mapping[str, Scalar]) -> str:
    """Returns a clause on the public data that the extractor of features was fitted on, with SHA-256 digests.

    Args:
        extractor_origin: the settings and digests of the extractor (`Preprocessing.origin`).
    """
    fitted = "fitted on nothing"
    for kind_of_input in ("pictures", "texts"):
        num_inputs = extractor_origin.get(f"num_{kind_of_input}")
        if num_inputs:
            inputs_digest = extractor_origin.get(f"{kind_of_input}_sha256", "")
            fitted = f"fitted on {num_inputs} public {kind_of_input} (SHA-256 {inputs_digest})"
    weights = ""
    if "model" in extractor_origin:
        weights = f", weights from {extractor_origin['model']} (SHA-256 {extractor_origin['weights_sha256']})"
    extractor_digest = extractor_origin["extractor_sha256"]
    return f"were {fitted}{weights}, on no private record; the extractor's SHA-256 is {extractor_digest}"


def _public_answers_text(answers_digest: str) -> str:
    """Returns a text on the public model with whose answers votes were compared, for the privacy card.

    Args:
        answers_digest: the SHA-256 of the model's answers.
    """
    return (
        f"those of a model that saw no private example, by the statement of the data owner (SHA-256 {answers_digest}); "
        "the price covers the difference"
    )


def _known_shares_text(known_share_of_label: Mapping[str, float]) -> str:
    """Returns a text with the mean share of records for which a label is known, and with the least known labels.

    Args:
        known_share_of_label: the released share of records for which a label is known, by label.
    """
    label_names_by_share = sorted(known_share_of_label, key=known_share_of_label.__getitem__)
    shares_of_rarest = [
        f"{label_name} {percent(known_share_of_label[label_name])}"
        for label_name in label_names_by_share[:_NUM_RARELY_KNOWN]
    ]
    mean_share = percent(sum(known_share_of_label.values()) / len(known_share_of_label))
    return (
        f"{mean_share} of all; least often: {', '.join(shares_of_rarest)}. "
        "A label that few records know is learned with more noise"
    )


def markdown_cell(cell_text: str) -> str:
    r"""Returns text for one cell of a Markdown table: one line, with a backslash before each of the marks \`*[]<>|#."""
    cell_line = " ".join(cell_text.split())
    for character in "\\`*[]<>|#":
        cell_line = cell_line.replace(character, f"\\{character}")
    return cell_line
