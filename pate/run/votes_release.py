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
from pate.pricing.remedies import remedy_search_with_progress
from pate.progress import Monitor
from pate.report import Privacy
from pate.report.card import PRIVACY_FILE, markdown_cell
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
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

TERMS = "terms.json"
"""The name of the file of the terms. It lies in `release/` until a student is there."""

COPY_ANEW = "copy the folder anew from where pate-release left it"
"""The remedy for a damaged folder of a release."""

_TERMS_RULE = "the terms of a release, as pate-release writes them"
# The files of a finished release, whose digests its manifest lists.
_FINISHED_FILES = (
    "release/release.npz",
    "release/privacy_card.md",
    f"release/{PRIVACY_FILE}",
    TERMS,
)
_RULE = "a file of this finished release"
# The screen names at most this many labels that not every holder has.
_MAX_LABELS_SHOWN = 5


@dataclass(frozen=True)
class Terms:
    """The price and the public facts of a drawn release, as `pate-student` needs them for its cards.

    `pate-release` writes the terms to a file. They are not `ReleaseTerms`, the settings of a release before it is
    drawn.

    Attributes:
        privacy: the price.
        release: the numbers of queries and answers.
        num_labels: the number of labels.
        num_teachers: the number of teachers.
        dataset: the public name of the data.
        real: True for records of real people, False for synthetic records.
        queries: the `queries_digest` of the samples that teachers voted on; empty where they are not known.
        sha256: the digests of release.npz, privacy_card.md and privacy.json, by file name.
        features: the settings of the features that replace pictures; empty if the inputs are plain numbers.
    """

    privacy: Privacy
    release: ReleaseSummary
    num_labels: int
    num_teachers: int
    dataset: str
    real: bool
    queries: str
    sha256: Mapping[str, str]
    features: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | str) -> Self:
        """Reads the terms from a folder.

        No digest is compared, so a change to another valid value is not noticed.

        Raises:
            DamagedFile: the file is missing, or is not JSON with valid values of all fields.
        """
        return read_value(
            cls, Path(folder, TERMS), name="terms", rule=_TERMS_RULE, remedy=COPY_ANEW
        )


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(ReleaseTerms):
    """The settings and parts of a release: everything that it depends on, except the votes.

    The fields are those of `ReleaseTerms`, and the following.

    Attributes:
        aggregator_name: the name of the aggregator in the configuration; None if the name may not be published.
        student: the recipe of the student whose predictions are the prior of an aggregator with a prior; None for none.
        queries: reads the samples that teachers voted on, for an aggregator with a prior; None for none.
        make_release_config_text: returns the text of `release/config.yaml`, from the aggregator with its noise, the
            cohort and the shape of the release; None writes no such file.
    """

    aggregator_name: str | None = None
    student: Learner | None = None
    queries: Callable[[], Queries] | None = None
    make_release_config_text: Callable[[Aggregator, Cohort, VoteShape], str] | None = None


