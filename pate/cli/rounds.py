"""Rounds by files: what pate-release and pate-vote do where holders are asked again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from pate.cli.lines import PRIVATE, print_lines
from pate.cli.progress import ConsoleMonitor
from pate.federated import Roll
from pate.federated.answer import queries_file
from pate.federated.rounds import Question, RoundsOfHolders, answer_question
from pate.federated.rounds.holder import opening_of
from pate.federated.rounds.mailbox import AnswersAwaited, Mailbox
from pate.files.atomic import make_folder, replacing, require_no_links
from pate.run.stages.holder import HolderPlan
from pate.run.stages.release import ReleasePlan
from pate.run.stages.terms import Terms
from pate.validation import InvalidValue, require

_SHOWN = 5


def release_in_rounds(config: DictConfig, plan: ReleasePlan, output_dir: Path) -> tuple[Terms, Roll] | None:
    """One call of pate-release: reads the answers that are there, and goes on as far as it can.

    Returns:
        The terms and who took part; None where answers are awaited, which is said.
    """
    rule = "each holder and how many teachers it has, such as roll={north: 12, south: 12}"
    require(isinstance(config.roll, DictConfig), "roll", config.roll, rule)
    roll = Roll({str(name): count for name, count in config.roll.items()}, config.max_absent)
    if config.mailbox is None or plan.queries is None:
        rule = "a folder for questions and answers, and queries=FILE of the public samples, beside roll="
        raise InvalidValue(f"mailbox={config.mailbox}: expected {rule}")
    queries, mailbox = plan.queries(), Path(config.mailbox)
    require_no_links(mailbox, "mailbox")
    rule = "a file of public samples with label_names"
    require(len(queries.label_names) > 0, "queries.label_names", "none", rule)
    release = RoundsOfHolders(
        plan=plan,
        roll=roll,
        pool=np.asarray(queries.inputs, dtype=np.float32),
        record_ids=queries.record_ids,
        label_names=queries.label_names,
        num_queries=config.num_queries,
        inbox=mailbox / "sums",
        output_dir=output_dir,
    )
    try:
        return release.run(Mailbox(mailbox, roll, config.wait), ConsoleMonitor()), roll
    except AnswersAwaited as awaited:
        _say_awaited(awaited, roll)
        return None


def read_question(path: Path) -> Question:
    """The question that is to be answered."""
    require(path.is_file(), "question", path, "a file of pate-release, from its mailbox's questions/")
    return Question.from_bytes(path.read_bytes())


def queries_of(question: Question, output_dir: Path) -> Path:
    """The file of the samples that its opening brought."""
    require_no_links(make_folder(output_dir), "output_dir")
    opening = opening_of(question, output_dir)
    return queries_file(opening, output_dir / question.asked[:16])


def answer_in_rounds(plan: HolderPlan, question: Question, output: Path, output_dir: Path) -> None:
    """One call of pate-vote: the answer to one question."""
    require(output.stem == plan.holder, "output", output, f"{plan.holder}.npz, the name of this holder")
    answer = answer_question(plan, question, output_dir, ConsoleMonitor())
    make_folder(output.parent)
    with replacing(output) as file:
        file.write(answer)
    print_lines(
        f"{output}: the sum over the teachers of holder {plan.holder} ({len(answer):,} bytes)",
        PRIVATE,
        f"{output_dir}: teachers and partition, which stay here, for the next question",
    )


def _say_awaited(awaited: AnswersAwaited, roll: Roll) -> None:
    shown = ", ".join(awaited.missing[:_SHOWN]) + (", …" if len(awaited.missing) > _SHOWN else "")
    print_lines(
        f"{awaited.question}: send it to the holders; each runs pate-vote question=FILE output=HOLDER.npz",
        f"{awaited.answers}: put their answers there, then the same command goes on; {len(awaited.missing)} of "
        f"{len(roll.holders)} are missing: {shown}",
    )
