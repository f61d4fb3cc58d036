"""Tables in files: the reading of files, kinds of columns, and a schema that makes features of cells.

pyarrow and pandas read the files and hold the cells. How a cell is understood stands here, by hand. A cell of a
private file has to mean what it means in the public file, or the reading has to be refused. The readers of pandas guess
instead:

- `read_csv` fills up rows that are too short, and drops every mark between digits;
- `to_datetime` reads 13/01 as a day in January although months stand in front;
- `read_json` makes another number of an id of 21 digits.
"""