@all_cores()
@shown_as(RELEASE)
def release_votes(
    release_plan: ReleasePlan,
    *,
    vote_source: VoteSource,
    cohort: Cohort,
    output_dir: Path | str,
    monitor: Monitor | None = None,
) -> Terms:
    """Prices, charges, draws and writes a release of given votes, or continues a release that was killed.

    The holders of the records have trained their teachers and collected the votes before. `pate-student` trains a
    student on the release later. A finished release is read back at no cost.

    Args:
        release_plan: the settings and parts of the release.
        vote_source: yields the votes of the holders' teachers.
        cohort: the public facts about the holders, the queries and the labels.
        output_dir: the folder of the release, with mode 0700. Only its subfolder `release/` may be published.
        monitor: shows the progress; None shows nothing.

    Raises:
        InvalidValue: the aggregator needs other votes or public samples. No noise reaches the target epsilon. The
            release would be useless. The folder or the ledger belongs to other data. The folder's release began with
            other votes.
    """
    run_folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with run_folder.lock_for(settings=release_plan.settings):
        # 1. The price. It depends on the shape of the votes alone; nothing is spent.
        priced_release = _price_release(
            release_plan, vote_source=vote_source, cohort_facts=cohort, monitor=monitor
        )
        config_yaml = None
        if release_plan.make_release_config_text is not None:
            # Holders sent the settings, so they are checked before anything is paid.
            config_yaml = release_plan.make_release_config_text(
                priced_release.aggregator, cohort, vote_source.shape
            )
        _require_ledger(release_plan, cohort_facts=cohort)
        run_charge = RunCharge.open(
            release_terms=release_plan,
            priced_release=priced_release,
            run_folder=run_folder,
            data_digest=cohort.account_name,
            unit=cohort.unit,
        )
        run_folder.claim(
            release_plan.settings,
            digests={
                "data": cohort.votes_digest,
                "release": priced_release.identity,
                "private": cohort.account_name,
            },
        )
        if os.path.lexists(run_folder.path / MANIFEST):
            return _finished_terms(run_folder, run_charge=run_charge, monitor=monitor)
        for doubt in priced_release.doubts:
            monitor.say(RELEASE.doubt_line(doubt))
        if cohort.label_holders is not None:
            for label_holders_line in cohort.label_holders.lines(max_shown=_MAX_LABELS_SHOWN):
                monitor.say(label_holders_line)
        run_charge.begin(monitor, redraw=release_plan.redraw)
        streams = RandomStreams.of_run(
            secret_file=run_folder.training_secret, seed=release_plan.seed
        )

        # 2. The teachers of the holders have learned from their records, and voted (`pate-vote`).
        #    Private: `vote_source`. No epsilon covers them.

        # 3. The only way out. `aggregator.release` draws noise around the votes, and `record` commits what is drawn in
        #    one step with its charge. If the process is killed before that step, nothing was shown or charged. If it is
        #    killed after that step, the same call reads back what was drawn.
        #    Not private: `release`, which has the stated epsilon and may be published.
        aggregator = priced_release.aggregator
        if aggregator.expects_prior:
            student_prior = _student_prior(
                release_plan,
                cohort_facts=cohort,
                priced_release=priced_release,
                seed=streams.seed("student"),
            )
            aggregator = aggregator.with_prior(student_prior)
        release_record = run_charge.record()
        with monitor.stage("releasing labels", priced_release.shape.num_queries) as advance:
            progress_record = with_progress(
                release_record,
                priced_release=priced_release,
                advance=advance,
                tensorboard_writer=RunWriter(folder=None),
            )
            release = aggregator.release(
                vote_source, rng=streams.generator("noise"), record=progress_record
            )
        run_charge.publish(
            release,
            public_names=PublicNames(record_ids=cohort.record_ids, label_names=cohort.label_names),
            monitor=monitor,
        )
        return _write_release(
            release,
            release_plan=release_plan,
            cohort_facts=cohort,
            run_charge=run_charge,
            config_yaml=config_yaml,
        )


def _price_release(
    release_plan: ReleasePlan, *, vote_source: VoteSource, cohort_facts: Cohort, monitor: Monitor
) -> PricedRelease:
    """Checks that a plan can use these votes, solves for its noise, and returns the priced release.

    Of the votes only their form and shape are used. Nothing is spent.

    Args:
        release_plan: the settings and parts of the release.
        vote_source: yields the votes of the holders' teachers.
        cohort_facts: the public facts about the holders.
        monitor: shows the progress.

    Raises:
        InvalidValue: the aggregator needs other votes or public samples, or no noise meets the budget, or the release
            would be useless.
    """
    aggregator = release_plan.aggregator
    budget = release_plan.budget
    aggregator.check_run()
    aggregator.require_source(vote_source)
    if aggregator.expects_prior and (release_plan.queries is None or release_plan.student is None):
        rule = "the public samples that were asked: this aggregator compares votes with what a student predicts"
        raise InvalidValue("queries", value=None, rule=rule)
    with monitor.stage("pricing the release"):
        priced_release = plan_release(aggregator, shape=vote_source.shape, budget=budget)
    doubts = require_useful(
        aggregator,
        priced_release=priced_release,
        budget=budget,
        num_groups=cohort_facts.num_groups,
        allow_useless=release_plan.allow_useless,
        search=remedy_search_with_progress(monitor, spelling=RELEASE),
    )
    return replace(priced_release, doubts=doubts)


def _student_prior(
    release_plan: ReleasePlan, *, cohort_facts: Cohort, priced_release: PricedRelease, seed: int
) -> StudentPrior:
    """Returns the prior of an aggregator: a student that predicts the labels which votes are compared with.

    Args:
        release_plan: the recipe of the student, and the samples that teachers voted on.
        cohort_facts: the public facts about the holders, with the digest of these samples.
        priced_release: the release, with its aggregator and its number of queries.
        seed: the seed of the student's training.

    Raises:
        InvalidValue: the plan's samples are not those that the teachers voted on.
    """
    # `_price_release` requires both.
    assert release_plan.queries is not None
    assert release_plan.student is not None
    queries = release_plan.queries()
    num_queries = priced_release.shape.num_queries
    require_queries(
        queries,
        num_queries=num_queries,
        expected_digest=cohort_facts.queries_digest,
        rule=f"at least {num_queries} samples",
    )
    return StudentPrior(
        student_recipe=release_plan.student,
        inputs=queries.inputs[:num_queries],
        seed=seed,
        never_empty=priced_release.aggregator.never_empty,
    )


