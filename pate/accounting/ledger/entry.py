"""One charge of a ledger, and its line in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from pate.accounting.events import Event
from pate.accounting.ledger.origin import Origin
from pate.accounting.serialization import event_from_json, event_to_json
from pate.files.strict_json import number, plain


@dataclass(frozen=True)
class LedgerEntry:
    """One charge.

    Attributes:
        key: identifies the release: charging the same key and event again costs nothing, since a release drawn again
            from the same votes and the same noise is the same release.
        event: its price.
        description: for people.
        epsilon: the total up to and including this charge, of the charges on the same data.
        noise: names the random numbers that the release used; empty where they are new by construction.
        data: the digest of the private data; empty where the ledger counts for one data set.
        origin: who charged, and when; empty in a ledger of an earlier version.
    """

    key: str
    event: Event
    description: str
    epsilon: float
    noise: str = ""
    data: str = ""
    origin: Origin = field(default_factory=Origin)

    def to_json(self) -> dict[str, Any]:
        """What the ledger writes; read back before it is written, so that no charge is one that cannot be read."""
        event = event_to_json(self.event)
        event_from_json(event)
        values = {"key": self.key, "event": event, "description": self.description, "epsilon": plain(self.epsilon)}
        return values | {"noise": self.noise} | vars(self.origin) | {"data": self.data}

    def to_old_json(self) -> dict[str, Any]:
        """What a ledger of an earlier version wrote."""
        values = self.to_json()
        return {name: values[name] for name in ("key", "event", "description", "epsilon", "noise")}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What the ledger wrote, in this version or an earlier one.

        Raises:
            ValueError: something else; `AttributeError`, `KeyError` and `TypeError` too.
        """
        event, epsilon = event_from_json(record["event"]), number(record["epsilon"])
        words = {name: str(record[name]) for name in ("key", "description", "noise")}
        origin = Origin(**{name: str(record.get(name, "")) for name in ("time", "user", "host", "command")})
        return cls(event=event, epsilon=epsilon, **words, data=str(record.get("data", "")), origin=origin)
