"""One charge of a ledger, and its line in the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pate.accounting.events import Event
from pate.accounting.serialization import event_from_json, event_to_json
from pate.files.strict_json import number, plain
from pate.validation import InvalidValue


@dataclass(frozen=True)
class LedgerEntry:
    """One charge.

    Attributes:
        key: identifies the release: charging the same key and event again costs nothing, since a release drawn again
            from the same votes and the same noise is the same release.
        event: its price.
        description: for people.
        epsilon: the total of the ledger up to and including this charge.
        noise: names the random numbers that the release used; empty where they are new by construction.
    """

    key: str
    event: Event
    description: str
    epsilon: float
    noise: str = ""

    def to_json(self) -> dict[str, Any]:
        """What the ledger writes; read back before it is written, so that no charge is one that cannot be read."""
        event = event_to_json(self.event)
        event_from_json(event)
        return vars(self) | {"event": event, "epsilon": plain(self.epsilon)}

    @classmethod
    def from_json(cls, record: dict[str, Any], *, path: Path, line: int) -> Self:
        """What the ledger wrote on this line of this file.

        Raises:
            InvalidValue: something else.
        """
        try:
            event, epsilon = event_from_json(record["event"]), number(record["epsilon"])
            return cls(str(record["key"]), event, str(record["description"]), epsilon, str(record["noise"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidValue(f"ledger={path}: expected a charge on line {line}") from error
