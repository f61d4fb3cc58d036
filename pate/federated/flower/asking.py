"""Asking all nodes of a federation at once, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pate.federated.contribution import Contribution
from pate.federated.flower.messages import contribution_of
from pate.federated.roll import Roll

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict
    from flwr.serverapp import Grid

_PAUSE = 0.5  # seconds


def nodes_of(grid: Grid, wanted: int, *, seconds: float) -> list[int]:
    """The nodes that are connected: waits until there are as many as wanted, for that long at most."""
    until = time.monotonic() + seconds
    while len(found := sorted(grid.get_node_ids())) < wanted and time.monotonic() < until:
        time.sleep(_PAUSE)
    return found


def exchanged(
    grid: Grid, nodes: Iterable[int], content: RecordDict, kind: str, *, group: str, seconds: float
) -> list[Message]:
    """Sends the same to all of these nodes and gives what comes back in time."""
    from flwr.app import Message

    messages = [Message(content, dst_node_id=node, message_type=kind, group_id=group, ttl=seconds) for node in nodes]
    return list(grid.send_and_receive(messages, timeout=seconds))


def ask(
    grid: Grid, roll: Roll, content: RecordDict, kind: str, *, group: str, seconds: float, connect_seconds: float
) -> Iterator[Contribution]:
    """What holders answer; a line for each that does not."""
    nodes = nodes_of(grid, len(roll.holders), seconds=connect_seconds)
    replies = exchanged(grid, nodes, content, kind, group=group, seconds=seconds)
    heard = set()
    for reply in replies:
        if (contribution := contribution_of(reply)) is not None:
            heard.add(contribution.holder)
            yield contribution
    for holder in roll.holders:
        if holder not in heard:
            yield Contribution(holder, problem=f"no answer within {seconds:g} s")
