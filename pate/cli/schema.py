"""pate-schema: what a public table says of its columns, as a file that people may change."""

from pate.extras import require_extra

require_extra("pate-schema", "train")


import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.cli.app import command_of
from pate.cli.run import require_named
from pate.data import Table
from pate.data.split import SPLITS
from pate.data.table.dealing import Dealing
from pate.data.table.remedies import ways_out
from pate.data.table.table_file import TableFile
from pate.data.table.table_settings import TableSettings
from pate.report.console import print_page
from pate.validation import InvalidValue, as_setting, require

_RULES = {
    "data": "the file of the public records",
    "output": "the file to write, such as schema.yaml",
}
_LISTS = ("labels", "drop", "category", "text", "missing")
_TEXTS = (
    "group",
    "id",
    "encoding",
    "decimal",
    "thousands",
    "label_separator",
    "date_order",
    "first_year",
)
_SHARES = re.compile(r"[\d.]+(?:,[\d.]+)+")


def write_schema(config: DictConfig) -> None:
    """Reads the public table, writes its schema and shows it."""
    require_named(config, _RULES)
    output = Path(str(config.output))
    rule = "the name of a new file: somebody may have changed this one; remove it to have it written anew"
    require(not os.path.lexists(output), "output", output, rule)
    require(output.parent.is_dir(), "output", output, "a file in a folder that is there")
    parts: dict[str, Path] = {}
    try:
        if (dealing := _dealing(config)) is not None:
            parts = dealing.write(output.parent)
        said: dict[str, Any] = {name: tuple(config[name]) for name in _LISTS} | {
            name: config[name] for name in _TEXTS
        }
        split = None if config.split is None or parts else str(config.split)
        said |= (
            {"public": str(parts.get("public", config.data))}
            if split is None
            else {"path": str(config.data)}
        )
        table = Table(split=split, **said)
        schema = table.public_schema()
        lines = [*table.public_remarks()]
        if dealing is not None and (line := dealing.largest_remark()) is not None:
            lines.append(line)
    except InvalidValue as error:
        for path in parts.values():
            path.unlink()
        error.name = _own_names(f"{error.name}=").removesuffix("=")
        error.rule = _own_names(error.rule)
        error.hint = _own_names(error.hint)
        raise
    schema.write(output, _settings_of(table, encoding=str(config.encoding)))
    page: dict[str, Any] = {
        "schema": schema,
        "output": output,
        "lines": list(map(_own_names, lines)),
        "parts": parts,
    }

    def own_ways_out(columns: list[str], group: str | None) -> str:
        return _own_names(ways_out(columns, group))

    page["command"] = _command(table, output, parts)
    print_page("cli/schema.txt", ways_out=own_ways_out, group=config.group, **page)


def _settings_of(table: Table, *, encoding: str) -> TableSettings:
    """Returns the settings of a table that its schema's file is to hold."""
    return TableSettings(
        labels=table.labels,
        group=table.group,
        id=table.id,
        drop=table.drop,
        label_separator=table.label_separator,
        encoding=encoding,
    )


def _command(table: Table, output: Path, parts: Mapping[str, Path]) -> str:
    """Returns the line that trains by the schema, to paste into a shell.

    The private and the test file are those that the command has dealt; else they are called private and test, beside
    the public one.
    """
    words = ["pate-train", "data=table", as_setting("data.schema", output)]
    if table.path is not None:
        words += [as_setting("data.path", table.path), as_setting("data.split", table.split)]
    else:
        public = Path(str(table.public))
        ending = "".join(public.suffixes[-2:] if public.suffix == ".gz" else public.suffixes[-1:])
        for split in SPLITS:
            path = (
                public
                if split == "public"
                else parts.get(split, public.with_name(f"{split}{ending}"))
            )
            words.append(as_setting(f"data.{split}", path))
    if not table.labels:
        words.append("'data.labels=[NAME,NAME]'")
    return " ".join(words)


def _dealing(config: DictConfig) -> Dealing | None:
    """How the file is dealt; None where split is a column, or nothing."""
    words = config.split
    if isinstance(words, str) and _SHARES.fullmatch(words):
        words = words.split(",")
    elif not OmegaConf.is_list(words):
        return None
    try:
        shares = tuple(map(float, words))
    except (TypeError, ValueError):
        shares = ()
    rule = "a column, or two shares, of the public and the test part: split=.1,.1"
    require(len(shares) == 2, "split", ",".join(map(str, words)), rule)
    file = TableFile(
        Path(str(config.data)),
        "data",
        config.encoding,
        config.decimal,
        config.thousands,
        tuple(config.missing),
    )
    return Dealing(file, config.group, shares[0], shares[1], config.seed)


def _own_names(message: str) -> str:
    """A message of `Table` with the settings of this command: `data.public=` and `data.path=` are `data=` here."""
    return re.sub(
        r"\bdata\.(?!public|path)(\w+)(?==)",
        r"\1",
        re.sub(r"\bdata\.(public|path)\b", "data", message),
    )


main = command_of(write_schema, "table_schema", __name__)
