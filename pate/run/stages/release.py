"""`pate-release`: votes that others cast are added up, paid for, drawn once and published.

`Queries` are what was asked, from a file. `Cohort` is who voted: all that a release says of its votes beside their sum.
`Terms` is what is said of the release.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Ledger, PrivacyUnit, SharedLedger
from pate.aggregators import Release
from pate.aggregators.release import PublicNames
from pate.data import Dataset, Preprocessing, TableSchema
from pate.data.copies import remarks_on_copies
from pate.data.dataset import PrivateRecords, read, require_dataset
from pate.data.pictures import require_image_levels
from pate.data.table.files import TableFile
from pate.errors import shown_as
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import (
    FROM_BACKUP,
    MANIFEST,
    Manifest,
    damaged,
    file_digest,
    file_identity,
    read_value,
    write_text,
)
from pate.files.values import to_json
from pate.models.student import Learner
from pate.networks.device import all_cores
from pate.pricing import PricedRelease, plan_release, require_useful
from pate.pricing.remedies import watched_search
from pate.report import Privacy
from pate.report.card import PRIVACY
from pate.report.report import ReleaseSummary
from pate.report.tensorboard import RunWriter
from pate.run.charging import RunCharge
from pate.run.folder import RunFolder
from pate.run.places import Places
from pate.run.progress import Monitor
from pate.run.random_streams import RandomStreams
from pate.run.release import privacy_of, summary_of, watched, write_price
from pate.run.release_terms import ReleaseTerms
from pate.run.student_prior import StudentPrior
from pate.setting_names import RELEASE
from pate.validation import InvalidValue, require, require_moderate, require_text
from pate.votes.foreign import ForeignVotes
from pate.votes.source import VoteSource
from pate.votes.vote_file import GatheredVotes, VoteManifest, queries_digest

TERMS = "terms.json"
ANEW = "copy the folder anew from where pate-release left it"
"""The name of the terms in `release/`, until a student is there; and what mends a damaged folder."""

_TERMS_RULE = "the terms of a release, as pate-release writes them"
_DONE = ("release/release.npz", "release/privacy_card.md", f"release/{PRIVACY}", TERMS)
_RULE = "a file of this finished release"
_QUERIES_REMEDY = "save it with numpy.savez(FILE, inputs=…, ids=…, label_names=…)"
_MOST_BYTES = 2**38
_BESIDE = {
    "ids": ArrayForm("iuU", (None,)),
    "label_names": ArrayForm("U", (None,)),
    "labels": ArrayForm("biu", (None, None)),  # of a public split; not read
    "groups": ArrayForm("iu", (None,)),
}
_SAME_FILE = "all places have the same file, in UTF-8 and with numbers as the schema's file says"
_SHOWN = 5
_ONE_TEACHER = PrivacyUnit.of_teacher()
Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Queries:
    """Public samples in a fixed order: the first are asked about, and the student may learn from the others."""

    inputs: NDArray[np.float32]  # float32 `[P, …]`, as models take them
    record_ids: NDArray[Any]  # `[P]`, what they are called where they are published
    label_names: tuple[str, ...] = ()  # what is asked about, where the file says so; else none
    preprocessing: Preprocessing | None = None  # what made the inputs; None where they are given

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        inputs = np.asarray(dataset.public.inputs, dtype=np.float32)
        return cls(inputs, dataset.published_ids, dataset.label_names, dataset.preprocessing)

    @classmethod
    def read(cls, path: Path, *, schema: Path | str | None = None) -> Self:
        """From a table, whose columns the schema that `pate-schema` wrote makes into inputs, or an .npz file of arrays.

        That has `inputs` (numbers `[P, d]`, or images `[P, channels, height, width]` as bytes or in [0, 1]), and where
        there are any `ids` and `label_names`. Raises for no such file, a damaged one, a table without a schema.
        """
        if path.suffix != ".npz":
            if schema is None:
                rule = "the file of pate-schema beside a table: data.schema=FILE for pate-vote, else table_schema=FILE"
                raise InvalidValue("queries", path, rule=rule)
            form = TableSchema.load(schema)
            try:
                table = TableFile(path, "queries").read(list(form.names))
                inputs = form.inputs(table, name="queries")
            except InvalidValue as error:
                if error.hint:  # no setting of queries says how they are written
                    error.hint = _SAME_FILE
                raise
            return cls(inputs, np.arange(len(inputs), dtype=np.int64), (), form)
        arrays = read_arrays(
            path,
            {"inputs": ArrayForm("biuf")},
            beside=_BESIDE,
            remedy=_QUERIES_REMEDY,
            most=_MOST_BYTES,
        )
        inputs = arrays["inputs"]
        rule = "[P, d], or images [P, channels, height, width]"
        require(inputs.ndim in (2, 4) and len(inputs) > 0, "queries.inputs", inputs.shape, rule)
        if inputs.ndim == 4:
            require_image_levels("queries.inputs", inputs)
        given = inputs.astype(np.float32)
        if inputs.dtype == np.uint8 and inputs.ndim == 4:
            given /= np.float32(255)
        require_moderate("queries.inputs", given)
        ids = arrays.get("ids", np.arange(len(inputs), dtype=np.int64))
        require(
            len(ids) == len(inputs),
            "len(queries.ids)",
            len(ids),
            f"{len(inputs)}, one for each sample",
        )
        require(
            len(np.unique(ids)) == len(ids),
            "queries.ids",
            "one twice",
            "another id for each sample",
        )
        return cls(given, ids, tuple(arrays.get("label_names", np.zeros(0, np.str_)).tolist()))


@dataclass(frozen=True)
class AskedData:
    """A reader of a holder's records whose public records are the queries of a file."""

    data: Any  # the reader of the records; of one that can, only the private ones are read
    path: Path  # of the queries; in a table they are read by the data's own schema

    def load(self) -> Dataset:
        """The data set, asked about other public samples; their true labels are not known."""
        schema = getattr(self.data, "schema", None)
        private = getattr(self.data, "private", None)
        if isinstance(private, str):
            rule = "another file than data.private, whose records are not public"
            require(file_identity(private) != file_identity(self.path), "queries", self.path, rule)
        queries = Queries.read(self.path, schema=Path(schema) if isinstance(schema, str) else None)
        if hasattr(self.data, "private_records"):
            records: PrivateRecords = self.data.private_records()
        else:
            whole = require_dataset(read(self.data))
            records = PrivateRecords(
                whole.name,
                whole.label_names,
                whole.private,
                preprocessing=whole.preprocessing,
                private_cells=whole.private_digest(),
                real=whole.real,
                notes=whole.notes,
                group_unit=whole.privacy_unit,
            )
        if queries.label_names:
            shown = ", ".join(records.label_names[:_SHOWN])
            rule = f"the labels of data, in their order: {shown}{', …' if len(records.label_names) > _SHOWN else ''}"
            require(
                queries.label_names == records.label_names, "queries.label_names", "others", rule
            )
        dataset = records.asked(queries.inputs, queries.record_ids)
        copies = remarks_on_copies(dataset.private, dataset.public)
        return replace(dataset, notes=(*dataset.notes, *copies))


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort:
    """The holders of one release, as one."""

    dataset: str  # the public name of their data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    record_ids: NDArray[Any]  # `[Q]`, what queries are called
    label_names: tuple[str, ...]  # L
    # of the votes: a release that was begun goes on with the same. Covered by no epsilon.
    digest: str
    queries: str = ""  # `queries_digest` of what was asked; empty where it is not known
    # how teachers are spread; None where it is not known whose they are
    places: Places | None = None
    num_groups: int | None = None  # units of privacy; None where nobody vouches for a number
    # what the price is for: a teacher, unless all holders vouch for the same groups of records
    unit: PrivacyUnit = _ONE_TEACHER
    features: Mapping[str, Scalar] = field(default_factory=dict)  # what stands for pictures, public
    # that holders agree in, public: YAML by group
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.dataset)

    @classmethod
    def of_heads(cls, heads: Sequence[VoteManifest], **known: Any) -> Self:
        """Holders who vouch so: what they agree in is said of all; `known` are the other attributes."""
        first = heads[0]
        real = all(head.real for head in heads)
        told = first.settings.items()
        agreed = {
            name: text
            for name, text in told
            if all(head.settings.get(name) == text for head in heads)
        }
        about: dict[str, Any] = {"features": first.features, "settings": agreed, **known}
        if first.unit is not None and all(head.unit == first.unit for head in heads):
            about["unit"] = first.unit.at_one_holder
        return cls(dataset=first.dataset, real=real, **about)

    @classmethod
    def of_files(cls, votes: GatheredVotes) -> Self:
        places = Places(len(votes.heads), votes.teachers_per_holder)
        return cls.of_heads(
            votes.heads,
            places=places,
            digest=votes.digest,
            num_groups=votes.num_groups,
            record_ids=votes.record_ids,
            label_names=votes.label_names,
            queries=votes.heads[0].queries,
        )

    @classmethod
    def of_others(cls, votes: ForeignVotes, name: str) -> Self:
        """Whoever is behind the files of another project; the name of their data is published."""
        return cls(
            dataset=name,
            record_ids=votes.record_ids,
            label_names=votes.label_names,
            digest=votes.digest,
        )

    @property
    def account(self) -> str:
        """What a ledger counts their releases under: of the name alone, so that each counts for whoever took part."""
        return hashlib.sha256(f"holders of {self.dataset}".encode()).hexdigest()


