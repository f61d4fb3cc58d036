"""Report of a large run: its figures, its intervals and its page."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.jobs import Job
from pate.accounting import Budget, PrivacyUnit
from pate.aggregators import GaussianVotes, Release
from pate.array_types import BoolArray, FloatArray
from pate.data import Dataset, Split
from pate.models import LinearTeacher
from pate.pricing import PricedRelease
from pate.report.page import render_html
from pate.run.results import Results
from pate.votes import VoteShape
from pate.votes.arrays import CountedVotes
from pate.votes.source import CountableVotes

_MODELS = ("student", "majority_vote_student", "true_label_student", "all_records_model")
_NUM_TEACHERS = 400
LEFT_OUT = "metrics, intervals from 200 resamples, pictures, the page"


class _VotesOfGoodTeachers(CountedVotes):
    """Counts of votes, with an accuracy for each teacher, which counts alone do not give."""

    def accuracies(self, true_labels: BoolArray, known: BoolArray | None = None) -> FloatArray:
        return np.full(self.num_teachers, 0.8)


class _LargeRun:
    """Results of a run without training."""

    def __init__(self, num_queries: int, num_labels: int, num_test: int) -> None:
        self.num_queries = num_queries
        self.num_labels = num_labels
        self.num_test = num_test

    @cached_property
    def results(self) -> Results:
        """Returns random votes, and scores that correlate with the labels."""
        rng = np.random.default_rng(0)
        num_labels = self.num_labels
        frequencies = np.geomspace(0.5, 0.002, num_labels)

        def split(start: int, size: int) -> Split:
            ids = np.arange(start, start + size)
            return Split(
                np.zeros((size, 1), np.float32),
                rng.random((size, num_labels)) < frequencies,
                ids,
                ids,
            )

        queries = split(0, self.num_queries)
        test = split(self.num_queries, self.num_test)
        votes = rng.binomial(_NUM_TEACHERS, 0.2 + 0.5 * queries.labels)
        names = tuple(f"label_{index}" for index in range(num_labels))
        aggregator = GaussianVotes(noise_std=100.0)
        drawn_releases = aggregator.aggregate(votes, num_teachers=_NUM_TEACHERS, rng=rng)
        release = drawn_releases if isinstance(drawn_releases, Release) else drawn_releases[0]
        shape = VoteShape(
            num_queries=self.num_queries, num_labels=num_labels, num_teachers=_NUM_TEACHERS
        )
        counted = _VotesOfGoodTeachers(votes, num_teachers=_NUM_TEACHERS)
        priced_release = PricedRelease(aggregator, shape, release.event, epsilon=100.0)
        budget = Budget(delta=1e-6)
        # what stands for a charge and models
        charge: Any = SimpleNamespace(
            priced_release=priced_release,
            budget=budget,
            epsilon=100.0,
            seed=0,
            unit=PrivacyUnit.of_teacher(),
            num_draws=1,
            tuned=None,
            published_event=release.event,
        )
        models: Any = {name: self._model(rng, test) for name in _MODELS}
        data = Dataset(
            name="large",
            real=False,
            kind="features",
            label_names=names,
            private=split(self.num_queries + self.num_test, 4000),
            public=queries,
            test=test,
        )
        return Results(
            dataset=data,
            queries=queries,
            priced_release=priced_release,
            release=release,
            named_losses_of_epochs=(),
            membership=None,
            teacher_recipe=LinearTeacher(),
            run_charge=charge,
            vote_source=counted,
            model_by_name=models,
        )

    def _model(self, rng: np.random.Generator, test: Split) -> SimpleNamespace:
        scores = rng.random(test.labels.shape, dtype=np.float32) * 0.8 + 0.2 * test.labels
        return SimpleNamespace(
            predict=lambda _: scores > 0.8, predict_proba=lambda _: scores, threshold=0.8
        )

    def write(self) -> str:
        """Computes all of a run's report, but writes no files."""
        results = replace(self.results)  # a copy without cached figures
        report = results.report(duration_s=1.0)
        return render_html(report, results.picture_arrays(report))

    def sort(self) -> None:
        """Sorts the votes of each query and the scores of each label: the least work for a report."""
        np.sort(self.results.vote_source.require_type(CountableVotes).counts(), axis=1)
        for model in self.results.model_by_name.values():
            np.sort(model.predict_proba(self.results.dataset.test.inputs), axis=0)


def report_jobs(
    num_queries: int = 20_000, num_labels: int = 1_000, num_test: int = 10_000
) -> list[Job]:
    """Returns the job of a report of so many queries, labels and test samples."""
    large = _LargeRun(num_queries, num_labels, num_test)
    name = f"a report, {num_queries:,} queries x {num_labels:,} labels, {num_test:,} test samples"
    return [
        Job(
            name,
            run=large.write,
            floor=large.sort,
            floor_name="one sort of the votes and of each model's scores",
            left_out=LEFT_OUT,
            rounds=1,
        )
    ]
