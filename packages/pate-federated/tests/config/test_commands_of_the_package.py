"""The commands and the aggregator of the package are found and composed, and the commands explain their settings."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from pate.config import CONFIG_FOLDER, build_aggregator, register_configs
from pate.config.help_page import settings_of_parts
from pate.config.schema import PATH_SETTINGS, command_schema, names_in_config_group, settings_page
from pate.package_commands import package_commands
from pate_federated import DistributedVotes
from pate_federated.commands import VOTE
from tests.e2e.commands import Arguments, refused_command

COMMANDS = ("release", "student", "vote")
MODULES = ("release", "pate_federated.cli.student", "pate_federated.cli.vote")
Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    """Yields a function that composes the configuration of a command of this package."""
    register_configs()
    with initialize_config_dir(str(VOTE.folder), version_base="1.3"):

        def compose_command(command: str, arguments: Arguments = ()) -> DictConfig:
            """Composes the configuration of a command with these settings from the command line."""
            return compose(command, list(arguments))

        yield compose_command


def test_the_entry_points_name_the_commands() -> None:
    """`package_commands()` finds exactly release, student and vote among the installed entry points."""
    assert sorted(package_commands()) == sorted(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_composes_with_members_of_the_core(command: str, composed: Composed) -> None:
    """Each command of the package composes without arguments, and its settings are fields of its schema."""
    config = composed(command)
    assert set(config) <= set(command_schema(command).__dataclass_fields__)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_setting_is_explained(command: str) -> None:
    """A line of a command's help page begins with each field of its schema, except for the groups and for `student`."""
    first_words = {line.split()[0] for line in settings_page(command).splitlines() if line.strip()}
    groups = {"accountant", "aggregator", "data", "engine", "features", "student", "teacher"}
    assert command_schema(command).__dataclass_fields__.keys() - groups <= first_words


@pytest.mark.parametrize("command", COMMANDS)
def test_each_setting_that_names_a_file_is_a_path(command: str) -> None:
    """A setting whose name ends in a word for files, such as `dir` or `ledger`, is in `PATH_SETTINGS`.

    The exception is `num_queries`. For settings in `PATH_SETTINGS`, a leading `~` is the home folder.
    """
    fields = set(command_schema(command).__dataclass_fields__)
    endings = ("dir", "file", "ledger", "output", "queries", "question", "mailbox", "sum")
    files = {field for field in fields if field.split("_")[-1] in endings}
    assert files - {"num_queries"} <= PATH_SETTINGS


@pytest.mark.slow
def test_settings_of_the_chosen_data_are_explained(composed: Composed) -> None:
    """With `data=table`, the help explains `data.label_separator`."""
    page = settings_of_parts(composed("vote", arguments=["data=table"]))
    first_words = [line.split()[0] for line in page.splitlines() if line.strip()]
    assert "data.label_separator" in first_words


@pytest.mark.slow
def test_error_names_num_teachers_as_pate_vote_spells_it(composed: Composed) -> None:
    """The name that errors of `pate-vote` have for `num_teachers` is a setting of this command."""
    setting = VOTE.spelling.setting("num_teachers")
    assert OmegaConf.select(composed("vote"), setting) is not None


def test_the_aggregator_is_a_member_of_its_group() -> None:
    """`aggregator=distributed_votes` composes in `pate-account` and builds a `DistributedVotes` for 4 holders."""
    assert "distributed_votes" in names_in_config_group(group="aggregator")
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        node = compose("account", ["aggregator=distributed_votes"]).aggregator
    aggregator = build_aggregator(node, adjacency="replace_one")
    assert aggregator == DistributedVotes(noise_std=100.0, num_holders=4)


@pytest.mark.parametrize("module", MODULES)
def test_invalid_settings_file_gives_a_one_line_error(module: str, tmp_path: Path) -> None:
    """Each command refuses a settings file that is not YAML, in a line that begins with `file=` and its path."""
    (tmp_path / "mine.yaml").write_bytes(b"a: 1\nb: [\nc: 2\n")
    line = refused_command(
        module, arguments=["--config-dir", str(tmp_path), "--config-name", "mine"]
    )
    assert line.startswith(f"file={tmp_path / 'mine.yaml'}: expected settings in YAML")