@dataclass(frozen=True)
class Terms:
    """What the student's card says of a release whose student is still to be trained; the price covers all of it."""

    privacy: Privacy  # the price
    release: ReleaseSummary  # how much was answered
    num_labels: int
    num_teachers: int
    dataset: str  # the public name of the data
    real: bool  # False for synthetic records
    queries: str  # `queries_digest` of what was asked; empty where it is not known
    sha256: Mapping[str, str]  # of release.npz, privacy_card.md and privacy.json, by name
    features: Mapping[str, Scalar] = field(default_factory=dict)  # what stands for pictures

    @classmethod
    def read(cls, folder: Path | str) -> Self:
        """From a folder; raises `DamagedFile` where there are none, or they were changed."""
        return read_value(cls, Path(folder, TERMS), name="terms", rule=_TERMS_RULE, remedy=ANEW)


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(ReleaseTerms):
    """Everything that a release depends on beside the votes."""

    aggregator_name: str | None = None  # that it was configured by, where that may be published
    # whose predictions are the prior, for an aggregator that goes by one
    student: Learner | None = None
    queries: Callable[[], Queries] | None = None  # reads what was asked, for such an aggregator
    # makes `release/config.yaml` of the aggregator as it was used, the cohort, `num_queries` and `num_teachers`
    public_settings: Callable[..., str] | None = None


