"""The result of an attack on rehearsals of a release, which a publisher shows in a dossier.

A *rehearsal* is a release that is drawn for the attack alone and never published. `pate-attack` plants made-up teachers
or records, the *canaries*, into rehearsals. A secret coin chooses one of two variants of each canary. The attack
guesses the coins from the answers, and states a lower bound on epsilon that follows from its success.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from pate.files.reading import read_json
from pate.report.card import PrivacyStatement
from pate.validation import InvalidValue

# The largest factor between the price of a release and its price in a rehearsal.
_MAX_EPSILON_RATIO = 1.01
# The name of the result of an attack in errors.
_NAME_IN_ERRORS = "lower_bound"
# The content of the file with an attack, as errors describe it.
_FILE_RULE = "what `pate-attack format=json` prints"


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """The result of `pate-attack format=json` that a publisher wants to show: a lower bound on epsilon.

    A dossier shows it only if publishing it costs no privacy. Canaries that are teachers have made-up votes, so no
    private record is read. Canaries that are records are planted among other records, which influence the result too.
    So their result costs nothing only if these other records are public.

    Attributes:
        epsilon: the price of a rehearsal, a release with canaries that the attack looks for.
        delta: the delta at which `epsilon` holds.
        lower_bound: the lower bound on epsilon, by the success of the attack.
        confidence: the probability with which the lower bound holds.
        num_canaries: the number of canaries in all rehearsals together.
        num_guesses: the number of guesses, those of which the attack is most certain; it may abstain.
        num_correct: the number of correct guesses.
        unit: the kind of the canaries, "record" or "teacher".
        aggregator: the class of the aggregator.
        sabotage: the fault that was built into the rehearsals to test the attack; None for none.
    """

    epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    num_canaries: int
    num_guesses: int
    num_correct: int
    unit: str
    aggregator: str
    sabotage: str | None

    @classmethod
    def read(cls, attack_file: Path) -> Self:
        """Reads the JSON that `pate-attack format=json` prints.

        Raises:
            InvalidValue: the file is no JSON or lacks a field, or an epsilon, delta or confidence is no number.
        """
        value_by_field = read_json(attack_file, rule=_FILE_RULE, remedy="print it again")
        field_names = {report_field.name for report_field in fields(cls)}
        if not isinstance(value_by_field, dict) or not field_names <= value_by_field.keys():
            raise InvalidValue(_NAME_IN_ERRORS, attack_file, rule=_FILE_RULE)
        attack_report = cls(
            epsilon=value_by_field["epsilon"],
            delta=value_by_field["delta"],
            lower_bound=value_by_field["lower_bound"],
            confidence=value_by_field["confidence"],
            num_canaries=value_by_field["num_canaries"],  # teachers or records, by `unit`
            num_guesses=value_by_field["num_guesses"],
            num_correct=value_by_field["num_correct"],
            unit=value_by_field["unit"],
            aggregator=value_by_field["aggregator"],
            sabotage=value_by_field["sabotage"],
        )
        for number in (
            attack_report.epsilon,
            attack_report.delta,
            attack_report.lower_bound,
            attack_report.confidence,
        ):
            if not isinstance(number, (int, float)):
                raise InvalidValue(_NAME_IN_ERRORS, attack_file, rule=_FILE_RULE)
        return attack_report

    @property
    def is_refuted(self) -> bool:
        """Whether the attack refutes the price of the rehearsal: its lower bound on epsilon exceeds `epsilon`."""
        return self.lower_bound > self.epsilon

    @property
    def lower_bound_down(self) -> float:
        """The lower bound on epsilon, rounded down to two decimals."""
        return math.floor(100 * self.lower_bound) / 100

    @property
    def why_free(self) -> str:
        """A sentence on why publishing the result of the attack costs no privacy, by the kind of its canaries."""
        if self.unit == "teacher":
            return (
                "Publishing this costs nothing: all votes in the rehearsal were made up, and no private record was "
                "read."
            )
        return (
            "Publishing this costs nothing: the rehearsal ran on public records in place of the private ones, by the "
            "statement of the publisher."
        )

    def require_publishable(
        self, privacy_statement: PrivacyStatement, *, stated_kind_of_records: str | None
    ) -> None:
        """Raises `InvalidValue` unless the attack was on a release of this kind, and publishing it costs no privacy.

        Args:
            privacy_statement: the price of the release.
            stated_kind_of_records: "public" if the publisher states that the attack ran on public records in place of
                the private ones; None without a statement.
        """
        if self.aggregator != privacy_statement.mechanism:
            rule = f"an attack on {privacy_statement.mechanism}, as released"
            raise InvalidValue(_NAME_IN_ERRORS, self.aggregator, rule=rule)
        if self.sabotage is not None:
            raise InvalidValue(_NAME_IN_ERRORS, self.sabotage, rule="an attack without sabotage=")
        if not math.isclose(self.delta, privacy_statement.delta, rel_tol=1e-6):
            rule = f"an attack at target_delta={privacy_statement.delta:g}, as released"
            raise InvalidValue(_NAME_IN_ERRORS, self.delta, rule=rule)
        ratio = (
            self.epsilon / privacy_statement.epsilon if privacy_statement.epsilon > 0 else math.inf
        )
        if not 1 / _MAX_EPSILON_RATIO <= ratio <= _MAX_EPSILON_RATIO:
            rule = f"an attack at target_epsilon={privacy_statement.epsilon:g}, as released"
            raise InvalidValue(_NAME_IN_ERRORS, self.epsilon, rule=rule)
        if self.unit != "teacher" and stated_kind_of_records != "public":
            rule = (
                "public: where canaries lie among private records, no epsilon covers what the attack finds. Run "
                "pate-attack with public records as data.private=, and say so"
            )
            raise InvalidValue("rehearsed_on", stated_kind_of_records, rule=rule)
