"""Tables in files: private, public and test records, with labels in columns of 0 and 1."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pate.data.dataset import PLAIN, SPLITS, Dataset, PrivateRecords, Split, Stage, unwatched
from pate.data.table import cells, rows
from pate.data.table.cells import Spelling, as_texts, column_name
from pate.data.table.files import TableFile
from pate.data.table.rows import LABEL_HINT, UNGROUPED
from pate.data.table.schema import TableSchema, remarks
from pate.data.texts import TextReader, TfidfVectors
from pate.validation import InvalidValue, as_setting, require, require_count, require_text

_ROLES = ("labels", "group", "id", "budget", "split", "drop")
_FILES = (
    "data.private=, data.public= and data.test=, three files; or one for all, data.path=FILE data.split=COLUMN; "
    "pate-schema split=.1,.1 deals one file to three"
)
_LABELS = "the columns that are labels: 'data.labels=[NAME,NAME]'"


@dataclass(frozen=True)
class Table(TextReader):
    """Records in CSV, Parquet, Feather or Arrow files, one per split, or one for all with a column that says which.

    Every column that is no label, group, id or split and is not dropped becomes features, as a schema says. The schema
    is learned from the public file alone; no private cell has a part in it. Numbers and dates are within the public
    range and in units of the public spread, or of what lies between them where there are two; long tails get a power.
    Words are categories, with one for all others. Missing cells have a feature.

    Raises:
        InvalidValue: settings that do not go together. What is wrong with a file is said by `load`, with column, count
            and split, and no cell.
    """

    private: str | None = None  # file of the private records
    # file of the public ones; its rows are shuffled, and the first of them are asked about. Their labels serve
    # measurements alone: the file may lack all columns of labels, or all their cells.
    public: str | None = None
    test: str | None = None  # file of the records that measure
    path: str | None = None  # one file for all three, in their place
    split: str | None = None  # its column that holds private, public or test
    # names of the columns that are labels. With a `label_separator` the one column that names all labels of a record,
    # and behind it the labels that there are; or these alone. Where none are named they are those of the public file,
    # never those of private rows.
    labels: tuple[str, ...] = ()
    # column that says which rows belong together, such as a person: epsilon protects all of them at once. None for rows
    # that have nothing to do with each other. A list where rows have several owners, such as a patient and a doctor:
    # epsilon protects all rows of each, but not who belongs with whom.
    group: str | tuple[str, ...] | None = None
    # column of the private file that says what epsilon a group agreed to, or the name of a class in `budgets=`. It is
    # taken as public, and nothing protects it.
    budget: str | None = None
    id: str | None = None  # column that names each record; None for the number of the row. Public ids are published
    drop: tuple[str, ...] = ()  # columns that are not read
    category: tuple[str, ...] = ()  # columns of codes: their numbers or dates are words, each a category
    # columns of free text, which become vectors as `features=text` says; by default tf-idf of the public texts.
    text: tuple[str, ...] = ()
    schema: str | None = None  # file that `pate-schema` wrote; None learns it anew from the public file
    encoding: str = "utf-8"  # of CSV files
    # `comma` where numbers of CSV files read 3,5; None for what the schema's file says, or else a point.
    decimal: str | None = None
    thousands: str | None = None  # what stands between thousands, one of . , ' _ or a blank; None as for `decimal`
    missing: tuple[str, ...] = ()  # words that are missing cells, beside empty cells and NA; none as for `decimal`
    true: str | None = None  # the word for yes where labels are two other words than 0 and 1, such as ja
    label_separator: str | None = None  # what stands between labels where one column names them all, such as flu;cough
    name: str = field(default="table", metadata={"public": True})  # of the data set, in the report and on the card
    seed: int = 0  # of the public rows' order; part of the data, not of the noise

    def __post_init__(self) -> None:
        require_count("data.seed", self.seed, minimum=0)
        require_text("data.name", self.name)
        keep = partial(object.__setattr__, self)
        for name in ("labels", "drop", "category", "text"):
            keep(name, rows.column_names(f"data.{name}", getattr(self, name)))
        keep("missing", tuple(self.missing) if isinstance(self.missing, list) else self.missing)
        if self.group is not None and not isinstance(self.group, str):
            named = rows.column_names("data.group", self.group)
            require(len(named) > 0, "data.group", "[]", "null, or the columns that say whose a row is")
            keep("group", named if len(named) > 1 else named[0])
        several = isinstance(self.group, tuple)
        require(not several or self.budget is None, "data.budget", self.budget, "one column in data.group beside it")
        for name in (*SPLITS, "path", "split", "group", "budget", "id", "schema", "true", "label_separator"):
            value = getattr(self, name)
            is_name = isinstance(value, str) and value != ""
            require(value is None or is_name or (name == "group" and several), f"data.{name}", value, "a name")
            if name in _ROLES and is_name:
                keep(name, column_name(value))
        both = self.true is not None and self.label_separator is not None
        require(not both, "data.true", self.true, "nothing beside data.label_separator, whose cells name labels")
        role_of: dict[str, str] = {}
        for role in (*_ROLES, "text"):
            for column in self._named(role):
                there = role_of.setdefault(column, role)
                alike = there == role or {there, role} == {"group", "id"}
                require(alike, f"data.{role}", column, f"another column than data.{there}")
        twice = next((column for column in self.text if column in self.category), None)
        require(twice is None, "data.text", twice, "another column than data.category")

    def load(self, stage: Stage = unwatched) -> Dataset:
        """Reads the files. Record ids are the rows of each file, with its split in the upper bits."""
        self.require_settings()
        self._require_columns()
        schema = self._with_vectors(self.table_schema, stage)
        spelling, private = self._public.spelling(schema.spelling), self._files["private"]
        splits = {split: self._rows(split, schema, spelling, stage) for split in SPLITS}
        parts = rows.parts_of(splits, schema, group=self._named("group"), id=self.id, seed=self.seed, spelling=spelling)
        return Dataset(
            name=self.name,
            real=True,
            kind="features",
            label_names=self.label_names,
            preprocessing=schema,
            private_cells=rows.private_cells((table for _, table in private.rows()), of_text=private.is_text),
            notes=(*self._notes(), *parts.pop("notes")),
            **parts,
        )

    def private_records(self) -> PrivateRecords:
        """The file of private records alone, for a holder whose queries come from elsewhere; every holder's schema."""
        rule = "the file that pate-schema wrote of the public samples, the same at every place"
        require(self.schema is not None, "data.schema", self.schema, rule)
        require(self.private is not None, "data.private", self.private, "the file of the private records")
        require(len(self.labels) > 0, "data.labels", list(self.labels), _LABELS)
        require(self.budget is None, "data.budget", self.budget, PLAIN)
        require(not isinstance(self.group, tuple), "data.group", list(self._named("group")), PLAIN)
        schema = TableSchema.load(Path(self.schema or "")).without(self._no_features)
        file = self._files["private"]
        spelling = file.spelling(schema.spelling)
        read = self._rows("private", schema, spelling)
        ids = read.numbers if self.id is None else cells.numbered([read.ids], spelling)[0]
        groups = ids if self.group is None else cells.numbered(read.groups, spelling)[0]
        known_by = rows.private_cells((table for _, table in file.rows()), of_text=file.is_text)
        records = Split(read.inputs, read.labels, ids, groups)
        notes = (*self._notes(), *rows.unlike_public("private", schema.columns, read))
        return PrivateRecords(self.name, self.label_names, records, schema, known_by, notes=notes)

    def require_settings(self) -> None:
        """Raises unless settings name labels and three files, or one with a column of splits; no file is opened."""
        given = {split: getattr(self, split) for split in SPLITS}
        if self.path is not None:
            good = not any(given.values()) and self.split is not None
            require(good, "data.path", self.path, f"data.split=COLUMN and no other file beside it: {_FILES}")
        for split, path in given.items() if self.path is None else ():
            require(path is not None and self.split is None, f"data.{split}", path, _FILES)
            same = [
                other for other in SPLITS[: SPLITS.index(split)] if Path(given[other]).resolve() == Path(path).resolve()
            ]
            rule = f"another file than data.{', data.'.join(same)}: no record may be in two splits"
            require(not same, f"data.{split}", path, rule)
        require(len(self.labels) > 0, "data.labels", list(self.labels), _LABELS)

    def public_schema(self) -> TableSchema:
        """What the public records say of all columns that settings do not call something else."""
        return self._with_vectors(self._public_reading[0])

    def _with_vectors(self, schema: TableSchema, stage: Stage = unwatched) -> TableSchema:
        """A schema whose columns of text are fitted on the public ones."""
        if not self.text:
            return schema
        return schema.fitted(self._public.read(list(schema.names)), self.text, self.text_fit or TfidfVectors.fit, stage)

    def public_remarks(self) -> tuple[str, ...]:
        """Lines for the owner on public columns that may be meant otherwise, on units, and on the group."""
        schema, said = self._public_reading
        return (*(line for _, line in said), *schema.units(), *(() if self.group is not None else (UNGROUPED,)))

    @cached_property
    def _public_reading(self) -> tuple[TableSchema, tuple[tuple[str, str], ...]]:
        """The schema that the public records give, and by the names of columns what is to be said of them."""
        file = self._public
        self._wanted("public")
        features = [name for name in file.names if name not in self._no_features]
        require(len(features) > 0, file.name, file.path, "a column that is no label, group or id")
        for role in ("category", "text"):
            for column in self._named(role):
                cells.require_column(f"data.{role}", column, features, f"{file.name} that is a feature")
        table, spelling = file.read(features), file.spelling()
        schema = TableSchema.of(table, codes=self.category, texts=self.text, spelling=spelling)
        others = table.select([name for name in features if name not in self.text])
        group = ", ".join(self._named("group")) or None
        return schema, tuple(remarks(others, spelling, codes=self.category, group=group))

    def _notes(self) -> tuple[str, ...]:
        """What the owner is told of how the table was read."""
        form, names = self._label_form, ", ".join(self.label_names)
        words = [f"data.labels={label}: {yes} is 1, {no} is 0" for label, (no, yes) in form.truths.items()]
        if self.labels == (form.column,):
            words.append(f"data.labels={form.column}: the labels that the public file names: {names}")
        if form.unknown:
            told = f"{form.unknown} rows name a label that is none of {names}: it is left out"
            words.append(f"data.labels={form.column}: {told}")
        if self.schema is None:
            return (*words, *self.public_remarks())
        return (*words, *(() if self.group is not None else (UNGROUPED,)))

    @property
    def label_names(self) -> tuple[str, ...]:
        return self._label_form.names

    @cached_property
    def _label_form(self) -> rows.Labels:
        """How cells become a bit for each label."""
        if self.label_separator is None or not self.labels:
            hint = LABEL_HINT if self.true else f"{LABEL_HINT}; data.true=WORD names another word for yes"
            return rows.Labels(self.labels, self._truths(), hint)
        known = [name for file in self._files.values() for name in file.names]
        column, names, separator = self.labels[0], self.labels[1:], self.label_separator
        if column not in known:  # the public column whose cells name the labels of the setting and no other
            names, wanted = self.labels, {word for label in self.labels for word in rows.label_words(label, separator)}
            said = {
                name: self._labels_named_in(name, separator) for name in self._public.names if "public" in self._files
            }
            found = [name for name, words in said.items() if words and words <= wanted]
            rule = "first the column that names them, behind it the labels: [COLUMN,NAME,NAME]"
            require(len(found) == 1, "data.labels", f"[{','.join(self.labels)}]", rule)
            column = found[0]
        names = names or tuple(sorted(self._labels_named_in(column, separator)))
        rule = f"the labels too, [{column},NAME,NAME]: the public file names none, and those of private rows are secret"
        require(len(names) > 0, "data.labels", f"[{column}]", rule)
        clash = next((name for name in names if name in known), None)
        require(clash is None, "data.labels", clash, "a label that is called otherwise than every column")
        return rows.Labels(names, column=column, separator=separator)

    def _labels_named_in(self, column: str, separator: str) -> set[str]:
        """Those that public rows name in a column."""
        file = self._files.get("public")
        if file is None or column not in file.names:
            return set()
        texts = cells.counts_of(as_texts(file.spelling().known(file.read([column])).column(column)))
        return {word for text in texts for word in rows.label_words(text, separator)}

    def _truths(self) -> dict[str, tuple[str | None, str]]:
        """The words for no and yes of each label that has the word for yes somewhere."""
        if self.true is None or not self.labels:
            return {}
        yes, words = rows.label_word(self.true), {label: set[str]() for label in self.labels}
        for file in self._files.values():
            there = [label for label in self.labels if label in file.names]
            for _, batch in file.rows(there) if there else ():
                for label in there:
                    cell = as_texts(file.spelling().known(batch).column(label))
                    words[label] |= set(map(rows.label_word, cells.counts_of(cell)))
        found = {label: sorted(said - {yes}) for label, said in words.items() if yes in said}
        require(len(found) > 0, "data.true", self.true, "a word of some label's column, and none has it")
        for label, others in found.items():
            rule = f"{self.true} and one other word in {label}, it has {len(others)} others"
            require(len(others) < 2, "data.true", self.true, rule)
        return {label: (others[0] if others else None, yes) for label, others in found.items()}

    @cached_property
    def table_schema(self) -> TableSchema:
        """The schema: from its file, or from the public records."""
        said: dict[str, str] = {}
        if self.schema is not None:
            for role in ("category", "text"):
                rule = f"none beside data.schema, whose kinds hold; pate-schema {role}=[…] writes them there"
                require(not self._named(role), f"data.{role}", list(self._named(role)), rule)
            schema = TableSchema.load(Path(self.schema)).without(self._no_features)
            known = {*schema.names, *self._no_features}
            if unknown := [name for name in self._public.names if name not in known]:
                rule = f"the column {unknown[0]}, or {as_setting('data.drop', unknown[:1])}"
                raise InvalidValue(f"data.schema={self.schema}: expected also {rule}")
        else:
            schema, lines = self._public_reading
            said = dict(reversed(lines))  # of each column the first
        schema.require_usable(self._public.name, said, self.text)
        return schema

    @cached_property
    def _no_features(self) -> set[str]:
        """All columns that become no features."""
        others = (each for each in (self.budget, self.id) if each)
        return {*self.label_names, *self._label_form.columns, *self.drop, *self._named("group"), *others}

    @cached_property
    def _files(self) -> dict[str, TableFile]:
        """Of each split that settings name: its own, or the rows of one for all."""
        spelled = self.encoding, self.decimal, self.thousands, self.missing
        given = {split: getattr(self, split) for split in SPLITS}
        if self.path is not None:
            return {each: TableFile(Path(self.path), "data.path", *spelled, self.split, each) for each in SPLITS}
        return {split: TableFile(Path(path), f"data.{split}", *spelled) for split, path in given.items() if path}

    @property
    def _public(self) -> TableFile:
        require("public" in self._files, "data.public", None, "the file of the public records")
        return self._files["public"]

    def _wanted(self, split: str) -> list[str]:
        """The columns that settings name and a file has to have, or raises: a public one may have no label at all."""
        file, wanted = self._files[split], list[str]()
        there = {name.casefold() for name in file.names}
        for role in ("labels", "group", "id", *(["budget"] if split == "private" else [])):
            named = self._label_form.columns if role == "labels" else self._named(role)
            if (role, split) == ("labels", "public") and not any(name.casefold() in there for name in named):
                continue
            for column in named:
                cells.require_column(f"data.{role}", column, file.names, file.name)
            wanted += named
        return wanted

    def _named(self, role: str) -> tuple[str, ...]:
        named = getattr(self, role) or ()
        return (named,) if isinstance(named, str) else named

    def _require_columns(self) -> None:
        """Raises unless each file has the columns that settings name, and those of the public file."""
        names_of = {split: file.names for split, file in self._files.items()}
        there = list(dict.fromkeys(name for names in names_of.values() for name in names))
        for column in self.drop:
            cells.require_column("data.drop", column, there, "a file")
        for split, file in self._files.items():
            self._wanted(split)
            for name in file.names:
                lacking = next((each for each in SPLITS if name not in names_of[each]), None)
                if lacking is not None and name not in self._no_features:
                    rule = f"it in every file, data.{lacking} lacks it; {as_setting('data.drop', [name])}"
                    raise InvalidValue(f"{file.name}.{name}: expected {rule}")

    def _rows(self, split: str, schema: TableSchema, spelling: Spelling, stage: Stage = unwatched) -> rows.Rows:
        file, budget = self._files[split], self.budget if split == "private" else None
        columns = list(dict.fromkeys((*schema.names, *self._wanted(split))))
        cells.require_columns(file.name, file.names, columns)
        name = file.name if self.path is None else f"data.path, {split}"
        batches, size = file.rows(columns), file.path.stat().st_size // 1000
        named: Any = {"group": self._named("group"), "id": self.id, "budget": budget}
        with stage(f"texts of {split} records, kB", size) if schema.texts else unwatched("", 0) as advance:
            batches = rows.gathered(batches, size, advance) if schema.texts else batches
            return rows.Rows(batches, schema, self._label_form, name=name, split=split, spelling=spelling, **named)
