"""Charges for a draw, named by the generator's state: the same draw is charged once, and no noise is used twice."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.accounting.events import Adjacency, Event

if TYPE_CHECKING:
    from pate.accounting.ledger import Ledger


NAMED_SOURCES: set[type] = set()
"""Further classes of bit generators whose numbers come from their state alone; a subclass may be another's."""


def noise_name(rng: np.random.Generator) -> str:
    """A digest of the generator's state; empty for a generator whose numbers may come from elsewhere."""
    state = _state(rng)
    return hashlib.sha256(state.encode()).hexdigest() if state else ""


def key_salt(rng: np.random.Generator) -> str:
    """Another digest of the state, never stored, for keys that digest private votes; empty where there is no name.

    Without it a reader of the ledger could guess votes and check the guess against the key.
    """
    state = _state(rng)
    return hashlib.sha256(f"salt {state}".encode()).hexdigest() if state else ""


def _state(rng: np.random.Generator) -> str:
    """All that the generator's numbers come from, in full; empty for one that is neither numpy's nor the cipher."""
    source = rng.bit_generator
    cipher = getattr(sys.modules.get("randomgen.chacha"), "ChaCha", None)  # loaded by whoever made such a generator
    kind = type(source)
    known = kind.__module__.startswith("numpy.random.") or kind is cipher or kind in NAMED_SOURCES
    return repr(_plain(source.state)) if type(rng) is np.random.Generator and known else ""


def _plain(state: Any) -> Any:
    """The same without arrays, of which `repr` shows as much as numpy's print options say."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def charge_draw(
    ledger: Ledger | None,
    event: Event,
    *,
    adjacency: Adjacency,
    description: str,
    rng: np.random.Generator,
    key: Callable[[str], str],
) -> None:
    """Charges a ledger, where there is one, for what is drawn next from the generator.

    Args:
        ledger: None charges nothing.
        event: the price.
        adjacency: what it was made for.
        description: for people.
        rng: in the state that it is drawn from. One whose noise has no name makes every draw a new release.
        key: digests all that the release is a function of beside its noise, and the salt that it is given.
    """
    if ledger is not None:
        from pate.accounting.ledger.ledger import require_ledger

        noise = noise_name(rng)
        name = key(key_salt(rng)) if noise else uuid.uuid4().hex
        require_ledger(ledger).charge(event, adjacency=adjacency, key=name, description=description, noise=noise)
