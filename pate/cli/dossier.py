"""pate-dossier: writes what a release promises as one page for people who are no experts, or as JSON."""

from pate.extras import require_extra

require_extra("pate-dossier", "cli")


from pathlib import Path

from omegaconf import DictConfig

from pate.cli.app import command_of
from pate.cli.named import require_named
from pate.files.atomic import write_text
from pate.files.strict_json import to_json
from pate.report.console import print_lines
from pate.report.dossier import Dossier
from pate.validation import InvalidValue, require_choice

# The settings that the command needs, with a rule for each.
_RULE_OF_REQUIRED_SETTING = {
    "release": "the folder release/ of a finished run",
    "output": "the file to write, such as dossier.html or dossier.json",
}


def write_dossier(config: DictConfig) -> None:
    """Reads a release and writes its dossier; a file that ends in `.json` gets the same facts for programs.

    Raises:
        InvalidValue: a setting or the release is invalid, or the result of an attack may not be published. No file is
            written.
    """
    require_named(config, rules=_RULE_OF_REQUIRED_SETTING)
    output_file = Path(str(config.output))
    release_folder = Path(str(config.release))
    if output_file.suffix not in (".html", ".json"):
        raise InvalidValue("output", output_file, rule="a file that ends in .html or .json")
    if not output_file.parent.is_dir():
        raise InvalidValue("output", output_file, rule="a file in a folder that is there")
    if output_file.resolve().is_relative_to(release_folder.resolve()):
        rule = "a file outside of the release, which has its digests"
        raise InvalidValue("output", output_file, rule=rule)
    if config.rehearsed_on is not None:
        require_choice("rehearsed_on", config.rehearsed_on, ("public",))
    dossier = Dossier.read(
        release_folder,
        attack_file=None if config.lower_bound is None else Path(str(config.lower_bound)),
        rehearsed_on=config.rehearsed_on,
        publisher=config.publisher or "",
        contact=config.contact or "",
        date=config.date or "",
    )
    is_json = output_file.suffix == ".json"
    write_text(output_file, text=(to_json(dossier.to_json()) + "\n") if is_json else dossier.html())
    remark = "public facts alone; it may be given to anybody"
    if not dossier.is_private:
        remark = "this release is not to be published; the page says why"
    print_lines(f"{output_file}: {remark}", stderr=True)


main = command_of(write_dossier, command="dossier")


if __name__ == "__main__":
    main()
