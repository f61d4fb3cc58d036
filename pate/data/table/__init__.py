"""Tables: files in, features by a public schema."""

from pate.data.table.files import TableFile
from pate.data.table.schema import TableSchema
from pate.data.table.table import Table

__all__ = ["Table", "TableFile", "TableSchema"]
