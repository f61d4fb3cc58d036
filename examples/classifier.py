"""Fits a private classifier from scikit-learn estimators: a student, its epsilon, and the price of a search."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pate import PATEClassifier

inputs, labels = make_multilabel_classification(2400, 12, n_classes=3, random_state=0)
private = slice(0, 1600)
public = slice(1600, 1900)
test = slice(1900, None)
persons = np.arange(1600) // 2  # two records of each person, who is what epsilon protects

# Each teacher scales its own records. A scaler fitted on all private records would be a release of its own.
teacher = make_pipeline(StandardScaler(), RidgeClassifier())
model = PATEClassifier(teacher, n_teachers=60, epsilon=8.0)
model.fit(inputs[private], labels[private], X_public=inputs[public], groups=persons)

accuracy = (model.predict(inputs[test]) == labels[test]).mean()
terms = f"delta {model.delta_}, {model.adjacency_}, for {model.unit_}"
print(f"epsilon {model.epsilon_:.2f}, {terms}; {accuracy:.0%} of the labels right")

# Every fit of a search is a release. Charged to one ledger, their sum is known: it is what the search costs. Without
# metadata routing a search gives groups to its splitter alone, and epsilon would be for a record.
with tempfile.TemporaryDirectory() as folder, sklearn.config_context(enable_metadata_routing=True):
    ledger = Path(folder) / "ledger.db"
    model = PATEClassifier(RidgeClassifier(), n_teachers=60, n_queries=40, ledger=ledger)
    model.set_fit_request(X_public=True, groups=True)
    search = GridSearchCV(model, {"epsilon": [2.0, 4.0]}, cv=GroupKFold(2))
    search.fit(inputs[private], labels[private], X_public=inputs[public], groups=persons)
    best = search.best_estimator_
    print(
        f"the best costs epsilon {best.epsilon_:.2f}, the search that found it {best.spent_epsilon_:.2f}"
    )
