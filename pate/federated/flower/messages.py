"""Requests and answers as messages of Flower, and asking all nodes at once for a limited time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid

from pate.federated.roll import Contribution, Roll
from pate.validation import InvalidValue

_PAUSE = 0.5  # seconds
_RECORD = "pate"
ACTION = "query.votes"
"""The kind of message that asks for votes."""
SUMS = "query.sums"
"""The kind of message that asks for a sum in rounds."""


def holder_name(context: Context) -> str:
    """The name that a node was started with (`--node-config 'holder="north"'`), or its number in a simulation, from 1.

    Raises `InvalidValue` where neither is given.
    """
    given = context.node_config
    if "holder" in given:
        return str(given["holder"])
    if "partition-id" in given:
        return str(int(given["partition-id"]) + 1)
    raise InvalidValue("holder: expected a name in the node's configuration, --node-config 'holder=\"NAME\"'")


def content(**said: str | bytes) -> RecordDict:
    """What goes out or back: a request, a question, or an answer."""
    return RecordDict({_RECORD: ConfigRecord(dict(said))})


def bytes_of(message: Message, name: str) -> bytes:
    """What came in under a name; raises `InvalidValue` for anything else."""
    data = _field(message, name)
    if not isinstance(data, bytes):
        raise InvalidValue(f"message: expected a {name}")
    return data


def contribution_of(message: Message) -> Contribution | None:
    """What came back; None where it says no name, as of an app that crashed."""
    if message.has_error():
        return None
    holder, votes, problem = (_field(message, name) for name in ("holder", "votes", "problem"))
    if not isinstance(holder, str):
        return None
    if isinstance(votes, bytes):
        return Contribution(holder, votes)
    return Contribution(holder, problem=str(problem)[:200] if isinstance(problem, str) else "an answer without votes")


def _field(message: Message, name: str) -> object:
    if not message.has_content() or _RECORD not in message.content.config_records:
        return None
    return message.content.config_records[_RECORD].get(name)


def nodes_of(grid: Grid, wanted: int, *, seconds: float) -> list[int]:
    """The nodes that are connected: waits until there are as many as wanted, for that long at most."""
    until = time.monotonic() + seconds
    while len(found := sorted(grid.get_node_ids())) < wanted and time.monotonic() < until:
        time.sleep(_PAUSE)
    return found


def ask(
    grid: Grid, roll: Roll, content: RecordDict, kind: str, *, group: str, seconds: float, connect_seconds: float
) -> Iterator[Contribution]:
    """What holders answer in time to the same question; a line for each that does not."""
    nodes = nodes_of(grid, len(roll.holders), seconds=connect_seconds)
    messages = [Message(content, dst_node_id=node, message_type=kind, group_id=group, ttl=seconds) for node in nodes]
    heard = set()
    for reply in grid.send_and_receive(messages, timeout=seconds):
        if (contribution := contribution_of(reply)) is not None:
            heard.add(contribution.holder)
            yield contribution
    for holder in roll.holders:
        if holder not in heard:
            yield Contribution(holder, problem=f"no answer within {seconds:g} s")