@all_cores()
@shown_as(RELEASE)
def release_votes(
    plan: ReleasePlan,
    source: VoteSource,
    cohort: Cohort,
    output_dir: Path | str,
    monitor: Monitor | None = None,
) -> Terms:
    """Prices, charges, draws and writes a release of votes that others cast, or continues one that was killed.

    In the order of a run. A finished release is read back at no cost. Of `output_dir`, of mode 0700, `release/` may be
    published. Raises for an aggregator that needs other votes, a target that no noise reaches, a release that tells
    nothing, a prior without queries; a folder or a ledger of others, other votes than those that were begun with.
    """
    folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with folder.opened(plan.settings):
        priced = _priced(plan, source, cohort, monitor)
        config = None
        if plan.public_settings is not None:  # of what others sent: refused before it is paid for
            config = plan.public_settings(
                priced.aggregator,
                cohort,
                num_queries=source.num_queries,
                num_teachers=source.num_teachers,
            )
        _require_ledger(plan, cohort)
        charge = RunCharge.open(plan, priced, folder, data=cohort.account, unit=cohort.unit)
        folder.claim(
            plan.settings, data=cohort.digest, release=priced.identity, private=cohort.account
        )
        if os.path.lexists(folder.path / MANIFEST):
            listed = Manifest.read(
                folder.path, rule="the digests of a finished release", remedy=FROM_BACKUP
            ).sha256
            # a student may be there beside them
            for name, digest in _digests(folder.path, *_DONE).items():
                if listed.get(name) != digest:
                    raise damaged(
                        folder.path / name,
                        "the file as this release left it",
                        "it is another",
                        FROM_BACKUP,
                    )
            charge.begin(monitor, redraw=False)  # a ledger that does not know of it is charged
            monitor.say(
                f"output_dir={folder.path}: this release is finished; nothing was drawn or spent again"
            )
            return Terms.read(folder.path)
        for line in map(RELEASE.doubt_line, priced.doubts):
            monitor.say(line)
        charge.begin(monitor, redraw=plan.redraw)
        inputs = np.zeros((0, 1), dtype=np.float32)
        count = source.num_queries
        if priced.aggregator.expects_prior and plan.queries is not None:
            queries = plan.queries()
            require_queries(queries, count, cohort.queries, rule=f"at least {count} samples")
            inputs = queries.inputs[:count]
        streams = RandomStreams.of_run(folder.training_secret, plan.seed)
        aggregator = priced.aggregator
        if plan.student is not None:
            seed = streams.seed("student")
            prior = StudentPrior(plan.student, inputs, seed, never_empty=aggregator.never_empty)
            aggregator = aggregator.with_prior(prior)
        with monitor.stage("releasing labels", priced.shape.num_queries) as advance:
            record = watched(charge.record(), priced, advance, RunWriter(None))
            release = aggregator.release(source, streams.generator("noise"), record)
        charge.publish(release, PublicNames(cohort.record_ids, cohort.label_names), monitor)
        return _write(plan, release, cohort, charge, config)


