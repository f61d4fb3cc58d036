"""Queries from a table: all data holders have the same file, always in UTF-8, so no setting names an encoding."""

from pathlib import Path

import numpy as np
import pytest

from pate.data import Table
from pate.run.queries import Queries
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

pytest.importorskip("pyarrow")
ROWS = ("stadt,preis", "K\u00f6ln,3.5", "Bonn,4.5")


def test_an_unprepared_table_is_refused_with_the_schema_that_it_needs(tmp_path: Path) -> None:
    """A table of queries in UTF-8 is read with its schema.

    A table in another encoding or with decimal commas is refused, with the form that the schema asks for. A table
    without a schema is refused with the request for one.
    """
    plain_table = tmp_path / "good.csv"
    schema_file = tmp_path / "schema.yaml"
    plain_table.write_text("\n".join(ROWS), encoding="utf-8")
    Table(public=str(plain_table)).public_schema().write(schema_file)
    assert Queries.read(plain_table, schema=schema_file).inputs.shape[0] == 2
    (tmp_path / "latin.csv").write_text("\n".join(ROWS), encoding="latin-1")
    (tmp_path / "comma.csv").write_text(
        "\n".join(ROWS).replace(",", ";").replace(".", ","), encoding="utf-8"
    )
    end = "; all places have the same file, in UTF-8 and with numbers as the schema's file says$"
    with pytest.raises(InvalidValue, match=rf"^queries=\S+latin\.csv: expected text in utf-8{end}"):
        Queries.read(tmp_path / "latin.csv", schema=schema_file)
    with pytest.raises(InvalidValue, match=rf"^queries\.preis: expected numbers .*{end}"):
        Queries.read(tmp_path / "comma.csv", schema=schema_file)
    with refused_parameter("queries", value=ANY, rule_words="the file of"):
        Queries.read(plain_table)
    assert np.isfinite(Queries.read(plain_table, schema=schema_file).inputs).all()
