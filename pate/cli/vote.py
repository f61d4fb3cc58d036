"""pate-vote: at a holder of records, from these to a file of its teachers' votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.cli.app import run_app
from pate.cli.featured import featured, has_none
from pate.cli.heading import known_before
from pate.cli.lines import PRIVATE, print_lines
from pate.cli.progress import ConsoleMonitor, watched_load
from pate.cli.rounds import answer_in_rounds, queries_of, read_question
from pate.config import build
from pate.config.published import holder_settings, told_settings
from pate.run.stages.holder import HolderPlan, cast_vote_file
from pate.run.stages.queries import AskedData
from pate.validation import InvalidValue, require
from pate.votes.holders import VoteFile

_RULES = {
    "holder": "the name of this place, which no other has, such as holder=hospital_3; a number from 1 beside holders=",
    "output": "the vote file to write, such as votes/3.npz",
}
_BESIDE = ("output", "output_dir", "queries", "question")


def main() -> None:
    """The entry point."""
    run_app(vote, "vote")


def vote(config: DictConfig) -> None:
    """Casts the configured votes, or continues, and says what the file is and who may have it."""
    for name, rule in _RULES.items():
        if OmegaConf.is_missing(config, name) or config[name] is None:
            raise InvalidValue(f"{name}=???: expected {rule}")
    output = Path(str(config.output))
    monitor = ConsoleMonitor()
    if config.question is not None:
        rule = "the folder of this place's teachers, the same for all questions of a release"
        require(config.output_dir is not None, "output_dir", config.output_dir, rule)
        for name in ("queries", "num_queries"):
            require(config[name] is None, name, config[name], "nothing beside question=, whose opening brought samples")
        folder = Path(config.output_dir)
        question = read_question(Path(config.question))
        plan = _plan(config, folder, monitor, queries_of(question, folder))
        answer_in_rounds(plan, question, output, folder)
        return
    output_dir = Path(config.output_dir or output.with_suffix(".work"))
    file, num_records = cast_vote_file(_plan(config, output_dir, monitor), output, output_dir, monitor)
    _print(file, num_records, output_dir)


def _plan(config: DictConfig, output_dir: Path, monitor: ConsoleMonitor, queries: Path | None = None) -> HolderPlan:
    allowed = list(config.allowed_targets)

    def make(group: str) -> Any:
        return build(config[group], group, allowed_targets=allowed)

    teacher = OmegaConf.masked_copy(config.teacher, [key for key in config.teacher if key != "num_teachers"])
    data = make("data")
    if queries is None and config.queries is not None:
        queries = Path(config.queries)
    if queries is not None:
        data = AskedData(data, queries)
    reader = featured(data, make("features"), output_dir)
    settings = _settings(config)
    return HolderPlan(
        load_dataset=watched_load(reader, monitor),
        teacher=build(teacher, "teacher", allowed_targets=allowed),
        num_teachers=config.teacher.num_teachers,
        engine=make("engine"),
        holder=str(config.holder),
        holders=config.holders,
        num_queries=config.num_queries,
        cast=config.cast,
        vote_clip=config.vote_clip,
        seed=config.seed,
        settings=settings,
        public_settings=holder_settings(told_settings(config, settings)),
    )


def _settings(config: DictConfig) -> dict[str, Any]:
    """All that the votes depend on, as plain values; where they are written is not part of it."""
    settings = OmegaConf.to_container(config, resolve=True)
    if not isinstance(settings, dict):
        raise TypeError("a composed configuration is a dictionary")
    settings["data"] = known_before(settings["data"])
    if has_none(settings.get("features", {})):
        settings.pop("features")
    return {str(key): value for key, value in settings.items() if key not in _BESIDE}


def _print(file: VoteFile, num_records: int, output_dir: Path) -> None:
    head = file.manifest
    teachers = "1 teacher" if head.num_teachers == 1 else f"{head.num_teachers} teachers"
    size = file.path.stat().st_size
    print_lines(
        f"{file.path}: votes of holder {head.holder}, {teachers} of {num_records} records, on {head.num_queries} "
        f"queries and {head.num_labels} labels ({size:,} bytes)",
        PRIVATE,
        f"{output_dir}: teachers and partition, which stay here",
    )


if __name__ == "__main__":
    main()
