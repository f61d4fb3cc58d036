"""pate-schema: learns the columns of a public table, and writes them to a file that users may edit."""

from pate.extras import require_extra

require_extra("pate-schema", "train")


import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from pate.cli.app import command_of
from pate.cli.named import require_named
from pate.data import Table
from pate.data.split import SPLITS
from pate.data.table.column import Column
from pate.data.table.dealing import Dealing
from pate.data.table.remedies import text_remedy, ways_out
from pate.data.table.table_file import TableFile
from pate.data.table.table_settings import TableSettings
from pate.data.table.text_column import TextColumn
from pate.report.console import print_page
from pate.validation import InvalidValue, as_setting

# The settings that the command needs, with a rule for each.
_RULE_OF_REQUIRED_SETTING = {
    "data": "the file of the public records",
    "output": "the file to write, such as schema.yaml",
}
# Shares as text, such as ".1,.1". `_dealing_into_splits` checks that there are two.
_SHARES = re.compile(r"[\d.]+(?:,[\d.]+)+")


def write_schema(config: DictConfig) -> None:
    """Reads the public table, writes its schema and prints it.

    If `split` has shares, the command first divides one file into private, public and test files.

    Raises:
        InvalidValue: a setting or the table is invalid. Files of splits that were written are removed.
    """
    require_named(config, rules=_RULE_OF_REQUIRED_SETTING)
    schema_file = Path(str(config.output))
    if os.path.lexists(schema_file):
        rule = "the name of a new file: somebody may have changed this one; remove it to have it written anew"
        raise InvalidValue("output", schema_file, rule=rule)
    if not schema_file.parent.is_dir():
        raise InvalidValue("output", schema_file, rule="a file in a folder that is there")
    file_by_split: dict[str, Path] = {}
    try:
        dealing = _dealing_into_splits(config)
        if dealing is not None:
            file_by_split = dealing.write(schema_file.parent)
        table = _public_table_reader(config, file_by_split=file_by_split)
        schema = table.public_schema()
        remark_lines = list(table.public_remarks())
        if dealing is not None and (remark := dealing.largest_remark()) is not None:
            remark_lines.append(remark)
    except InvalidValue as error:
        for split_file in file_by_split.values():
            split_file.unlink()
        # A name loses `data.` only before "=", so the name alone is given one for the call.
        error.name = _with_names_of_command(f"{error.name}=").removesuffix("=")
        error.rule = _with_names_of_command(error.rule)
        error.hint = _with_names_of_command(error.hint)
        raise
    schema.write(schema_file, _settings_of(table, table_encoding=str(config.encoding)))

    useless_columns = [column.name for column in schema.columns if not column.feature_names]

    def advise_on_column(column: Column) -> str:
        """Returns advice on a column without features: the settings to write the schema with."""
        advice_text = ways_out(column_names=[column.name], owner_columns_in_words=config.group)
        if isinstance(column, TextColumn):
            advice_text += f"; {text_remedy(column.name)}"
        return _with_names_of_command(advice_text)

    print_page(
        "cli/schema.txt",
        remedy=advise_on_column,
        schema=schema,
        next_steps=_next_steps(
            useless_columns, schema_file=schema_file, public_file=file_by_split.get("public")
        ),
        output=schema_file,
        lines=list(map(_with_names_of_command, remark_lines)),
        parts=file_by_split,
        command=_training_command(table, schema_file=schema_file, file_by_split=file_by_split),
    )


def _next_steps(
    useless_columns: Sequence[str], *, schema_file: Path, public_file: Path | None
) -> str:
    """Returns a sentence on how to write the schema again, with features or another role for columns without features.

    Returns an empty string if there is no such column.

    Args:
        useless_columns: the names of the columns without features.
        schema_file: the file of the schema, which this command does not overwrite.
        public_file: the file of the public part, if this command has divided `data`; None if it has not.
    """
    if not useless_columns:
        return ""
    verb = "has" if len(useless_columns) == 1 else "have"
    data = "the same data"
    if public_file is not None:
        data = f"{as_setting(name='data', value=public_file)} in place of data= and split="
    return (
        f"No run takes it yet: {', '.join(useless_columns)} {verb} no features. Choose a setting from "
        f"the table above, remove {schema_file}, and run pate-schema again with that setting, {data} and "
        "all other settings as before"
    )


