"""Advice in error messages: settings to type."""

from collections.abc import Sequence
from pathlib import Path

from pate.validation import as_setting


def ways_out(column_names: Sequence[str], owner_columns_in_words: str | None) -> str:
    """Returns advice for a message: the setting `data.drop`, which keeps columns from becoming features.

    If settings name no owner, the advice to name the first column as `data.group` comes before that, because a dropped
    column of people's names would leave each row protected by itself.

    Args:
        column_names: the names of the columns that are not to become features.
        owner_columns_in_words: the columns that name the owner of a row; None if settings name none.
    """
    drop = as_setting(name="data.drop", value=column_names)
    objects = "it" if len(column_names) == 1 else "all such columns"
    if owner_columns_in_words is not None:
        return f"{drop} leaves {objects} out, where data.group={owner_columns_in_words} says whose a row is"
    name_group = as_setting(name="data.group", value=column_names[0])
    return (
        f"{name_group} if it says whose a row is, else {drop} leaves {objects} out, and each row "
        "by itself is protected"
    )


def text_remedy(column_name: str, *, public_file_of_new_schema: Path | None = None) -> str:
    """Returns advice for a message: the setting that makes features of the words in a column.

    Args:
        column_name: the name of the column.
        public_file_of_new_schema: the public file from which pate-schema has to write a new schema, as the run reads
            the schema from a file; None for a run without such a file.
    """
    if public_file_of_new_schema is None:
        setting = as_setting(name="data.text", value=[column_name])
        return f"{setting} makes features of its words"
    return (
        f"features of its words need a schema written anew: {rewriting(public_file_of_new_schema)} "
        f"{as_setting(name='text', value=[column_name])}, with labels=, group= and all else as before"
    )


def rewriting(public_file: Path) -> str:
    """Returns the start of the command that writes a new schema of a public file, for a message.

    The command names a new file for the output, because pate-schema overwrites none.
    """
    return f"pate-schema {as_setting(name='data', value=public_file)} output=NEW.yaml"
