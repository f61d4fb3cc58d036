"""pate-release: at the aggregator, from vote files to a release that may be published."""

from pate.extras import require_extra

require_extra("pate-release", "train")


import glob
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate.aggregators import Aggregator
from pate.cli import run
from pate.cli.app import command_of
from pate.config.build import part_maker
from pate.config.published import release_settings, told_settings
from pate.federated import Roll, RoundsOfHolders
from pate.federated.summed_release import AnswersAwaited, Mailbox
from pate.files.disk import require_no_links
from pate.report.console import print_page
from pate.run.stages.cohort import Cohort
from pate.run.stages.queries import Queries
from pate.run.stages.release import ReleasePlan, release_votes
from pate.settings import NoiseSettings, ReleaseSettings, names_with, values_of
from pate.validation import InvalidValue, as_setting, require
from pate.votes.foreign import ForeignVotes
from pate.votes.shape import VoteShape
from pate.votes.vote_file import (
    GatheredVotes,
    VoteFile,
    is_sum_file,
    is_vote_file,
    is_whole_archive,
)

_OF_ROUNDS = ("roll", "max_absent", "mailbox", "wait", "num_queries")
_BESIDE_RELEASE = names_with("beside_release", "release")
_print = partial(print_page, "cli/release.txt", as_setting=as_setting, awaited=None, sum=None)
_RULE = "a vote file of each holder: votes='votes/*.npz', or votes=FILE, or votes=[FILE,FILE]"


def release(config: DictConfig) -> None:
    """Releases the configured votes, or continues, and says what it cost and what comes next."""
    aggregator = part_maker(config)("aggregator")
    if config.roll is not None:
        rule = "nothing beside roll=: holders are asked for sums, round after round"
        require(OmegaConf.is_missing(config, "votes"), "votes", config.get("votes"), rule)
        require(config.sum is None, "sum", config.sum, rule)
        settings = run.plain_settings(config, ("sum",))
        plan = _plan(config, settings, aggregator)
        _release_in_rounds(config, plan, _output_dir(config, settings))
    elif config.sum is not None:
        _write_sum(config)
    else:
        votes, cohort = read_votes(config)
        settings = run.plain_settings(config, ("sum", *_OF_ROUNDS))
        output_dir = _output_dir(config, settings)
        plan = _plan(config, settings, aggregator)
        terms = release_votes(plan, votes, cohort, output_dir, run.ConsoleMonitor())
        num_holders = 0 if cohort.places is None else cohort.places.num_holders
        _print(terms=terms, num_holders=num_holders, folder=output_dir)


def _output_dir(config: DictConfig, settings: dict[str, Any]) -> Path:
    """Returns the folder of a release: the one that is named, or one named after all that the release depends on."""
    if config.output_dir:
        return Path(config.output_dir)
    name = str(config.aggregator._target_).rpartition(".")[2]
    return Path(run.default_folder("release", name, settings=_of_release(settings)))