def _public_table_reader(config: DictConfig, file_by_split: Mapping[str, Path]) -> Table:
    """Returns the reader of the public records.

    Args:
        config: the composed configuration.
        file_by_split: the files into which `data` was divided, by split; empty if it was not divided. Then `data` is
            the public file, or has the public records among others if `split` names a column.
    """
    has_column_of_splits = config.split is not None and not file_by_split
    return Table(
        public=None if has_column_of_splits else str(file_by_split.get("public", config.data)),
        path=str(config.data) if has_column_of_splits else None,
        split=str(config.split) if has_column_of_splits else None,
        labels=tuple(config.labels),
        group=config.group,
        id=config.id,
        drop=tuple(config.drop),
        category=tuple(config.category),
        text=tuple(config.text),
        encoding=config.encoding,
        decimal=config.decimal,
        thousands=config.thousands,
        missing=tuple(config.missing),
        date_order=config.date_order,
        first_year=config.first_year,
        label_separator=config.label_separator,
        uncertain=config.uncertain,
        uncertain_words=tuple(config.uncertain_words),
    )


def _settings_of(table: Table, *, table_encoding: str) -> TableSettings:
    """Returns the settings of a table that its schema's file stores; `table_encoding` is the encoding of the table."""
    return TableSettings(
        labels=table.labels,
        group=table.group,
        id=table.id,
        drop=table.drop,
        label_separator=table.label_separator,
        uncertain=table.uncertain,
        uncertain_words=table.uncertain_words,
        encoding=table_encoding,
    )


def _training_command(table: Table, schema_file: Path, file_by_split: Mapping[str, Path]) -> str:
    """Returns the command line that trains with the schema, to paste into a shell.

    Args:
        table: the reader of the public records.
        schema_file: the schema's file.
        file_by_split: the files into which the data were divided, by split. If empty, the command line has
            placeholders, `private` and `test`, for files in the folder of the public file.
    """
    command_words = ["pate-train", "data=table", as_setting(name="data.schema", value=schema_file)]
    if table.path is not None:
        split_column = table.split
        command_words += [
            as_setting(name="data.path", value=table.path),
            as_setting(name="data.split", value=split_column),
        ]
    else:
        public_file = Path(str(table.public))
        num_endings = 2 if public_file.suffix == ".gz" else 1
        ending = "".join(public_file.suffixes[-num_endings:])
        for split in SPLITS:
            split_file = file_by_split.get(split, public_file.with_name(f"{split}{ending}"))
            if split == "public":
                split_file = public_file
            command_words.append(as_setting(f"data.{split}", value=split_file))
    if not table.labels:
        command_words.append("'data.labels=[NAME,NAME]'")
    return " ".join(command_words)


def _dealing_into_splits(config: DictConfig) -> Dealing | None:
    """Returns how the file `data` is divided into private, public and test files, by two shares in `split`.

    The first share is that of the public records, the second that of the test records; all others are private.
    Returns None if `split` names a column or is not set.
    """
    shares_or_column = config.split
    if isinstance(shares_or_column, str) and _SHARES.fullmatch(shares_or_column):
        shares_or_column = shares_or_column.split(",")
    elif isinstance(shares_or_column, float):  # one share alone, which the rule below refuses
        shares_or_column = [shares_or_column]
    elif not OmegaConf.is_list(shares_or_column):
        return None
    try:
        public_and_test_shares = tuple(map(float, shares_or_column))
    except (TypeError, ValueError):
        public_and_test_shares = ()
    if len(public_and_test_shares) != 2:
        rule = "a column, or two shares, of the public and the test part: split=.1,.1"
        raise InvalidValue("split", ",".join(map(str, shares_or_column)), rule=rule)
    public_share, test_share = public_and_test_shares
    table_file = TableFile(
        path=Path(str(config.data)),
        setting="data",
        encoding=config.encoding,
        decimal=config.decimal,
        thousands=config.thousands,
        missing=tuple(config.missing),
    )
    return Dealing(
        table_file=table_file,
        group=config.group,
        public_share=public_share,
        test_share=test_share,
        seed=config.seed,
    )


def _with_names_of_command(message: str) -> str:
    """Returns a message of `Table` with the names that its settings have in this command.

    `data.public` and `data.path` become `data`. Other settings lose the prefix `data.` where "=" follows the name.
    """
    message = re.sub(r"\bdata\.(public|path)\b", "data", message)
    return re.sub(r"\bdata\.(?!public|path)(\w+)(?==)", r"\1", message)


main = command_of(write_schema, command="table_schema")


if __name__ == "__main__":
    main()
