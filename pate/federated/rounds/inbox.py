"""Sums that were asked for, each kept before anything is done with it."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from pate.federated.roll import Roll
from pate.federated.rounds.gathering import Exchange, Gathered
from pate.federated.rounds.question import Question
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.atomic import make_folder, write_arrays, write_text
from pate.files.reading import FROM_BACKUP, damaged, read_text
from pate.files.strict_json import from_json, to_json
from pate.run.progress import Monitor
from pate.validation import InvalidValue, require
from pate.votes.vote_file import VoteManifest

_REMEDY = f"{FROM_BACKUP}: later questions were asked about what was released of it"
_FORMS = {"total": ArrayForm("i"), "holders": ArrayForm("U", (None,))}
_MOST_BYTES = 2**36


@dataclass(frozen=True)
class _Opened:
    """What `opening.json` holds.

    Attributes:
        name: of the release, random: sums of another inbox are not those of this one.
        asked: digest of the opening.
        heads: what each holder vouches for, by name, as text.
    """

    name: str
    asked: str
    heads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RoundInbox:
    """Asks each question once, and keeps its sum. A server that was killed goes on with the sums that it has.

    A sum that is lost is not made again as soon as a later question was asked. With other holders present it would be
    another sum, and the same noise on both would give their difference away.

    Attributes:
        folder: of mode 0700; no epsilon covers what is in it.
        roll: who is expected.
        opening: the first question.
        exchange: has questions answered.
        monitor: told who is absent.
    """

    folder: Path
    roll: Roll
    opening: Question
    exchange: Exchange
    monitor: Monitor

    @cached_property
    def opened(self) -> dict[str, VoteManifest]:
        """What the holders that answered the opening vouch for."""
        return {name: VoteManifest.from_text(text) for name, text in self._opened.heads.items()}

    @property
    def digest(self) -> str:
        """Names the sums of this inbox. Covered by no epsilon."""
        return hashlib.sha256(to_json(self._opened).encode()).hexdigest()

    def sum(self, question: Question) -> Gathered:
        """The sum that answers a question, asked for where it is not there."""
        _ = self.opened
        path = self.folder / f"{question.kind}-{question.digest[:16]}.npz"
        if not os.path.lexists(path):
            self._log(path.name)
            found = self._asked(question)
            names = np.array(found.holders, dtype=np.str_)
            write_arrays(path, total=found.total, holders=names)
        kept = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)
        if kept["total"].shape != question.shape:
            raise damaged(path, "a sum as it was kept", "another shape", _REMEDY)
        return Gathered(kept["total"].astype(np.int64), tuple(kept["holders"].tolist()))

    @cached_property
    def _opened(self) -> _Opened:
        path = self.folder / "opening.json"
        make_folder(self.folder)
        if not os.path.lexists(path):
            found = self._asked(self.opening)
            heads = {name: head.to_text() for name, head in found.heads.items()}
            write_text(path, to_json(_Opened(secrets.token_hex(16), self.opening.asked, heads)) + "\n")
        rule = "what holders vouched for"
        try:
            kept = from_json(_Opened, read_text(path, rule=rule, remedy=_REMEDY), name="opening")
        except ValueError:
            raise damaged(path, rule, "other JSON", _REMEDY) from None
        rule = "those of the release; take another inbox for others"
        require(kept.asked == self.opening.asked, "inbox, samples", "others", rule)
        return kept

    def _asked(self, question: Question) -> Gathered:
        found = self.exchange(question)
        for line in found.refused.values():
            self.monitor.say(line)
        found.require_enough(self.roll)
        return found

    def _log(self, name: str) -> None:
        """Enters that a question is asked, before it is; the last one may be asked again."""
        path = self.folder / "asked.txt"
        rule = "the questions that were asked"
        asked = read_text(path, rule=rule, remedy=_REMEDY).split() if os.path.lexists(path) else []
        if name in asked[:-1]:
            raise InvalidValue(f"inbox={self.folder / name}: expected the sum that later questions rest on; {_REMEDY}")
        if name not in asked:
            write_text(path, "\n".join([*asked, name]) + "\n")
