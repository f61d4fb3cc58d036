"""A release of votes that were collected from many places: asked for once, then charged, drawn and published."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pate.federated.collection import Collection, collect
from pate.federated.contribution import Contribution
from pate.federated.request import Request
from pate.federated.roll import Roll
from pate.files.atomic import make_folder, write_text
from pate.files.reading import damaged, file_digest, read_text
from pate.files.strict_json import from_json, to_json
from pate.run.places import Places
from pate.run.progress import Monitor, NullMonitor
from pate.run.stages.cohort import Cohort
from pate.run.stages.release import ReleasePlan, release_votes
from pate.run.stages.terms import Terms
from pate.validation import require
from pate.votes.vote_file import VoteFile

_RULE = "what was collected for a release"
_REMEDY = "remove the inbox, and holders are asked again"

Ask = Callable[[], Iterable[Contribution]]
"""Sends the request to all holders and gives what came back."""


@dataclass(frozen=True)
class _Collected:
    """What `collected.json` holds.

    Attributes:
        queries: digest of the request.
        sha256: of each file that counts, by holder.
        refused: lines, by holder.
    """

    queries: str
    sha256: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FederatedRelease:
    """Everything that the server does, whatever carries the messages.

    Attributes:
        plan: what is released.
        roll: who is expected.
        request: what is asked.
        inbox: the folder for votes, of mode 0700; no epsilon covers it.
        output_dir: the folder of the release; of it `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    request: Request
    inbox: Path
    output_dir: Path

    def run(self, ask: Ask, monitor: Monitor | None = None) -> Terms:
        """Collects votes, or takes those that were collected before, and releases them.

        Holders are asked until one collection is complete. From then on it stays what it is, so a server that was
        killed goes on with the same votes, charges nothing a second time and gives the same release.

        Raises:
            InvalidValue: too many holders are absent; whatever `release_votes` refuses. Nothing was charged then.
        """
        monitor = monitor or NullMonitor()
        collection = self._kept() or self._collect(ask)
        for line in collection.refused.values():
            monitor.say(line)
        source = collection.source(self.plan.aggregator)
        votes = collection.gathered()
        cohort = replace(Cohort.of_files(votes), places=Places(len(self.roll.holders), max(self.roll.holders.values())))
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    @property
    def _marker(self) -> Path:
        return self.inbox / "collected.json"

    def _collect(self, ask: Ask) -> Collection:
        make_folder(self.inbox)
        collection = collect(self.roll, self.request, ask(), self.inbox)
        collection.require_enough()
        digests = {name: file_digest(file.path, remedy=_REMEDY) for name, file in collection.files.items()}
        write_text(self._marker, to_json(_Collected(self.request.digest, digests, collection.refused)) + "\n")
        return collection

    def _kept(self) -> Collection | None:
        """What was collected before; None where nothing is complete."""
        if not os.path.lexists(self._marker):
            return None
        try:
            kept = from_json(_Collected, read_text(self._marker, rule=_RULE, remedy=_REMEDY), name="collected")
        except ValueError:
            raise damaged(self._marker, _RULE, "other JSON", _REMEDY) from None
        rule = "those of the request; take another inbox for another request"
        require(kept.queries == self.request.digest, "inbox, queries", "others", rule)
        files = {}
        for name, digest in kept.sha256.items():
            path = self.inbox / f"{name}.npz"
            if file_digest(path, remedy=_REMEDY) != digest:
                raise damaged(path, "the votes as they came", "others", _REMEDY)
            files[name] = VoteFile.open(path)
        return Collection(self.roll, files, kept.refused)
