"""pate-schema: what a public table says of its columns, as a file that people may change."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich import box
from rich.table import Table as Shown
from rich.text import Text

from pate.cli.app import run_app
from pate.data.table import Table, TableSchema
from pate.report.console import PlainConsole
from pate.validation import InvalidValue, require


def main() -> None:
    """The entry point."""
    run_app(write_schema, "table_schema")


def write_schema(config: DictConfig) -> None:
    """Reads the public table, writes its schema and shows it."""
    for name, rule in (
        ("data", "the file of the public records"),
        ("output", "the file to write, such as schema.yaml"),
    ):
        if OmegaConf.is_missing(config, name) or config[name] is None:
            raise InvalidValue(f"{name}=???: expected {rule}")
    output = Path(str(config.output))
    require(not os.path.lexists(output), "output", output, "the name of a new file: somebody may have changed this one")
    require(output.parent.is_dir(), "output", output, "a file in a folder that is there")
    try:
        table = table_of(config)
        schema, numbered, coded = table.public_schema(), table.numbered_columns(), table.coded_columns()
    except InvalidValue as error:
        raise InvalidValue(_own_names(str(error))) from error
    schema.write(output)
    _print(schema, output, numbered, coded)


def table_of(config: DictConfig) -> Table:
    """The public table that a configuration names."""
    file = str(config.data)
    return Table(
        public=file if config.split is None else None,
        path=None if config.split is None else file,
        split=config.split,
        labels=tuple(config.labels),
        group=config.group,
        id=config.id,
        drop=tuple(config.drop),
        category=tuple(config.category),
        encoding=config.encoding,
        decimal=config.decimal,
    )


def _own_names(message: str) -> str:
    """A message of `Table` with the settings of this command: `data.public=` and `data.path=` are `data=` here."""
    return re.sub(r"\bdata\.(?!public|path)(\w+)(?==)", r"\1", re.sub(r"\bdata\.(public|path)\b", "data", message))


def _print(schema: TableSchema, output: Path, numbered: Sequence[str], coded: Sequence[str]) -> None:
    console = PlainConsole()
    table = Shown(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("column", "kind", "features", "missing"):
        table.add_column(heading)
    for column in schema.columns:
        number = str(len(column.feature_names) or f"none: drop=[{column.name}] leaves it out")
        table.add_row(Text(column.name), column.kind, Text(number), "yes" if column.missing else "")
    console.print(table)
    for name in numbered:
        rule = f"if it is the number of a record, drop=[{name}] or id={name} leaves it out of the features"
        console.print(Text(f"{name}: another number in each row; {rule}"), soft_wrap=True)
    for name in coded:
        rule = f"numbers with a zero in front; if they are codes, category=[{name}] makes each a category"
        console.print(Text(f"{name}: {rule}"), soft_wrap=True)
    console.print(Text(f"{output}: of the public file alone; data.schema={output} uses it"), soft_wrap=True)


if __name__ == "__main__":
    main()
