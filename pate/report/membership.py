"""Membership inference attacks guess, by the student's losses on a record, whether it was a private record.

The second attack here also uses the losses of *reference models*, which have never used a private record. A private
record that an attack calls private is a true positive; a test record that it calls private is a false positive.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray

# The false positive rates at which `Membership.text` states the success of an attack.
_STATED_FALSE_POSITIVE_RATES = (0.001, 0.01)
# The number of further false positive rates on the curve.
_NUM_SPACED_RATES = 24


@dataclass(frozen=True)
class Membership:
    """The success of two attacks that guess which records were private. No epsilon covers these numbers.

    The first attack guesses that the records with the smallest losses are private. The second attack compares the
    log-odds of true labels with those of reference models that have never used a private record. It is the offline LiRA
    of Carlini et al. (2022), "Membership inference attacks from first principles".

    Attributes:
        fpr: the false positive rates in (0, 1), rising, 0.1% and 1% among them, rounded down to whole test records, but
            at least one, `[num_rates]`.
        tpr: the true positive rate of the first attack at each false positive rate, `[num_rates]`. Equal losses count
            in proportion.
        low: the lower end of the interval that holds `tpr` with probability 95% or more if the losses of private and
            test records have the same distribution, `[num_rates]`.
        high: the upper end of that interval, `[num_rates]`.
        num_private: the number of private records that were tried.
        num_test: the number of test records that were tried.
        tpr_by_reference: the true positive rate of the second attack, `[num_rates]`; empty if no reference models were
            trained.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    num_private: int
    num_test: int
    tpr_by_reference: tuple[float, ...] = ()

    @classmethod
    def from_losses(
        cls,
        private_losses: FloatArray,
        test_losses: FloatArray,
        *,
        private_log_odds_deviations: FloatArray | None = None,
        test_log_odds_deviations: FloatArray | None = None,
    ) -> Self | None:
        """Returns the success of both attacks; None without a private record, or with fewer than two test records.

        Args:
            private_losses: the student's losses on private records, `[num_private]`.
            test_losses: the student's losses on independent test records, `[num_test]`.
            private_log_odds_deviations: the result of `deviations_from_references` on private records, `[num_private]`;
                None without reference models.
            test_log_odds_deviations: the result of `deviations_from_references` on test records, `[num_test]`; None
                without reference models.
        """
        num_private_records = len(private_losses)
        num_test_records = len(test_losses)
        if num_private_records == 0 or num_test_records < 2:
            return None
        # The numbers of false positives at the rates of the curve, and at the stated rates.
        geometric_false_positive_counts = np.geomspace(1, num_test_records - 1, _NUM_SPACED_RATES)
        stated_false_positive_counts = np.multiply(_STATED_FALSE_POSITIVE_RATES, num_test_records)
        # The margin covers rounding errors just below a whole number.
        rounded_counts = (
            np.append(geometric_false_positive_counts, stated_false_positive_counts) + 1e-9
        )
        curve_false_positive_counts = np.unique(
            np.clip(rounded_counts, 1, num_test_records - 1).astype(np.int64)
        )
        chance_low, chance_high = _chance_interval(
            curve_false_positive_counts, num_private=num_private_records, num_test=num_test_records
        )
        reference_attack_rates: tuple[float, ...] = ()
        if private_log_odds_deviations is not None and test_log_odds_deviations is not None:
            reference_attack_rates = _true_positive_rates(
                private_losses=private_log_odds_deviations,
                test_losses=test_log_odds_deviations,
                num_false_positives=curve_false_positive_counts,
            )
        return cls(
            fpr=tuple((curve_false_positive_counts / num_test_records).tolist()),
            tpr=_true_positive_rates(
                private_losses, test_losses, num_false_positives=curve_false_positive_counts
            ),
            low=tuple(chance_low.tolist()),
            high=tuple(chance_high.tolist()),
            num_private=num_private_records,
            num_test=num_test_records,
            tpr_by_reference=reference_attack_rates,
        )

    @property
    def text(self) -> str:
        """A sentence on the shares of private records that attacks find, at false positive rates near 0.1% and 1%."""
        fpr_indices_nearest_stated = {
            int(np.abs(np.array(self.fpr) - stated_rate).argmin())
            for stated_rate in _STATED_FALSE_POSITIVE_RATES
        }
        lines = [
            self._line_at(fpr_index=fpr_index) for fpr_index in sorted(fpr_indices_nearest_stated)
        ]
        return f"What an attacker sees of a training record: {'; '.join(lines)}."

    def _line_at(self, fpr_index: int) -> str:
        """Returns a phrase on the share of private records that each attack finds at one false positive rate.

        The phrase also says whether the larger of these shares is beyond chance, that is, above `high` at this rate.

        Args:
            fpr_index: the index of the rate in `fpr`.
        """
        largest_share = self.tpr[fpr_index]
        share_texts = [f"{_percent(rate=largest_share)} of them"]
        if self.tpr_by_reference:
            share_by_reference = self.tpr_by_reference[fpr_index]
            share_texts.append(f"{_percent(rate=share_by_reference)} by reference models")
            largest_share = max(largest_share, share_by_reference)
        chance_high = self.high[fpr_index]
        chance = "beyond" if largest_share > chance_high else "nothing beyond"
        fpr = _percent(rate=self.fpr[fpr_index])
        return (
            f"at a false positive rate of {fpr} it finds {' or '.join(share_texts)}, "
            f"{chance} chance (up to {_percent(rate=chance_high)})"
        )


def _percent(rate: float) -> str:
    """Returns a rate as a percentage with two significant digits."""
    return f"{float(f'{100 * rate:.2g}'):g}%"


