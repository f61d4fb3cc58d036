"""pate-release: at the aggregator, from vote files to a release that may be published."""

import glob
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate.aggregators import Aggregator
from pate.cli.app import run_app
from pate.cli.run import BESIDE, PRIVATE, ConsoleMonitor, default_folder, maker, plain_settings
from pate.config import CONFIG_FOLDER
from pate.config.command_line import given_settings
from pate.config.published import release_settings, told_settings
from pate.federated import Roll, RoundsOfHolders
from pate.federated.rounds_release import AnswersAwaited, Mailbox
from pate.files.disk import require_no_links
from pate.report import format_delta, format_epsilon
from pate.report.console import print_lines
from pate.run.places import Places
from pate.run.stages.queries import Queries
from pate.run.stages.release import Cohort, ReleasePlan, Terms, release_votes
from pate.validation import InvalidValue, as_setting, require
from pate.votes.foreign import ForeignVotes
from pate.votes.vote_file import GatheredVotes, VoteFile, is_sum_file, is_vote_file, is_whole_archive

_OF_ROUNDS = ("roll", "max_absent", "mailbox", "wait", "num_queries")
_OF_THE_PLAN = ("target_delta", "target_epsilon", "max_total_epsilon", "redraw", "allow_useless", "seed")
_BESIDE = (*BESIDE, "mailbox", "wait")
_SHOWN = 5
_RULE = "a vote file of each holder: votes='votes/*.npz', or votes=FILE, or votes=[FILE,FILE]"


def release(config: DictConfig) -> None:
    """Releases the configured votes, or continues, and says what it cost and what comes next."""
    aggregator = maker(config)("aggregator")
    in_rounds = config.roll is not None
    if in_rounds:
        rule = "nothing beside roll=: holders are asked for sums, round after round"
        require(OmegaConf.is_missing(config, "votes"), "votes", config.get("votes"), rule)
        require(config.sum is None, "sum", config.sum, rule)
    elif config.sum is not None:
        _write_sum(config)
        return
    votes, cohort = (None, None) if in_rounds else read_votes(config)
    settings = plain_settings(config, ("sum",) if in_rounds else ("sum", *_OF_ROUNDS))  # all that it depends on
    kept = {key: value for key, value in settings.items() if key not in _BESIDE}
    name = str(config.aggregator._target_).rpartition(".")[2]
    output_dir = Path(config.output_dir or default_folder("release", name, settings=kept))
    plan = _plan(config, settings, aggregator)
    if votes is None or cohort is None:
        _release_in_rounds(config, plan, output_dir)
    else:
        _print(release_votes(plan, votes, cohort, output_dir, ConsoleMonitor()), cohort.places, output_dir)


def _release_in_rounds(config: DictConfig, plan: ReleasePlan, output_dir: Path) -> None:
    """One call of pate-release: reads the answers that are there, and goes on as far as it can."""
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
        terms = release.run(Mailbox(mailbox, roll, config.wait), ConsoleMonitor())
    except AnswersAwaited as awaited:
        shown = ", ".join(awaited.missing[:_SHOWN]) + (", …" if len(awaited.missing) > _SHOWN else "")
        print_lines(
            f"{awaited.question}: send it to the holders; each runs pate-vote question=FILE output=HOLDER.npz",
            f"{awaited.answers}: put their answers there, then the same command goes on; {len(awaited.missing)} of "
            f"{len(roll.holders)} are missing: {shown}",
        )
    else:
        _print(terms, Places.of(roll.holders), output_dir)


def _write_sum(config: DictConfig) -> None:
    """Adds up the votes of some holders, for an aggregator of a later level."""
    path = Path(config.sum)
    require(path.suffix == ".npz", "sum", path, "a file that ends in .npz")
    paths = _paths(config)
    rule = "another name than those of the votes"
    require(all(path.absolute() != each.absolute() for each in paths), "sum", path, rule)
    file = GatheredVotes.read(paths).write(path)
    print_lines(
        f"{path}: the votes of {len(file.heads)} holders, {file.num_teachers} teachers, added up "
        f"({path.stat().st_size:,} bytes)",
        PRIVATE,
    )


