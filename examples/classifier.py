"""Fits private classifiers: of a table as it is, of scikit-learn estimators, and in a search, with their prices."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pate
from pate import PATEClassifier

# A table of words, numbers with gaps and notes needs no pipeline: the public rows decide how its columns are read.
rng = np.random.default_rng(0)
words = np.array(["cough", "fever", "rash", "pain", "sleep", "heart"])
notes = rng.integers(0, len(words), (4000, 4))
patients = pd.DataFrame(
    {
        "age": rng.normal(50, 18, 4000).clip(20, 80),
        "ward": rng.choice(["a", "b", "c"], 4000),
        "note": [" ".join(words[note]) for note in notes],
    }
)
patients["age"] = patients["age"].where(rng.random(4000) > 0.1)
diagnoses = pd.DataFrame(
    {"flu": (notes < 2).any(axis=1), "senior": patients["age"] > 65}, dtype=int
)
model = PATEClassifier(epsilon=2.0)
model.fit(patients[:3000], diagnoses[:3000], X_public=patients[3000:3500])
with tempfile.TemporaryDirectory() as folder:
    model.publish(Path(folder) / "release", name="patients")  # what may be given to anybody
    bundle = pate.load(Path(folder) / "release")
    accuracy = (bundle.predict(patients[3500:]) == diagnoses[3500:]).to_numpy().mean()
    print(f"epsilon {bundle.privacy.epsilon:.2f}, published: {accuracy:.0%} of the labels right")

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
