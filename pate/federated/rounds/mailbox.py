"""Questions and answers as files that people carry: a folder in place of a network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pate.federated.contribution import Contribution
from pate.federated.roll import Roll
from pate.federated.rounds.gathering import Gathered, gathered
from pate.federated.rounds.question import Question
from pate.federated.rounds.sum_answer import most_bytes
from pate.files.atomic import is_regular, make_folder, replacing


class AnswersAwaited(Exception):
    """A question is out and answers to it are not there yet.

    Attributes:
        question: the file that goes to the holders.
        answers: the folder that their answers go to, as HOLDER.npz.
        missing: holders that have not answered.
    """

    def __init__(self, question: Path, answers: Path, missing: tuple[str, ...]) -> None:
        super().__init__(f"{question}: {len(missing)} holders have not answered")
        self.question, self.answers, self.missing = question, answers, missing


@dataclass(frozen=True)
class Mailbox:
    """An exchange: writes a question to `questions/NAME.npz`, and reads `answers/NAME/HOLDER.npz`.

    Attributes:
        folder: of both, of mode 0700.
        roll: who is expected.
        wait: whether all of them are waited for; else `max_absent` of them may stay away.
    """

    folder: Path
    roll: Roll
    wait: bool = True

    def __call__(self, question: Question) -> Gathered:
        """The sum of the answers that are there; raises `AnswersAwaited` where they are too few."""
        name = f"{question.kind}-{question.digest[:16]}"
        sent, answers = self.folder / "questions" / f"{name}.npz", self.folder / "answers" / name
        make_folder(sent.parent)
        make_folder(answers)
        if not os.path.lexists(sent):
            with replacing(sent) as file:
                file.write(question.to_bytes())
        there = {path.stem for path in answers.glob("*.npz")}
        missing = tuple(holder for holder in self.roll.holders if holder not in there)
        if len(missing) > (0 if self.wait else self.roll.max_absent):
            raise AnswersAwaited(sent, answers, missing)
        return gathered(self.roll, question, [self._read(answers, name, question) for name in sorted(there)])

    def _read(self, answers: Path, name: str, question: Question) -> Contribution:
        """The answer of a holder; files of strangers, pipes, folders and files that are too large are not read."""
        path, most = answers / f"{name}.npz", most_bytes(question)
        if name not in self.roll.holders:
            return Contribution(name)
        if not is_regular(path) or path.stat().st_size > most:
            return Contribution(name, problem=f"expected a file of at most {most} bytes, as pate-vote writes it")
        return Contribution(name, path.read_bytes())