def _priced(
    plan: ReleasePlan, source: VoteSource, cohort: Cohort, monitor: Monitor
) -> PricedRelease:
    """Checks that a plan can read these votes, solves for its noise, and prices the release; nothing is spent."""
    aggregator = plan.aggregator
    budget = plan.budget
    aggregator.check_run()
    aggregator.require_source(source)
    if aggregator.expects_prior and (plan.queries is None or plan.student is None):
        rule = "the public samples that were asked: this aggregator compares votes with what a student predicts"
        raise InvalidValue("queries", None, rule=rule)
    with monitor.stage("pricing the release"):
        priced = plan_release(aggregator, source.shape, budget)
    doubts = require_useful(
        aggregator,
        priced,
        budget,
        num_groups=cohort.num_groups,
        allow_useless=plan.allow_useless,
        search=watched_search(monitor, RELEASE),
    )
    return replace(priced, doubts=doubts)


def _require_ledger(plan: ReleasePlan, cohort: Cohort) -> None:
    """Raises for a named ledger that counts for other data: it would say nothing of what these holders have spent."""
    if plan.ledger is not None and os.path.exists(plan.ledger):
        Ledger.stored(plan.ledger, data=cohort.account)
        others = [data for data in SharedLedger.stored(plan.ledger).data if data != cohort.account]
        rule = f"a new file, or the ledger of releases of {cohort.dataset}; this one counts for other data"
        require(not others, "ledger", plan.ledger, rule)


def require_queries(queries: Queries, count: int, digest: str, *, rule: str) -> None:
    """Raises where these are too few samples, by a rule, or not those that were asked; an empty digest cannot tell."""
    found = len(queries.inputs)
    require(found >= count, "queries", found, rule)
    asked = queries_digest(queries.inputs[:count], queries.record_ids[:count])
    rule = f"those that the teachers answered: the same {count} samples first, in the same order, by the same ids"
    require(digest in ("", asked), "queries", "others", rule)


def _write(
    plan: ReleasePlan, release: Release, cohort: Cohort, charge: RunCharge, config: str | None
) -> Terms:
    """The files of `release/` but the student's, and what the student's will say of it."""
    folder = charge.folder
    shape = charge.priced.shape
    features = dict(cohort.features)
    privacy = privacy_of(release, charge)
    write_price(
        release,
        charge,
        privacy,
        cohort.places,
        data=cohort.dataset,
        real=cohort.real,
        name=plan.aggregator_name,
        features=features or None,
    )
    if config is not None:
        write_text(folder.release / "config.yaml", config)
    files = _digests(folder.release, "release.npz", "privacy_card.md", PRIVACY)
    terms = Terms(
        privacy,
        summary_of(release),
        shape.num_labels,
        shape.num_teachers,
        dataset=cohort.dataset,
        real=cohort.real,
        queries=cohort.queries,
        sha256=files,
        features=features,
    )
    for place in (folder.release, folder.path):
        write_text(place / TERMS, to_json(terms) + "\n")
    Manifest(1, _digests(folder.path, *_DONE)).write(folder.path)
    return terms


def _digests(folder: Path, *names: str) -> Mapping[str, str]:
    return {name: file_digest(folder / name, remedy=FROM_BACKUP, rule=_RULE) for name in names}
