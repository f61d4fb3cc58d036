"""The command pate-student: it trains a student on a release and the public samples.

If the release may be published, the student may be published too.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.named import require_named
from pate.cli.run_settings import make_dataset_loader
from pate.config.build import part_maker
from pate.config.published import with_student, without_outside_values
from pate.data.dataset import require_dataset
from pate.errors import InvalidValue
from pate.report.console import print_lines
from pate.run.queries import Queries
from pate.validation import as_setting
from pate_federated.student_training import StudentPlan, folder_of, train_on_release


def train_student(config: DictConfig) -> None:
    """Trains the student of a configuration on a release, if it is not trained yet, and prints its folder."""
    require_named(config, rules={"release": "the folder that pate-release wrote, or its release/"})
    monitor = ConsoleMonitor()
    release_folder = Path(config.release)
    output_folder = None if config.output is None else Path(config.output)
    value_of_setting = OmegaConf.to_container(config.student, resolve=True)
    student_settings = without_outside_values(config, settings={"student": value_of_setting})[
        "student"
    ]
    plan = StudentPlan(
        student=part_maker(config)("student"),
        queries=_queries_reader(config, release_folder, monitor),
        seed=config.seed,
        with_student=partial(with_student, student_settings=student_settings),
    )
    model = train_on_release(
        plan, release_path=release_folder, output=output_folder, monitor=monitor
    )
    bundle_folder = output_folder or folder_of(release_folder)
    command = (
        f"pate-predict {as_setting(name='release', value=bundle_folder)} data=FILE output=FILE"
    )
    print_lines(f"{bundle_folder}: a {model.kind} student; {command} says what it predicts")


def _queries_reader(
    config: DictConfig, release_folder: Path, monitor: ConsoleMonitor
) -> Callable[[], Queries]:
    """Returns a function that reads the public samples, from a file or from the public pool of a data set.

    Args:
        config: the configuration.
        release_folder: the folder of the release, beside which features of a data set are cached.
        monitor: displays the progress.
    """
    sources = [name for name in ("queries", "data") if config[name] is not None]
    if len(sources) != 1:
        rule = "queries=FILE or data=NAME, the public samples that the teachers answered"
        if sources:
            raise InvalidValue(" and ".join(sources), rule=rule)
        raise InvalidValue("queries", None, rule=rule)
    if config.queries is not None:
        return partial(Queries.read, Path(config.queries), schema=config.table_schema)
    build_part = part_maker(config)
    load_dataset = make_dataset_loader(
        data_reader=build_part("data"),
        monitor=monitor,
        feature_recipe=build_part("features"),
        output_dir=release_folder,
    )
    return lambda: Queries.of(require_dataset(load_dataset()))


main = command_of(train_student, command="student")


if __name__ == "__main__":
    main()
