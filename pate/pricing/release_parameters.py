"""What somebody says of the release that they made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pate.aggregators import Aggregator
from pate.validation import require_non_negative

ASSUMED: dict[str, float] = {"noise_std": 50.0, "screening_std": 50.0, "threshold_share": 0.6, "vote_clip": 2}
"""What is taken where nothing is said."""

_OTHER_NAMES = {"noise_std": "selection_scale", "screening_std": "test_std"}
_NOISES = {*_OTHER_NAMES, *_OTHER_NAMES.values()}


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """The parameters of somebody's release; None for those that are not known.

    Attributes:
        noise_std: of the answers, the scale of a selection; 0 for no noise.
        screening_std: of the screening, or of a stability test; 0 for no noise.
        threshold_share: of the teachers who must agree.
        vote_clip: how many votes of a teacher count.
        max_size: of a set of labels.
    """

    noise_std: float | None = None
    screening_std: float | None = None
    threshold_share: float | None = None
    vote_clip: int | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        for name in _OTHER_NAMES:
            if name in self.known:
                require_non_negative(name, self.known[name])

    @property
    def known(self) -> dict[str, float]:
        """Those that something is known of, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """What releases have of which nothing was said."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def used_by(self, aggregator: Aggregator) -> dict[str, float]:
        """What an aggregator has of them, by these names: as given, or else as the aggregator has it."""
        own = {item.name for item in fields(aggregator)}
        found: dict[str, float] = {}
        for item in fields(self):
            if item.name == "threshold_share" and "screening_std" not in found:
                continue  # a threshold without a screening has no part in a price or a claim
            name = item.name if item.name in own else _OTHER_NAMES.get(item.name, item.name)
            value = self.known.get(item.name, getattr(aggregator, name, None)) if name in own else None
            if isinstance(value, (int, float)):
                found[item.name] = value
        return found

    def applied(self, aggregator: Aggregator) -> tuple[Aggregator, bool]:
        """The aggregator with these parameters, and whether some of its noise is 0, which no aggregator takes."""
        own = {item.name for item in fields(aggregator)}
        named = {name if name in own else _OTHER_NAMES.get(name, name): value for name, value in self.known.items()}
        used: dict[str, Any] = {name: value for name, value in named.items() if name in own}
        bare = [name for name, value in used.items() if value == 0 and name in _NOISES]
        return replace(aggregator, **used | dict.fromkeys(bare, 1.0)), bool(bare)
