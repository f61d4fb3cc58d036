"""A transport of questions and answers by files."""

import os
from dataclasses import dataclass
from pathlib import Path

from pate.files.atomic import atomic_write
from pate.files.paths import is_regular, make_folder
from pate_federated.question import Contribution, Question, Roll
from pate_federated.sum_of_answers import SumOfAnswers, sum_of_answers


class AnswersAwaited(Exception):
    """An exception that ends a call: a question has been written for the holders, and too few answers have arrived.

    Attributes:
        question_file: the file of the question.
        answer_folder: the folder for the answers, in files HOLDER.npz.
        missing_holders: the names of the holders without an answer.
    """

    def __init__(
        self, question_file: Path, answer_folder: Path, missing_holders: tuple[str, ...]
    ) -> None:
        super().__init__(f"{question_file}: {len(missing_holders)} holders have not answered")
        self.question_file = question_file
        self.answer_folder = answer_folder
        self.missing_holders = missing_holders


@dataclass(frozen=True)
class Mailbox:
    """A transport of questions and answers by files.

    Questions are written to `questions/NAME.npz`, and answers are read from `answers/NAME/HOLDER.npz`.

    Attributes:
        folder: the folder of questions and answers, of mode 0700.
        roll: the expected holders.
        wait_for_all: whether to end the call while any answer is missing. If not, the call continues without up to
            `roll.max_absent` holders.
    """

    folder: Path
    roll: Roll
    wait_for_all: bool = True

    def __call__(self, question: Question) -> SumOfAnswers:
        """Writes the question, and returns the sum of the valid answers that have arrived.

        Raises `AnswersAwaited` if the file of any holder is missing, or without `wait_for_all` if those of more than
        `roll.max_absent` are. A file whose answer is not valid is not missing.
        """
        question_path = self.folder / "questions" / f"{question.name}.npz"
        answer_folder = self.folder / "answers" / question.name
        make_folder(question_path.parent)
        make_folder(answer_folder)
        if not os.path.lexists(question_path):
            with atomic_write(question_path) as file:
                file.write(question.to_bytes())
        path_of_holder = {path.stem: path for path in sorted(answer_folder.glob("*.npz"))}
        missing_holders = tuple(
            holder for holder in self.roll.holders if holder not in path_of_holder
        )
        if len(missing_holders) > (0 if self.wait_for_all else self.roll.max_absent):
            raise AnswersAwaited(
                question_file=question_path,
                answer_folder=answer_folder,
                missing_holders=missing_holders,
            )
        most_bytes = question.most_bytes
        problem = f"expected a file of at most {most_bytes} bytes, as pate-vote writes it"

        def read_contribution(holder: str, path: Path) -> Contribution:
            """Reads the answer of a holder from a file.

            The answer has a problem and no votes if the name is not on the roll, or the file is too large or no file.
            """
            is_known = holder in self.roll.holders
            is_usual = is_known and is_regular(path) and path.stat().st_size <= most_bytes
            return Contribution(
                holder=holder, votes=path.read_bytes() if is_usual else None, problem=problem
            )

        unchecked_answers = [
            read_contribution(holder, path) for holder, path in path_of_holder.items()
        ]
        return sum_of_answers(self.roll, question=question, unchecked_answers=unchecked_answers)