def _true_positive_rates(
    private_losses: FloatArray, test_losses: FloatArray, num_false_positives: IntArray
) -> tuple[float, ...]:
    """Returns the shares of private records that an attack finds at given numbers of false positives, `[num_counts]`.

    The attack takes the records with the smallest losses for private ones. At the largest loss that counts,
    only a share of the test records may count; then the same share of the private records with this loss counts.

    Args:
        private_losses: the losses of private records, `[num_private]`.
        test_losses: the losses of test records, `[num_test]`.
        num_false_positives: the numbers of test records with the smallest losses, which are false positives,
            `[num_counts]`.
    """
    # The numbers of private and test records with a loss up to each level, and 0 before the first level.
    loss_levels = np.unique(np.append(private_losses, test_losses))
    num_private_up_to_loss_level = np.append(
        0, np.searchsorted(np.sort(private_losses), loss_levels, side="right")
    )
    num_test_up_to_loss_level = np.append(
        0, np.searchsorted(np.sort(test_losses), loss_levels, side="right")
    )
    # All records up to the last level with no more than the given false positives are called private, and of the
    # records at the next level a share.
    last_full_level = (
        np.searchsorted(num_test_up_to_loss_level, num_false_positives, side="right") - 1
    )
    share = (num_false_positives - num_test_up_to_loss_level[last_full_level]) / (
        num_test_up_to_loss_level[last_full_level + 1] - num_test_up_to_loss_level[last_full_level]
    )
    num_hits = num_private_up_to_loss_level[last_full_level] + share * (
        num_private_up_to_loss_level[last_full_level + 1]
        - num_private_up_to_loss_level[last_full_level]
    )
    return tuple((num_hits / len(private_losses)).tolist())


def label_losses(
    probabilities: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the binary cross-entropy of each sample, summed over its known labels, `[num_samples]`.

    Args:
        probabilities: the predicted probabilities, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    probability_of_truth = np.where(
        true_labels, probabilities, 1 - probabilities.astype(np.float64)
    )
    log_probability_of_truth = np.log(np.maximum(probability_of_truth, 1e-12))
    losses: FloatArray = -(
        log_probability_of_truth if known is None else log_probability_of_truth * known
    ).sum(axis=1)
    return losses


def summed_log_odds(
    probabilities: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the log-odds of the true value of each known label, summed over labels, `[num_samples]`.

    Args:
        probabilities: the predicted probabilities, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    losses_of_opposite = label_losses(probabilities, true_labels=~true_labels, known=known)
    return losses_of_opposite - label_losses(probabilities, true_labels=true_labels, known=known)


def deviations_from_references(
    student_log_odds: FloatArray, reference_log_odds: FloatArray
) -> FloatArray:
    """Returns by how many standard deviations the student's log-odds are below those of reference models.

    The result is an array `[num_samples]`. For each sample, the log-odds of reference models are taken as a Gaussian
    around their mean. Its variance is the mean of two numbers: the sample's own variance over the models, and the mean
    of these variances over all samples. Few models do not determine the variance of one sample.

    Args:
        student_log_odds: the log-odds of the student, `[num_samples]`.
        reference_log_odds: the log-odds of models that have never used a private record, `[num_models, num_samples]`.
    """
    variance_over_models = reference_log_odds.var(axis=0)
    std_over_models = np.sqrt((variance_over_models + variance_over_models.mean()) / 2)
    mean_over_models = reference_log_odds.mean(axis=0)
    deviations = mean_over_models - student_log_odds
    return np.asarray(deviations / np.where(std_over_models > 0, std_over_models, 1))


def _chance_interval(
    false_positive_counts: IntArray, *, num_private: int, num_test: int
) -> tuple[FloatArray, FloatArray]:
    """Returns the ends of the interval that holds the rate of blind attacks with probability 95% or more.

    The rate is the true positive rate. Both ends are arrays `[num_counts]`, with a value for each number of false
    positives.

    Let private and test losses have one distribution, and sort all n private and m test records by loss. The number of
    private records before the
    (k + 1)-th test record is then binomial, with a rate that is Beta(k + 1, m - k). The probabilities of this
    beta-binomial distribution are computed from the ratios of neighboring ones:

    P(i + 1) / P(i) = (n - i) (i + k + 1) / ((i + 1) (m - k + n - 1 - i)).

    Args:
        false_positive_counts: the numbers k of false positives, `[num_counts]`.
        num_private: the number n of private records.
        num_test: the number m of test records.
    """
    n = num_private
    m = num_test
    k = false_positive_counts[:, None]
    i = np.arange(n)  # numbers of private records before the (k + 1)-th test record
    log_ratios = np.log((n - i) * (i + k + 1.0) / ((i + 1.0) * (m - k + n - 1 - i)))
    # [num_counts, n + 1], up to a constant summand of each row
    log_probs_by_count_and_hits = np.cumsum(np.pad(log_ratios, ((0, 0), (1, 0))), axis=1)
    cumulative_probs_by_count_and_hits = np.cumsum(
        np.exp(
            log_probs_by_count_and_hits - log_probs_by_count_and_hits.max(axis=1, keepdims=True)
        ),
        axis=1,
    )
    cumulative_probs_by_count_and_hits /= cumulative_probs_by_count_and_hits[:, -1:]
    # For each number of false positives, the ends as shares of the private records.
    low = (cumulative_probs_by_count_and_hits < 0.025).sum(axis=1) / n
    high = (cumulative_probs_by_count_and_hits < 0.975).sum(axis=1) / n
    return low, high
