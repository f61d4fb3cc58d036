"""The part of pate-release for holders: it reads vote files and sums, writes sums, and makes releases in rounds."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from pate.cli.monitor import ConsoleMonitor
from pate.cli.release import plan_of, print_terms, read_foreign_votes, release_and_print, vote_paths
from pate.errors import InvalidValue
from pate.files.paths import require_no_links
from pate.report.console import print_page
from pate.run.cohort import Cohort
from pate.validation import require
from pate.votes.source import VoteSource
from pate_federated.cohorts import cohort_of_votes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.mailbox import AnswersAwaited, Mailbox
from pate_federated.question import Roll
from pate_federated.rounds_of_holders import RoundsOfHolders
from pate_federated.vote_file import VoteFile, is_sum_file, is_vote_file, is_whole_archive

# The settings that only a release in rounds has.
_SETTINGS_OF_ROUNDS = ("roll", "max_absent", "mailbox", "wait", "num_queries")
_print_page = partial(
    print_page, "cli/release.txt", package_name="pate_federated", exception=None, sum_file=None
)


def release(config: DictConfig) -> None:
    """Makes or continues the release of a configuration, and prints its price and the next steps.

    With `roll=` the release is made in rounds, and with `sum=` no release is made but a file of summed votes.
    """
    if config.roll is not None:
        rule = "nothing beside roll=: holders are asked for sums, round after round"
        require(OmegaConf.is_missing(config, "votes"), "votes", config.get("votes"), rule)
        require(config.sum is None, "sum", config.sum, rule)
        require(config.public_answers is None, "public_answers", config.public_answers, rule)
        _release_in_rounds(config)
    elif config.sum is not None:
        _write_sum(config)
    else:
        plan, output_dir = plan_of(config, excluded_settings=("sum", *_SETTINGS_OF_ROUNDS))
        vote_source, cohort = read_votes(config)
        release_and_print(plan, vote_source=vote_source, cohort=cohort, output_dir=output_dir)


def read_votes(config: DictConfig) -> tuple[VoteSource, Cohort]:
    """Returns the votes in the files of a configuration, and the cohort of the holders that cast them.

    Raises `InvalidValue` if files of pate-vote and files of other projects are mixed.
    """
    paths = vote_paths(config)
    is_own = [is_vote_file(path) or is_sum_file(path) for path in paths]
    if any(is_own):
        rule = "answers of experts in votes=; files of pate-vote have no public answers"
        require(config.public_answers is None, "public_answers", config.public_answers, rule)
    if all(is_own):
        gathered = GatheredVotes.read(paths)
        num_teachers = gathered.num_teachers
        require(
            config.num_teachers in (None, num_teachers),
            "num_teachers",
            config.num_teachers,
            f"{num_teachers}, which these files hold",
        )
        return gathered, cohort_of_votes(gathered)
    if any(is_own):
        for path in paths:
            if not (is_vote_file(path) or is_sum_file(path) or is_whole_archive(path)):
                VoteFile.open(path)  # raises what is damaged
        rule = "files of pate-vote alone, or of other projects alone; this one is another than the first"
        other_path = paths[is_own.index(not is_own[0])]
        raise InvalidValue("votes", other_path, rule=rule)
    return read_foreign_votes(config, vote_files=paths)


def _write_sum(config: DictConfig) -> None:
    """Writes the sum of the votes in the files of a configuration to a file, which a later pate-release can read."""
    sum_path = Path(config.sum)
    require(sum_path.suffix == ".npz", "sum", sum_path, "a file that ends in .npz")
    paths_of_votes = vote_paths(config)
    is_new = sum_path.absolute() not in {path.absolute() for path in paths_of_votes}
    require(is_new, "sum", sum_path, "another name than those of the votes")
    sum_file = GatheredVotes.read(paths_of_votes).write(sum_path)
    _print_page(sum_file=sum_file, num_bytes=sum_path.stat().st_size)


def _release_in_rounds(config: DictConfig) -> None:
    """Reads the holders' answers from the mailbox, and releases round after round while enough answers are there.

    If too few are there, it prints the file of the question and ends.
    """
    plan, output_dir = plan_of(config, excluded_settings=("sum",))
    rule = "each holder and how many teachers it has, such as roll={north: 12, south: 12}"
    require(isinstance(config.roll, DictConfig), "roll", config.roll, rule)
    roll = Roll(
        holders={str(name): count for name, count in config.roll.items()},
        max_absent=config.max_absent,
    )
    if config.mailbox is None or plan.queries is None:
        rule = "a folder for questions and answers, and queries=FILE of the public samples, beside roll="
        raise InvalidValue("mailbox", config.mailbox, rule=rule)
    queries = plan.queries()
    mailbox = Path(config.mailbox)
    require_no_links(mailbox, name="mailbox")
    rule = "a file of public samples with label_names"
    require(len(queries.label_names) > 0, "queries.label_names", "none", rule)
    release_in_rounds = RoundsOfHolders(
        plan=plan,
        roll=roll,
        pool=queries.inputs,
        record_ids=queries.record_ids,
        label_names=queries.label_names,
        num_queries=config.num_queries,
        inbox=mailbox / "sums",
        output_dir=output_dir,
    )
    try:
        terms = release_in_rounds.run(
            exchange=Mailbox(folder=mailbox, roll=roll, wait_for_all=config.wait),
            monitor=ConsoleMonitor(),
        )
    except AnswersAwaited as exception:
        _print_page(exception=exception, num_holders=len(roll.holders))
    else:
        print_terms(terms, output_dir=output_dir, num_holders=len(roll.holders))
