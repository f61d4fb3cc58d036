"""The release of votes that other processes have cast (`pate-release`): steps 1 and 3 of `pate.run.train.train`."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pate.accounting import Ledger, SharedLedger
from pate.aggregators import Aggregator, Release
from pate.aggregators.release import PublicNames
from pate.errors import shown_as
from pate.files.atomic import write_text
from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST, Manifest
from pate.files.reading import FROM_BACKUP, damaged, read_value
from pate.files.strict_json import to_json
from pate.models.student import Learner
from pate.pricing import PricedRelease, plan_release, require_useful
from pate.pricing.remedies import search_with_progress
from pate.progress import Monitor
from pate.report import Privacy
from pate.report.card import PRIVACY, cell
from pate.report.privacy import Scalar
from pate.report.report import ReleaseSummary
from pate.report.tensorboard import RunWriter
from pate.run.charging import RunCharge
from pate.run.cohort import Cohort
from pate.run.folder import RunFolder
from pate.run.published_price import privacy_of, summary_of, write_price
from pate.run.queries import Queries, require_queries
from pate.run.random_streams import RandomStreams
from pate.run.release_terms import ReleaseTerms
from pate.run.session_progress import with_progress
from pate.run.student_prior import StudentPrior
from pate.setting_names import RELEASE
from pate.threads import all_cores
from pate.validation import InvalidValue, require
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

TERMS = "terms.json"
ANEW = "copy the folder anew from where pate-release left it"
"""The name of the terms in `release/`, until a student is there; and what mends a damaged folder."""

_TERMS_RULE = "the terms of a release, as pate-release writes them"
_DONE = ("release/release.npz", "release/privacy_card.md", f"release/{PRIVACY}", TERMS)
_RULE = "a file of this finished release"
_LABELS_SAID = 5


@dataclass(frozen=True)
class Terms:
    """The price and the public facts of a drawn release, as `pate-student` needs them for its cards.

    `pate-release` writes the terms to a file. They are not `ReleaseTerms`, the settings of a release before it is
    drawn.
    """

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
        """Reads the terms from a folder; raises `DamagedFile` if the file is missing or was changed."""
        return read_value(cls, Path(folder, TERMS), name="terms", rule=_TERMS_RULE, remedy=ANEW)


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(ReleaseTerms):
    """The settings and parts of a release: everything that it depends on, except the votes."""

    aggregator_name: str | None = None  # that it was configured by, where that may be published
    # whose predictions are the prior, for an aggregator that goes by one
    student: Learner | None = None
    queries: Callable[[], Queries] | None = None  # reads what was asked, for such an aggregator
    # makes `release/config.yaml` of the aggregator as it was used, the cohort and the size of the release
    public_settings: Callable[[Aggregator, Cohort, VoteShape], str] | None = None


@all_cores()
@shown_as(RELEASE)
def release_votes(
    plan: ReleasePlan,
    *,
    votes: VoteSource,
    cohort: Cohort,
    output_dir: Path | str,
    monitor: Monitor | None = None,
) -> Terms:
    """Prices, charges, draws and writes a release of given votes, or continues a release that was killed.

    The steps are those of `pate.run.train.train`. The holders of the records have done step 2, and `pate-student` does
    step 4. A finished release is read back at no cost.

    Args:
        plan: the settings and parts of the release.
        votes: the votes of the holders' teachers.
        cohort: the public facts about the holders, the queries and the labels.
        output_dir: the folder of the release, with mode 0700. Only its subfolder `release/` may be published.
        monitor: shows the progress; None shows nothing.

    Raises:
        InvalidValue: the aggregator needs other votes or public samples. No noise reaches the target epsilon. The
            release would be useless. The folder or the ledger belongs to other data. The folder's release began with
            other votes.
    """
    folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with folder.opened(plan.settings):
        # 1. The price. It depends on the shape of the votes alone; nothing is spent.
        priced = price(plan, votes, cohort, monitor)
        config = None
        if plan.public_settings is not None:  # of what others sent: refused before it is paid for
            config = plan.public_settings(priced.aggregator, cohort, votes.shape)
        _require_ledger(plan, cohort)
        charge = RunCharge.open(
            terms=plan,
            priced=priced,
            folder=folder,
            data_digest=cohort.account,
            unit=cohort.unit,
        )
        folder.claim(
            plan.settings,
            digests={
                "data": cohort.digest,
                "release": priced.identity,
                "private": cohort.account,
            },
        )
        if os.path.lexists(folder.path / MANIFEST):
            return _finished_terms(folder, charge, monitor)
        for line in map(RELEASE.doubt_line, priced.doubts):
            monitor.say(line)
        if cohort.label_holders is not None:
            for line in cohort.label_holders.lines(most_shown=_LABELS_SAID):
                monitor.say(line)
        charge.begin(monitor, redraw=plan.redraw)
        streams = RandomStreams.of_run(folder.training_secret, plan.seed)

        # 2. The teachers of the holders have learned from their records, and voted (`pate-vote`).
        #    Private: `votes`. No epsilon covers them.

        # 3. The only way out: `aggregator.release` draws noise around the votes, and `record` commits what is drawn in
        #    one step with its charge. A kill before that step has shown and charged nothing; after it, the same call
        #    reads back what was drawn.
        #    Not private: `release`, which has the stated epsilon and may be published.
        aggregator = priced.aggregator
        if aggregator.expects_prior:
            aggregator = aggregator.with_prior(_prior(plan, cohort, priced, streams))
        record = charge.record()
        with monitor.stage("releasing labels", priced.shape.num_queries) as advance:
            progress_record = with_progress(
                record, priced=priced, advance=advance, events=RunWriter(folder=None)
            )
            release = aggregator.release(
                votes, rng=streams.generator("noise"), record=progress_record
            )
        charge.publish(
            release, names=PublicNames(cohort.record_ids, cohort.label_names), monitor=monitor
        )
        return _write(plan, release, cohort, charge, config)


def price(plan: ReleasePlan, votes: VoteSource, cohort: Cohort, monitor: Monitor) -> PricedRelease:
    """Checks that a plan can use these votes, solves for its noise, and returns the priced release.

    Of the votes only their form and shape are used. Nothing is spent.

    Args:
        plan: the settings and parts of the release.
        votes: the votes of the holders' teachers.
        cohort: the public facts about the holders.
        monitor: shows the progress.

    Raises:
        InvalidValue: the aggregator needs other votes or public samples, or no noise meets the budget, or the release
            would be useless.
    """
    aggregator = plan.aggregator
    budget = plan.budget
    aggregator.check_run()
    aggregator.require_source(votes)
    if aggregator.expects_prior and (plan.queries is None or plan.student is None):
        rule = "the public samples that were asked: this aggregator compares votes with what a student predicts"
        raise InvalidValue("queries", value=None, rule=rule)
    with monitor.stage("pricing the release"):
        priced = plan_release(aggregator, votes.shape, budget)
    doubts = require_useful(
        aggregator,
        priced,
        budget,
        num_groups=cohort.num_groups,
        allow_useless=plan.allow_useless,
        search=search_with_progress(monitor, spelling=RELEASE),
    )
    return replace(priced, doubts=doubts)


def _prior(
    plan: ReleasePlan, cohort: Cohort, priced: PricedRelease, streams: RandomStreams
) -> StudentPrior:
    """Returns the prior of an aggregator that compares votes with predictions of a student.

    Raises:
        InvalidValue: the plan's samples are not those that the teachers voted on.
    """
    assert plan.queries is not None and plan.student is not None  # as `price` requires
    queries = plan.queries()
    num_queries = priced.shape.num_queries
    require_queries(
        queries, count=num_queries, digest=cohort.queries, rule=f"at least {num_queries} samples"
    )
    return StudentPrior(
        student=plan.student,
        inputs=queries.inputs[:num_queries],
        seed=streams.seed("student"),
        never_empty=priced.aggregator.never_empty,
    )


def _finished_terms(folder: RunFolder, charge: RunCharge, monitor: Monitor) -> Terms:
    """Returns the terms of a finished release; raises `DamagedFile` if a file of the release was changed.

    A ledger that lacks the charge of the release is charged.
    """
    rule = "the digests of a finished release"
    listed = Manifest.read(folder.path, rule=rule, remedy=FROM_BACKUP).sha256
    # the files of a student may be there, too
    for name, digest in _digests(folder.path, *_DONE).items():
        if listed.get(name) != digest:
            rule = "the file as this release left it"
            raise damaged(
                folder.path / name, rule=rule, finding="it is another", remedy=FROM_BACKUP
            )
    charge.begin(monitor, redraw=False)  # a ledger that does not know of it is charged
    monitor.say(
        f"output_dir={folder.path}: this release is finished; nothing was drawn or spent again"
    )
    return Terms.read(folder.path)


def _require_ledger(plan: ReleasePlan, cohort: Cohort) -> None:
    """Raises `InvalidValue` if `ledger=` names a ledger that counts for other data than the cohort's.

    Such a ledger does not know what these holders have spent.
    """
    if plan.ledger is not None and os.path.exists(plan.ledger):
        Ledger.stored(plan.ledger, data=cohort.account)
        others = [data for data in SharedLedger.stored(plan.ledger).data if data != cohort.account]
        rule = f"a new file, or the ledger of releases of {cohort.dataset}; this one counts for other data"
        require(not others, "ledger", plan.ledger, rule)


def _write(
    plan: ReleasePlan, release: Release, cohort: Cohort, charge: RunCharge, config: str | None
) -> Terms:
    """Writes the files of `release/`, except the student's, and the terms; returns the terms.

    Args:
        plan: the settings and parts of the release.
        release: the drawn release.
        cohort: the public facts about the holders.
        charge: the charge of the release in its ledger.
        config: the text of `release/config.yaml`; None writes no such file.
    """
    folder = charge.folder
    shape = charge.priced.shape
    features = dict(cohort.features)
    privacy = privacy_of(drawn_release=release, release_charge=charge)
    promises: Sequence[str] = ()
    if cohort.places is not None:
        promises = cohort.places.promises(release, charge.budget, num_draws=charge.num_draws)
    if cohort.label_holders is not None:
        promises = (*promises, *map(cell, cohort.label_holders.lines()))
    write_price(
        drawn_release=release,
        release_charge=charge,
        privacy=privacy,
        folder=folder.release,
        places=promises,
        data=cohort.dataset,
        real=cohort.real,
        name=plan.aggregator_name,
        features=features or None,
        labels_have_gaps=cohort.labels_have_gaps,
        label_names=cohort.label_names,
        public_answers=cohort.public_answers,
    )
    if config is not None:
        write_text(folder.release / "config.yaml", text=config)
    files = _digests(folder.release, "release.npz", "privacy_card.md", PRIVACY)
    terms = Terms(
        privacy=privacy,
        release=summary_of(drawn_release=release),
        num_labels=shape.num_labels,
        num_teachers=shape.num_teachers,
        dataset=cohort.dataset,
        real=cohort.real,
        queries=cohort.queries,
        sha256=files,
        features=features,
    )
    for place in (folder.release, folder.path):
        write_text(place / TERMS, text=to_json(terms) + "\n")
    Manifest(manifest=1, sha256=_digests(folder.path, *_DONE)).write(folder.path)
    return terms


def _digests(folder: Path, *names: str) -> Mapping[str, str]:
    return {name: file_digest(folder / name, remedy=FROM_BACKUP, rule=_RULE) for name in names}
