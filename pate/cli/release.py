"""pate-release: releases labels from votes that were cast elsewhere."""

from pate.extras import how_to_install_federated, require_extra

require_extra("pate-release", "train")


import glob
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate.aggregators import Aggregator, CenteredVotes
from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.run_settings import default_folder, plain_settings, run_heading, settings_from
from pate.config.build import part_maker
from pate.config.published import release_settings, without_outside_values
from pate.errors import MissingPackage
from pate.files.archives import holds_member
from pate.package_commands import package_commands
from pate.report.console import print_page
from pate.run.cohort import Cohort
from pate.run.queries import Queries
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.settings import NoiseSettings, ReleaseSettings, changeable_names, values_of
from pate.validation import InvalidValue, as_setting
from pate.votes.expert_answers import ExpertAnswers
from pate.votes.foreign import ForeignVotes
from pate.votes.public_answers import PublicAnswers
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

# The rule for the setting `votes`.
_RULE = "a vote file of each holder: votes='votes/*.npz', or votes=FILE, or votes=[FILE,FILE]"
# The array in a file of experts' answers.
_EXPERTS_MEMBER = "answers"
# Only vote files of pate-vote, and sums of such files, have these arrays.
_HOLDERS_MEMBERS = ("manifest", "sum_heads")


def release(config: DictConfig) -> None:
    """Releases labels from the configured votes, or continues a release, and prints its price and the next steps."""
    release_plan, output_dir = plan_of(config)
    vote_files = vote_paths(config)
    for vote_file in vote_files:
        if any(holds_member(vote_file, array_name=name) for name in _HOLDERS_MEMBERS):
            rule = f"the package pate-federated, which reads files of pate-vote: {how_to_install_federated()}"
            raise MissingPackage("votes", vote_file, rule=rule)
    foreign_votes, holder_cohort = read_foreign_votes(config, vote_files=vote_files)
    release_and_print(
        release_plan, vote_source=foreign_votes, cohort=holder_cohort, output_dir=output_dir
    )


def release_and_print(
    release_plan: ReleasePlan, *, vote_source: VoteSource, cohort: Cohort, output_dir: Path
) -> None:
    """Releases labels from votes by `release_votes`, and prints the terms of the release.

    Args:
        release_plan: the plan of the release.
        vote_source: yields the votes.
        cohort: the public facts about the holders who cast the votes.
        output_dir: the folder of the release.
    """
    release_terms = release_votes(
        release_plan,
        vote_source=vote_source,
        cohort=cohort,
        output_dir=output_dir,
        monitor=ConsoleMonitor(),
    )
    num_holders = 0 if cohort.places is None else cohort.places.num_holders
    print_terms(release_terms, output_dir=output_dir, num_holders=num_holders)


def print_terms(release_terms: Terms, *, output_dir: Path, num_holders: int) -> None:
    """Prints the number of answers and the price of a release.

    Args:
        release_terms: the terms of the release.
        output_dir: the folder of the release.
        num_holders: the number of holders, the owners of records who cast the votes; with 0, no line on them is
            printed.
    """
    print_page(
        "cli/release.txt",
        terms=release_terms,
        num_holders=num_holders,
        folder=output_dir,
        as_setting=as_setting,
        lacking=None if "student" in package_commands() else how_to_install_federated(),
    )


def vote_paths(config: DictConfig) -> list[Path]:
    """Returns the vote files that the setting `votes` names or that match its pattern.

    Raises:
        InvalidValue: there is no such file.
    """
    if OmegaConf.is_missing(config, "votes") or config.votes is None:
        raise InvalidValue("votes", "???", rule=_RULE)
    names_and_patterns = (
        list(config.votes) if isinstance(config.votes, ListConfig) else [config.votes]
    )
    vote_files: list[Path] = []
    for name_or_pattern in map(str, names_and_patterns):
        matching_names = (
            [name_or_pattern]
            if Path(name_or_pattern).is_file()
            else sorted(glob.glob(name_or_pattern))
        )
        if not matching_names:
            raise InvalidValue("votes", name_or_pattern, rule=f"{_RULE}; no file has this name")
        vote_files += map(Path, matching_names)
    return vote_files


