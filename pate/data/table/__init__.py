"""Tables in files: reading files, kinds of columns, and a schema that encodes cells as features.

pyarrow and pandas read the files and hold the cells. The meaning of a cell is determined by code in this package. A
cell of a private file must mean the same as in the public file, or the file must be refused. The readers of pandas
guess instead:

- `read_csv` completes rows that are too short, and removes every mark between digits;
- `to_datetime`, for a single word or in mixed formats, reads 13/01 as a day in January even if months come first;
- `read_json` changes an id of 21 digits to another number.
"""
