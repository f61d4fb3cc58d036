"""The release of a student's scores on the private test records, in an account of their own.

The test records are private like the records that the teachers learned from, and belong to other people: a `Dataset`
refuses a group that is in two splits. So the price of the scores is charged to an account of the test records, and
nobody pays both prices. The noisy sums are committed with their charge in one transaction, like a part of a release. A
kill before that costs nothing and shows nothing; a continued run reads the sums back.

Source: docs/proofs/scores.md.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pate.accounting import Adjacency, Budget, PrivacyUnit, ScoresEvent
from pate.accounting.calibration import calibrate
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.rounding import format_delta, format_epsilon
from pate.data import Dataset, Split
from pate.files.arrays import arrays_of_npz, npz_bytes
from pate.models.student_model import Predictor
from pate.report.released_scores import ReleasedScores
from pate.run.plan import Plan
from pate.run.score_estimates import ScoreEstimates
from pate.run.score_sums import ScoreDesign, Subgroups, exact_sums, noisy_sums
from pate.run.subgroups import subgroups_of
from pate.validation import InvalidValue

# The prefixes of the names of arrays in the committed part: the sums of a block, and its clip.
_SUMS = "sums:"
_CLIPS = "clips:"


@dataclass(frozen=True)
class ScorePrice:
    """The price of the released scores of a run's student on the test records, before anything is drawn.

    Attributes:
        event: the price of all scores together, as an event for any accountant.
        epsilon: the epsilon of `event` at the run's delta.
        delta: the delta of the run.
        unit: what one change replaces, a group of test records.
        account_name: the digest that names the account of the test records.
        subgroup_divisions: the columns that micro-F1 is released by.
    """

    event: ScoresEvent
    epsilon: float
    delta: float
    unit: PrivacyUnit
    account_name: str
    subgroup_divisions: tuple[Subgroups, ...]

    @classmethod
    def of_plan(cls, plan: Plan, *, dataset: Dataset) -> ScorePrice | None:
        """Returns the price of a plan's scores on a data set; None where no scores are released.

        Raises:
            InvalidValue: the data set or the adjacency has no price for scores; or `score_groups` is set without
                `score_epsilon`, or names a column that makes no subgroups.
        """
        if plan.score_epsilon is None:
            if plan.score_groups:
                rule = "score_epsilon= beside it, the price of the scores"
                raise InvalidValue("score_groups", plan.score_groups, rule=rule)
            return None
        if plan.aggregator.adjacency != Adjacency.REPLACE_ONE:
            rule = f"adjacency={Adjacency.REPLACE_ONE} of the aggregator, in whose ledger scores are charged"
            raise InvalidValue("score_epsilon", plan.score_epsilon, rule=rule)
        if dataset.shared is not None:
            rule = "records that have one owner each: scores of others have no price"
            raise InvalidValue("score_epsilon", plan.score_epsilon, rule=rule)
        noise_multiplier = calibrate(
            event_for=ScoresEvent,
            target_epsilon=plan.score_epsilon,
            target_delta=plan.target_delta,
        )
        event = ScoresEvent(noise_multiplier=noise_multiplier)
        return cls(
            event=event,
            # The price is exact, whatever accountant the release has: anybody can compute it from the noise.
            epsilon=Budget(delta=plan.target_delta).epsilon_of(event),
            delta=plan.target_delta,
            unit=dataset.group_unit,
            account_name=account_of_test_records(dataset),
            subgroup_divisions=subgroups_of(dataset, column_names=plan.score_groups or ()),
        )


@dataclass(frozen=True)
class ScoreCharge:
    """The charge of a run's released scores: the account of its test records, and the key of the noisy sums.

    The scores of a student are computed from noisy sums over the test records.

    Attributes:
        score_price: the price of the scores.
        account: the account of the test records in the run's ledger.
        release_key: the key under which the ledger stores the noisy sums.
        earlier_release_keys: the keys of the noisy sums of students of earlier draws of the release, if there are any.
        charge_note: the note that the ledger stores with the charge.
    """

    score_price: ScorePrice
    account: Ledger
    release_key: str
    charge_note: ChargeNote
    earlier_release_keys: tuple[str, ...] = ()

    def require_room(self) -> None:
        """Raises `InvalidValue` if the account cannot pay for the scores and they are not drawn yet."""
        if self.account.read(self.release_key) is None:
            self.account.require_room(self.score_price.event)

    def release(
        self, model: Predictor, *, dataset: Dataset, num_queries: int, rng: np.random.Generator
    ) -> ReleasedScores:
        """Returns the scores of a student. Noisy sums are drawn and charged together, and later calls read them back.

        Args:
            model: the student.
            dataset: the data set with the public and the test records.
            num_queries: the number of queries, which the student was trained on.
            rng: the source of the noise.

        Raises:
            InvalidValue: the account cannot pay; nothing is charged then.
        """
        has_gaps = dataset.test.known is not None
        subgroup_divisions = self.score_price.subgroup_divisions
        score_design = ScoreDesign.from_public(
            model,
            public_split=dataset.public,
            noise_multiplier=self.score_price.event.noise_multiplier,
            num_test_groups=dataset.test.num_groups,
            has_gaps=has_gaps,
            num_queries=num_queries,
            subgroup_divisions=subgroup_divisions,
        )
        content = self.account.read(self.release_key)
        if content is None:
            content = self._draw(model, test_split=dataset.test, score_design=score_design, rng=rng)
        stored_arrays = arrays_of_npz(content)
        # The clips of the draw are read back, as another processor may round public numbers in another way.
        clips = {
            name.removeprefix(_CLIPS): float(clip)
            for name, clip in stored_arrays.items()
            if name.startswith(_CLIPS)
        }
        score_design = score_design.with_clips(
            clips, most_counted_records=int(stored_arrays["most_records"])
        )
        estimates = ScoreEstimates(
            score_design=score_design,
            sums_by_block={name: stored_arrays[_SUMS + name] for name in score_design.blocks},
            noise_multiplier=self.score_price.event.noise_multiplier,
            num_groups=dataset.test.num_groups,
        )
        return self._scores(estimates)

    def _draw(
        self,
        model: Predictor,
        *,
        test_split: Split,
        score_design: ScoreDesign,
        rng: np.random.Generator,
    ) -> bytes:
        """Draws the noisy sums, commits them with their charge, and returns the bytes that the ledger holds for them.

        Args:
            model: the student.
            test_split: the test records.
            score_design: the public design of the sums.
            rng: the source of the noise.
        """
        noise_multiplier = self.score_price.event.noise_multiplier
        sums_by_block = noisy_sums(
            score_design,
            sums_by_block=exact_sums(
                score_design,
                model=model,
                test_split=test_split,
                subgroup_divisions=self.score_price.subgroup_divisions,
            ),
            noise_multiplier=noise_multiplier,
            rng=rng,
        )
        stored_arrays = {"most_records": np.array(score_design.most_counted_records)}
        stored_arrays |= {_SUMS + name: block for name, block in sums_by_block.items()}
        stored_arrays |= {
            _CLIPS + name: np.array(clip) for name, clip in score_design.clips.items()
        }
        return self.commit(npz_bytes(stored_arrays))

    def commit(self, content: bytes) -> bytes:
        """Commits noisy sums, as the bytes of an .npz file, with their charge; returns the bytes that the ledger holds.

        If the ledger holds sums of an earlier call, nothing is charged, and these are returned.
        """
        return self.account.commit(
            self.release_key,
            event=self.score_price.event,
            content=content,
            charge_note=self.charge_note,
            adjacency=Adjacency.REPLACE_ONE,
        )

    def _scores(self, estimates: ScoreEstimates) -> ReleasedScores:
        """Returns the scores that are estimated from noisy sums, together with the price that covers all of them.

        The price also covers the scores of earlier draws of the release, as the price of the release covers its draws.
        """
        num_draws = 1 + sum(
            self.account.read(release_key) is not None for release_key in self.earlier_release_keys
        )
        # n Gaussian releases cost as much as one with 1 / sqrt(n) of their noise (Dong, Roth & Su 2022).
        event_of_draws = self.score_price.event
        epsilon = self.score_price.epsilon
        if num_draws > 1:
            event_of_draws = ScoresEvent(event_of_draws.noise_multiplier / math.sqrt(num_draws))
            epsilon = Budget(delta=self.score_price.delta).epsilon_of(event_of_draws)
        scores = estimates.scores()
        scores_by_column = zip(
            self.score_price.subgroup_divisions, estimates.subgroup_scores(), strict=True
        )
        return ReleasedScores(
            epsilon=float(format_epsilon(epsilon)),
            delta=float(format_delta(self.score_price.delta)),
            unit=self.score_price.unit.words,
            noise_multiplier=event_of_draws.noise_multiplier,
            num_groups=estimates.num_groups,
            subgroups={
                division.column_name: dict(zip(division.value_names, value_scores, strict=True))
                for division, value_scores in scores_by_column
            },
            micro_f1=scores["micro_f1"],
            accuracy=scores["accuracy"],
            macro_f1=scores["macro_f1"],
            mean_average_precision=scores["mean_average_precision"],
            calibration_error=scores["calibration_error"],
        )


def account_of_test_records(dataset: Dataset) -> str:
    """Returns the name of the account of test records: a digest that does not depend on the order of the records.

    The digest is that of all table cells of these records if the reader has computed one (`Dataset.test_cells`). So the
    same table is charged to the same account with other labels or groups, and beside other private or public records.
    Otherwise it is that of the labels of each group. Then the same records are charged to the same account with other
    features. The ids of records and groups are left out, as a data set numbers them over all splits.
    """
    hasher = hashlib.sha256(b"test records")
    if dataset.test_cells is not None:
        hasher.update(dataset.test_cells.encode())
        return hasher.hexdigest()
    test_split = dataset.test
    label_rows = np.packbits(test_split.labels, axis=1)
    order = np.lexsort((*label_rows.T, test_split.group_ids))
    group_ids = test_split.group_ids[order]
    label_rows = label_rows[order]
    first_rows = [0, *(np.flatnonzero(np.diff(group_ids)) + 1).tolist(), len(group_ids)]
    labels_of_groups = [
        label_rows[first_row:next_row].tobytes() for first_row, next_row in pairwise(first_rows)
    ]
    hasher.update(repr(test_split.labels.shape).encode())
    for labels_of_group in sorted(labels_of_groups):
        hasher.update(len(labels_of_group).to_bytes(8, "little") + labels_of_group)
    return hasher.hexdigest()