def read_foreign_votes(
    config: DictConfig, *, vote_files: list[Path]
) -> tuple[ForeignVotes | ExpertAnswers, Cohort]:
    """Reads vote files that are not of pate-vote, and returns the votes as one source and what is public of the voters.

    With `public_answers=FILE` the files are answers of experts, that is, of models with private examples in their
    prompts, and FILE has the answers of a model without any.

    Args:
        config: the composed configuration.
        vote_files: the vote files.
    """
    if config.public_answers is not None:
        if config.layout != "auto":
            raise InvalidValue("layout", config.layout, rule="none beside public_answers=")
        expert_answers = ExpertAnswers(vote_files, public=PublicAnswers.read(config.public_answers))
        num_experts = expert_answers.num_teachers
        if config.num_teachers not in (None, num_experts):
            rule = f"{num_experts}, the experts in the files"
            raise InvalidValue("num_teachers", config.num_teachers, rule=rule)
        return expert_answers, Cohort.of_experts(expert_answers, dataset_name=config.name)
    for vote_file in vote_files:
        if holds_member(vote_file, array_name=_EXPERTS_MEMBER):
            rule = (
                f"the file of a public model's answers, beside answers of experts such as {vote_file}; votes without "
                "public answers are an array named votes"
            )
            raise InvalidValue("public_answers", None, rule=rule)
    foreign_votes = ForeignVotes(vote_files, layout=config.layout, num_teachers=config.num_teachers)
    return foreign_votes, Cohort.of_others(foreign_votes=foreign_votes, dataset_name=config.name)


def plan_of(
    config: DictConfig, *, excluded_settings: Collection[str] = ()
) -> tuple[ReleasePlan, Path]:
    """Returns the plan of a configured release, and the folder of the release.

    The folder is `output_dir`, or a folder named after all settings that affect the release.

    Args:
        config: the composed configuration.
        excluded_settings: the names of settings that are left out of the plan's `settings` and the folder's name.
    """
    build_part = part_maker(config)
    settings = plain_settings(config, excluded_settings=excluded_settings)
    changeable_setting_names = changeable_names("release")
    deciding_settings = {
        name: value for name, value in settings.items() if name not in changeable_setting_names
    }
    hydra = HydraConfig.get()
    heading_values = run_heading(
        settings,
        overrides=hydra.overrides.task,
        chosen_member_of_group=hydra.runtime.choices,
        changeable_names=changeable_setting_names,
    )
    published_settings = without_outside_values(config, settings)

    def make_release_config_text(
        aggregator: Aggregator, cohort: Cohort, vote_shape: VoteShape
    ) -> str:
        return release_settings(
            published_settings,
            aggregator,
            settings_of_holders=cohort.settings_of_holders,
            public_answers_digest=cohort.public_answers_digest,
            num_queries=vote_shape.num_queries,
            num_teachers=vote_shape.num_teachers,
        )

    noise_settings = settings_from(config, settings_class=NoiseSettings)
    aggregator = build_part("aggregator")
    if config.public_answers is not None:
        if not isinstance(aggregator, CenteredVotes):
            rule = "centered_votes beside public_answers="
            raise InvalidValue("aggregator", type(aggregator).__name__, rule=rule)
        public_model_answers = PublicAnswers.read(config.public_answers)
        aggregator = aggregator.around(public_model_answers.probabilities)
    read_queries = None
    if config.queries is not None:
        table_schema_file = config.table_schema
        read_queries = partial(Queries.read, Path(config.queries), schema=table_schema_file)
    plan = ReleasePlan(
        aggregator=aggregator,
        aggregator_name=heading_values.aggregator_name if heading_values.is_public else None,
        accountant=partial(build_part, "accountant"),
        student=build_part("student"),
        queries=read_queries,
        target_epsilon=noise_settings.solved_epsilon,
        # The fields of `ReleaseSettings`, whose names are listed in `pate/settings.py` alone. `target_epsilon` is left
        # out: the plan has the epsilon above, which is None where the noise is given.
        **values_of(
            settings=noise_settings,
            settings_class=ReleaseSettings,
            omitted_names=("target_epsilon",),
        ),
        settings=deciding_settings,
        make_release_config_text=make_release_config_text,
    )
    return plan, _output_dir(config, deciding_settings=deciding_settings)


def _output_dir(config: DictConfig, deciding_settings: dict[str, Any]) -> Path:
    """Returns the folder of a release: `output_dir`, or a folder named after the settings that affect the release."""
    if config.output_dir:
        return Path(config.output_dir)
    aggregator_class_name = str(config.aggregator._target_).rpartition(".")[2]
    return Path(default_folder("release", aggregator_class_name, settings=deciding_settings))


main = command_of(release, command="release")


if __name__ == "__main__":
    main()