def read_votes(config: DictConfig) -> tuple[GatheredVotes | ForeignVotes, Cohort]:
    """The files that a configuration names, as one source, and who is behind them."""
    paths = _paths(config)
    own = [is_vote_file(path) or is_sum_file(path) for path in paths]
    if all(own):
        gathered = GatheredVotes.read(paths)
        return gathered, Cohort.of_files(gathered)
    if any(own):
        for path, known in zip(paths, own, strict=True):
            if not (known or is_whole_archive(path)):
                VoteFile.open(path)  # which says how it is damaged
        rule = "files of pate-vote alone, or of other projects alone; this one is another than the first"
        raise InvalidValue(f"votes={paths[own.index(not own[0])]}: expected {rule}")
    foreign = ForeignVotes(paths, layout=config.layout, num_teachers=config.num_teachers)
    return foreign, Cohort.of_others(foreign, config.name)


def _paths(config: DictConfig) -> list[Path]:
    if OmegaConf.is_missing(config, "votes") or config.votes is None:
        raise InvalidValue(f"votes=???: expected {_RULE}")
    named = list(config.votes) if isinstance(config.votes, ListConfig) else [config.votes]
    found = []
    for name in map(str, named):
        matching = [name] if Path(name).is_file() else sorted(glob.glob(name))
        require(len(matching) > 0, "votes", name, f"{_RULE}; no file has this name")
        found += [Path(each) for each in matching]
    return found


def _plan(config: DictConfig, settings: dict[str, Any], aggregator: Aggregator) -> ReleasePlan:
    make, hydra = maker(config), HydraConfig.get()
    chosen = hydra.runtime.choices.get("aggregator")
    own = "aggregator._target_" in given_settings(hydra.overrides.task)
    ships = chosen and not own and (CONFIG_FOLDER / "aggregator" / f"{chosen}.yaml").is_file()

    def config_yaml(aggregator: Aggregator, cohort: Cohort, *, num_queries: int, num_teachers: int) -> str:
        shape = {"num_queries": num_queries, "num_teachers": num_teachers}
        return release_settings(told, aggregator, cohort.settings, **shape)

    told, queries = told_settings(config, settings), None
    if config.queries is not None:
        schema = None if config.table_schema is None else Path(config.table_schema)
        queries = partial(Queries.read, Path(config.queries), schema=schema)
    return ReleasePlan(
        aggregator=aggregator,
        aggregator_name=chosen if ships else None,
        accountant=lambda: make("accountant"),
        student=make("student"),
        queries=queries,
        ledger=None if config.ledger is None else Path(config.ledger),
        **{name: config[name] for name in _OF_THE_PLAN},
        settings={name: value for name, value in settings.items() if name not in _BESIDE},
        public_settings=config_yaml,
    )


def _print(terms: Terms, places: Places | None, output_dir: Path) -> None:
    privacy, summary = terms.privacy, terms.release
    count = 0 if places is None else places.num_holders
    holders = f"{count} holder{'s' * (count != 1)}, " * bool(count)
    print_lines(
        f"{output_dir / 'release'}: {summary.num_answered} of {summary.num_queries} queries answered, "
        f"{terms.num_labels} labels, by {holders}{terms.num_teachers} teachers",
        f"epsilon {format_epsilon(privacy.epsilon)} at delta {format_delta(privacy.delta)}, {privacy.adjacency}: "
        f"{privacy.unit}; release/privacy_card.md says whom that covers",
        f"next: pate-student {as_setting('release', output_dir)} queries=FILE; the vote files stay private, or are "
        "deleted",
    )


main = partial(run_app, release, "release")

if __name__ == "__main__":
    main()
