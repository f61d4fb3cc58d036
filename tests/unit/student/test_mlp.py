import numpy as np
import torch
from torch import nn

from pate.student import MLPStudent


def test_the_model_predicts_what_torch_would(rows, held_out):
    model = MLPStudent(hidden=7, folds=3, epochs=5).fit(*rows, seed=0)
    members = []
    for member in range(3):
        layers = nn.Linear(15, 7), nn.Linear(7, 6)
        for layer, name in zip(layers, ("hidden_", ""), strict=True):
            layer.weight.data = torch.from_numpy(model.arrays[f"{name}weights"][member].T.copy())
            layer.bias.data = torch.from_numpy(model.arrays[f"{name}bias"][member, 0].copy())
        network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.Sigmoid())
        members.append(network(torch.from_numpy(held_out[0])).detach().numpy())
    np.testing.assert_allclose(model.predict_proba(held_out[0]), np.mean(members, axis=0), atol=1e-5)


def test_keeps_the_epoch_with_the_least_held_out_loss(rows):
    heard = []
    student = MLPStudent(hidden=32, epochs=150, learning_rate=3e-2, weight_decay=0.0)
    model = student.fit(*rows, seed=0, on_epoch=lambda epoch, losses: heard.append(losses))
    held_out = [losses["held_out_loss"] for losses in heard]
    assert len(heard) == 151
    assert model.choices["epochs"] == np.argmin(held_out)
    assert 0 < np.argmin(held_out) < 150  # it went on to overfit
    assert heard[-1]["loss"] < min(held_out)


def test_before_any_step_it_predicts_the_prevalence(rows, held_out):
    student = MLPStudent(epochs=1, learning_rate=1e-9)
    probabilities = student.fit(*rows, seed=0).predict_proba(held_out[0])
    np.testing.assert_allclose(probabilities.mean(axis=0), rows[1].mean(axis=0), atol=0.05)


def test_the_unit_of_the_inputs_does_not_matter(rows, held_out):
    student = MLPStudent(epochs=10)
    expected = student.fit(*rows, seed=0).predict_proba(held_out[0])
    scaled = student.fit(rows[0] * 1000, rows[1], seed=0).predict_proba(held_out[0] * 1000)
    np.testing.assert_allclose(scaled, expected, atol=1e-4)


def test_another_seed_gives_another_model(rows, held_out):
    first, second = (MLPStudent(epochs=5).fit(*rows, seed=seed) for seed in (0, 1))
    assert (first.predict_proba(held_out[0]) != second.predict_proba(held_out[0])).any()
