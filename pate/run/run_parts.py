"""The objects that the steps of a run hand on: `PricedRun` from step 1, and `ReleasedRun` from steps 2 to 4.

`pate/run/train.py` numbers the steps, and `pate/run/report_files.py` reads both objects in step 5.
"""

from dataclasses import dataclass

from pate.aggregators import Release
from pate.aggregators.record import ReleaseRecord
from pate.data import Dataset
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.report.released_scores import ReleasedScores
from pate.run.charging import RunCharge
from pate.run.ensemble import Ensemble
from pate.run.folder import RunFolder
from pate.run.plan import Plan
from pate.run.random_streams import RandomStreams
from pate.run.score_release import ScoreCharge
from pate.run.students import KeptModels, TrainedStudent
from pate.votes.source import VoteSource


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class PricedRun:
    """A run whose release has a price and an account. All later steps share these objects.

    Attributes:
        plan: the plan, as `Plan.for_dataset` has completed it for the data set.
        dataset: the data set. Private: it has the private records and the test records, which are private, too.
        priced_release: the aggregator with its noise, and the price.
        run_charge: the charge of the release in the ledger. Private: it has the ids of the owners of the records.
        score_charge: the charge of the student's scores on the test records; None where no scores are released.
        run_folder: the folder of the run. Private, except for `release/`.
        streams: the random numbers of the run.
        kept_models: the folder of trained students, which a continued run reads. Private: baselines are among them.
        monitor: shows the progress.
        start_time: the time when the run began, by `time.monotonic`, in seconds.
    """

    plan: Plan
    dataset: Dataset
    priced_release: PricedRelease
    run_charge: RunCharge
    score_charge: ScoreCharge | None
    run_folder: RunFolder
    streams: RandomStreams
    kept_models: KeptModels
    monitor: Monitor
    start_time: float

    @property
    def student_seed(self) -> int:
        """The seed of the training of students."""
        return self.streams.seed("student")


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class ReleasedRun:
    """The votes of a run, and what was released from them.

    Attributes:
        ensemble: the teachers and the queries that they voted on. Private.
        vote_source: the votes of the teachers. Private.
        release_record: the record of the release, which holds its committed parts.
        release: the released labels. They have the stated epsilon.
        trained_student: the student that learned from the release.
        released_scores: the released scores of the student on the test records; None where none are released.
    """

    ensemble: Ensemble
    vote_source: VoteSource
    release_record: ReleaseRecord
    release: Release
    trained_student: TrainedStudent
    released_scores: ReleasedScores | None
