"""pate-vote: trains a holder's teachers on its records, and writes their votes to a file."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.named import require_named
from pate.cli.run_settings import make_dataset_loader, plain_settings
from pate.config.build import part_maker
from pate.config.published import holder_settings, without_outside_values
from pate.files.atomic import atomic_write
from pate.files.paths import make_folder, require_no_links
from pate.report.console import print_page
from pate.settings import changeable_names
from pate.validation import require
from pate_federated import Question, answer_question
from pate_federated.asked_data import AskedData
from pate_federated.holder import opening_of, write_queries_file
from pate_federated.vote_casting import HolderPlan, cast_vote_file

# The settings that have to be named, and what they are.
_RULES = {
    "holder": "the name of this place, which no other has, such as holder=hospital_3; a number from 1 beside holders=",
    "output": "the vote file to write, such as votes/3.npz",
}
_print_page = partial(print_page, "cli/vote.txt", package_name="pate_federated", question=None)


def vote(config: DictConfig) -> None:
    """Makes or continues the vote file of a configuration, and prints its content and who may have it.

    With `question=` it writes the answer to this question of a release in rounds instead.
    """
    require_named(config, rules=_RULES)
    output = Path(str(config.output))
    monitor = ConsoleMonitor()
    if config.question is not None:
        _answer_question(config, answer_path=output, monitor=monitor)
        return
    output_dir = Path(config.output_dir or output.with_suffix(".work"))
    plan = _holder_plan(config, output_dir=output_dir, monitor=monitor)
    vote_file = cast_vote_file(plan, output=output, output_dir=output_dir, monitor=monitor)
    vote_head = vote_file.manifest
    _print_page(
        output=output,
        holder=vote_head.holder,
        head=vote_head,
        num_bytes=output.stat().st_size,
        folder=output_dir,
    )


def _holder_plan(
    config: DictConfig, *, output_dir: Path, monitor: ConsoleMonitor, queries: Path | None = None
) -> HolderPlan:
    """Returns the holder's plan in a configuration.

    Args:
        config: the configuration.
        output_dir: the folder of partition and teachers.
        monitor: displays the progress.
        queries: a file of queries that replaces the setting of that name; None for the setting.
    """
    build_part = part_maker(config)
    data_reader = build_part("data")
    queries_path = queries or config.queries
    if queries_path is not None:
        data_reader = AskedData(data_reader, queries_path=Path(queries_path))
    num_simulated_holders = config.holders
    settings = plain_settings(config, excluded_settings=changeable_names("vote"))
    return HolderPlan(
        load_dataset=make_dataset_loader(
            data_reader,
            monitor=monitor,
            feature_recipe=build_part("features"),
            output_dir=output_dir,
        ),
        teacher=build_part("teacher"),
        engine=build_part("engine"),
        num_teachers=config.teacher.num_teachers,
        holder=str(config.holder),
        holders=num_simulated_holders,
        num_queries=config.num_queries,
        cast=config.cast,
        vote_clip=config.vote_clip,
        seed=config.seed,
        settings=settings,
        queries=None if queries_path is None else str(queries_path),
        public_settings=holder_settings(without_outside_values(config, settings=settings)),
    )


def _answer_question(config: DictConfig, *, answer_path: Path, monitor: ConsoleMonitor) -> None:
    """Writes a holder's answer to one question of the server into a file, and prints a page on it.

    A question asks every holder for a sum over its teachers. A release in rounds has many questions.

    Args:
        config: the configuration, which names the file of the question.
        answer_path: the file that the answer is written to.
        monitor: displays the progress.

    Raises:
        InvalidValue: the configuration lacks `output_dir`, has `queries` or `num_queries`, or names no file as
            question; the answer's file is not named after the holder; or the holder cannot answer.
    """
    rule = "the folder of this place's teachers, the same for all questions of a release"
    require(config.output_dir is not None, "output_dir", config.output_dir, rule)
    for name in ("queries", "num_queries"):
        require(
            config[name] is None,
            name,
            config[name],
            "nothing beside question=, whose opening brought samples",
        )
    folder = Path(config.output_dir)
    question_path = Path(config.question)
    require(
        question_path.is_file(),
        "question",
        question_path,
        "a file of pate-release, from its mailbox's questions/",
    )
    question = Question.from_bytes(question_path.read_bytes())
    require_no_links(make_folder(folder), name="output_dir")
    queries_path = write_queries_file(
        request=opening_of(question, holder_folder=folder), folder=folder / question.asked[:16]
    )
    plan = _holder_plan(config, output_dir=folder, monitor=monitor, queries=queries_path)
    require(
        answer_path.stem == plan.holder,
        "output",
        answer_path,
        f"{plan.holder}.npz, the name of this holder",
    )
    answer_bytes = answer_question(plan, question=question, folder=folder, monitor=monitor)
    make_folder(answer_path.parent)
    with atomic_write(answer_path) as file:
        file.write(answer_bytes)
    _print_page(
        output=answer_path,
        holder=plan.holder,
        question=question,
        num_bytes=len(answer_bytes),
        folder=folder,
    )


main = command_of(vote, command="vote")


if __name__ == "__main__":
    main()