def _of_release(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that the release depends on."""
    return {name: value for name, value in settings.items() if name not in _BESIDE_RELEASE}


def _write_sum(config: DictConfig) -> None:
    """Adds the votes of some holders up, for an aggregator of a later level."""
    path = Path(config.sum)
    require(path.suffix == ".npz", "sum", path, "a file that ends in .npz")
    vote_paths = _paths(config)
    is_new = path.absolute() not in {vote_path.absolute() for vote_path in vote_paths}
    require(is_new, "sum", path, "another name than those of the votes")
    file = GatheredVotes.read(vote_paths).write(path)
    _print(sum=path, file=file, size=path.stat().st_size)


def _release_in_rounds(config: DictConfig, plan: ReleasePlan, output_dir: Path) -> None:
    """Reads the answers of holders that are there, and goes on as far as they allow: one call of pate-release."""
    rule = "each holder and how many teachers it has, such as roll={north: 12, south: 12}"
    require(isinstance(config.roll, DictConfig), "roll", config.roll, rule)
    roll = Roll({str(name): count for name, count in config.roll.items()}, config.max_absent)
    if config.mailbox is None or plan.queries is None:
        rule = "a folder for questions and answers, and queries=FILE of the public samples, beside roll="
        raise InvalidValue("mailbox", config.mailbox, rule=rule)
    queries = plan.queries()
    mailbox = Path(config.mailbox)
    require_no_links(mailbox, "mailbox")
    rule = "a file of public samples with label_names"
    require(len(queries.label_names) > 0, "queries.label_names", "none", rule)
    release = RoundsOfHolders(
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
        terms = release.run(Mailbox(mailbox, roll, config.wait), run.ConsoleMonitor())
    except AnswersAwaited as awaited:
        _print(awaited=awaited, num_holders=len(roll.holders))
    else:
        _print(terms=terms, num_holders=len(roll.holders), folder=output_dir)


def read_votes(config: DictConfig) -> tuple[GatheredVotes | ForeignVotes, Cohort]:
    """Reads the files that a configuration names: their votes as one source, and who cast them."""
    paths = _paths(config)
    is_own = [is_vote_file(path) or is_sum_file(path) for path in paths]
    if all(is_own):
        gathered = GatheredVotes.read(paths)
        num_teachers = gathered.num_teachers
        require(
            config.num_teachers in (None, num_teachers),
            "num_teachers",
            config.num_teachers,
            f"{num_teachers}, which these files hold",
        )
        return gathered, Cohort.of_files(gathered)
    if any(is_own):
        for path, own in zip(paths, is_own, strict=True):
            if not (own or is_whole_archive(path)):
                VoteFile.open(path)  # which says how it is damaged
        rule = "files of pate-vote alone, or of other projects alone; this one is another than the first"
        other = paths[is_own.index(not is_own[0])]
        raise InvalidValue("votes", other, rule=rule)
    foreign = ForeignVotes(paths, layout=config.layout, num_teachers=config.num_teachers)
    return foreign, Cohort.of_others(foreign, config.name)


def _paths(config: DictConfig) -> list[Path]:
    """Returns the vote files that a configuration names, or matches by a pattern; raises where there is none."""
    if OmegaConf.is_missing(config, "votes") or config.votes is None:
        raise InvalidValue("votes", "???", rule=_RULE)
    names = list(config.votes) if isinstance(config.votes, ListConfig) else [config.votes]
    paths: list[Path] = []
    for name in map(str, names):
        matching = [name] if Path(name).is_file() else sorted(glob.glob(name))
        require(len(matching) > 0, "votes", name, f"{_RULE}; no file has this name")
        paths += map(Path, matching)
    return paths


def _plan(config: DictConfig, settings: dict[str, Any], aggregator: Aggregator) -> ReleasePlan:
    """Makes the plan of a configuration."""
    make = part_maker(config)
    hydra = HydraConfig.get()
    heading = run.run_heading(
        settings,
        hydra.overrides.task,
        hydra.runtime.choices,
        beside_release=_BESIDE_RELEASE,
    )

    told = told_settings(config, settings)

    def config_yaml(aggregator: Aggregator, cohort: Cohort, shape: VoteShape) -> str:
        return release_settings(
            told,
            aggregator,
            cohort.settings,
            num_queries=shape.num_queries,
            num_teachers=shape.num_teachers,
        )

    terms = run.settings_from(config, NoiseSettings)
    queries = None
    if config.queries is not None:
        queries = partial(Queries.read, Path(config.queries), schema=config.table_schema)
    return ReleasePlan(
        aggregator=aggregator,
        aggregator_name=heading.aggregator if heading.is_public else None,
        accountant=lambda: make("accountant"),
        student=make("student"),
        queries=queries,
        target_epsilon=terms.solved_epsilon,
        **values_of(terms, ReleaseSettings, without=("target_epsilon",)),
        settings=_of_release(settings),
        public_settings=config_yaml,
    )


main = command_of(release, "release", __name__)