def _finished_terms(run_folder: RunFolder, *, run_charge: RunCharge, monitor: Monitor) -> Terms:
    """Returns the terms of a finished release; raises `DamagedFile` if a file of the release was changed.

    If `ledger=` names another ledger than when the release was drawn, the release's charges are copied into it.
    """
    manifest = Manifest.read(
        run_folder.path, rule="the digests of a finished release", remedy=FROM_BACKUP
    )
    # The files of a student, which may be there too, are not compared.
    for name, digest_now in _digests(run_folder.path, file_names=_FINISHED_FILES).items():
        if manifest.sha256.get(name) != digest_now:
            raise damaged(
                run_folder.path / name,
                rule="the file as this release left it",
                finding="it is another",
                remedy=FROM_BACKUP,
            )
    run_charge.begin(monitor, redraw=False)
    monitor.say(
        f"output_dir={run_folder.path}: this release is finished; nothing was drawn or spent again"
    )
    return Terms.read(run_folder.path)


def _require_ledger(release_plan: ReleasePlan, *, cohort_facts: Cohort) -> None:
    """Raises `InvalidValue` if `ledger=` names an existing ledger with any account of other data than the cohort's.

    Such an account is refused even beside one of the cohort's data: it does not count what the cohort's holders spent.
    """
    if release_plan.ledger is None or not os.path.exists(release_plan.ledger):
        return
    # This raises `InvalidValue` if the file is no ledger.
    Ledger.stored(path=release_plan.ledger, data=cohort_facts.account_name)
    if any(
        data != cohort_facts.account_name
        for data in SharedLedger.stored(path=release_plan.ledger).data
    ):
        rule = f"a new file, or the ledger of releases of {cohort_facts.dataset_name}; this one counts for other data"
        raise InvalidValue("ledger", release_plan.ledger, rule=rule)


def _write_release(
    release: Release,
    *,
    release_plan: ReleasePlan,
    cohort_facts: Cohort,
    run_charge: RunCharge,
    config_yaml: str | None,
) -> Terms:
    """Writes the files of `release/`, except the student's, and the terms; returns the terms.

    Args:
        release: the drawn release.
        release_plan: the settings and parts of the release.
        cohort_facts: the public facts about the holders.
        run_charge: the charge of the release in its ledger.
        config_yaml: the text of `release/config.yaml`; None writes no such file.
    """
    run_folder = run_charge.run_folder
    vote_shape = run_charge.priced_release.shape
    feature_settings = dict(cohort_facts.features)
    privacy = privacy_of(drawn_release=release, release_charge=run_charge)
    holder_promises: Sequence[str] = ()
    if cohort_facts.places is not None:
        holder_promises = cohort_facts.places.promises(
            release, budget=run_charge.budget, num_draws=run_charge.num_draws
        )
    if cohort_facts.label_holders is not None:
        holder_promises = (
            *holder_promises,
            *map(markdown_cell, cohort_facts.label_holders.lines()),
        )
    write_price(
        drawn_release=release,
        release_charge=run_charge,
        privacy=privacy,
        release_folder=run_folder.release,
        sentences_on_people=holder_promises,
        data_name=cohort_facts.dataset_name,
        is_real=cohort_facts.has_real_records,
        aggregator_name=release_plan.aggregator_name,
        feature_settings=feature_settings or None,
        labels_have_gaps=cohort_facts.labels_have_gaps,
        label_names=cohort_facts.label_names,
        public_answers_digest=cohort_facts.public_answers_digest,
    )
    if config_yaml is not None:
        write_text(run_folder.release / "config.yaml", text=config_yaml)
    published_digests = _digests(
        run_folder.release, file_names=("release.npz", "privacy_card.md", PRIVACY_FILE)
    )
    drawn_release_facts = Terms(
        privacy=privacy,
        release=summary_of(drawn_release=release),
        num_labels=vote_shape.num_labels,
        num_teachers=vote_shape.num_teachers,
        dataset=cohort_facts.dataset_name,
        real=cohort_facts.has_real_records,
        queries=cohort_facts.queries_digest,
        sha256=published_digests,
        features=feature_settings,
    )
    for terms_folder in (run_folder.release, run_folder.path):
        write_text(terms_folder / TERMS, text=to_json(drawn_release_facts) + "\n")
    file_digests = _digests(run_folder.path, file_names=_FINISHED_FILES)
    Manifest(manifest=1, sha256=file_digests).write(run_folder.path)
    return drawn_release_facts


def _digests(folder: Path, *, file_names: Sequence[str]) -> Mapping[str, str]:
    """Returns the SHA-256 digest of each file of a folder that `file_names` lists, in hexadecimal, by file name."""
    return {name: file_digest(folder / name, remedy=FROM_BACKUP, rule=_RULE) for name in file_names}
