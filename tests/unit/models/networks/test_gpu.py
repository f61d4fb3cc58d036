"""The code for a GPU: on one that is pretended, or, where `CUDA_VISIBLE_DEVICES` shows one to the tests, on that."""

from contextlib import AbstractContextManager, nullcontext
from unittest import mock

import numpy as np
import pytest
import torch

from pate.aggregators import TrainingSet
from pate.models import (
    CheckpointStore,
    CNNStudent,
    CNNTeacher,
    LinearTeacher,
    MLPTeacher,
    ResNet50Teacher,
    Shard,
    StackedEngine,
    TrainingJob,
)
from pate.models.checkpoint import cast_votes
from pate.models.networks.training import AdamWRecipe
from tests.unit.models.networks.pretended_gpu import OnGpu, pretended_gpu

REAL = torch.cuda.is_available()
pretended = pytest.mark.skipif(REAL, reason="there is a GPU, and nothing to pretend")

CNN = {"width": 8, "grid": 2, "epochs": 2, "batch_size": 8, "flip": True}
NETWORKS = [
    CNNTeacher(**CNN, stacked=True),  # bfloat16, as this GPU has it
    CNNTeacher(**CNN, norm="batch", precision="float16", stacked=True),
    CNNTeacher(**CNN, precision="float32", stacked=True),
    CNNTeacher(**CNN, norm="batch", precision="bfloat16", stacked=False),
    CNNTeacher(**CNN, precision="float16", stacked=False),
]


def gpu() -> AbstractContextManager[None]:
    """Returns a block with a GPU: the real one if there is one, else a simulated one."""
    return nullcontext() if REAL else pretended_gpu()


def processor() -> AbstractContextManager[object]:
    """Returns a block in which torch finds no GPU."""
    return mock.patch.object(torch.cuda, "is_available", return_value=False)


@pytest.fixture(scope="module")
def shards(make_images):
    """Returns three shards of images."""
    return [Shard(*make_images(size=size, seed=size)) for size in (17, 24, 9)]


@pytest.fixture(scope="module")
def queries(make_images):
    """Returns 70 images."""
    return make_images(size=70, seed=99)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher", [LinearTeacher(), LinearTeacher(threshold=0.4), MLPTeacher(epochs=2), *NETWORKS]
)
def test_teachers_are_trained_and_vote_on_a_gpu(teacher, shards, queries, tmp_path):
    """Teachers trained on a GPU give confidences within 0.03 of those from the CPU.

    Their files predict the same on the CPU.
    """

    def votes(folder):
        store = CheckpointStore(tmp_path / folder)
        StackedEngine(chunk_size=2).train(
            TrainingJob(teacher, shards=shards, seeds=range(3), store=store)
        )
        return np.concatenate(
            [
                confidences
                for _, confidences in cast_votes(
                    teacher, store, num_teachers=3, inputs=queries, chunk_size=2
                )
            ]
        )

    with gpu():
        gpu_votes = votes(folder="gpu")
    with processor():
        np.testing.assert_allclose(gpu_votes, votes(folder="processor"), atol=0.03)
        moved = np.concatenate(
            [
                confidences
                for _, confidences in cast_votes(
                    teacher, store=CheckpointStore(tmp_path / "gpu"), num_teachers=3, inputs=queries
                )
            ]
        )
    np.testing.assert_allclose(gpu_votes, moved, atol=5e-3 if REAL else 1e-5)


@pytest.mark.slow
def test_a_resnet_is_trained_and_predicts_on_a_gpu(shards, queries):
    """A ResNet-50 trained on a GPU and on the CPU predicts the same, up to rounding."""
    teacher = ResNet50Teacher(epochs=1, batch_size=2, precision="float32")
    small = Shard(shards[2].inputs[:3], shards[2].labels[:3])
    votes = []
    for place in (gpu, processor):
        with place():
            votes.append(
                teacher.predict_many(
                    states=teacher.fit_many(shards=[small], seeds=[0]), inputs=queries[:3]
                )
            )
    np.testing.assert_allclose(*votes, atol=0.1 if REAL else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_a_student_from_a_gpu_predicts_on_any_device(precision, shards, queries):
    """A student trained on a GPU predicts the same there and on the CPU, and within 0.03 of one trained on the CPU."""
    student = CNNStudent(width=8, epochs=2, folds=2, precision=precision)
    probabilities = []
    for place in (gpu, processor):
        with place():
            model = student.learn(
                TrainingSet(shards[0].inputs, shards[0].labels), pool=queries[:20], seed=1
            )
            probabilities.append(model.predict_proba(queries))
        np.testing.assert_array_equal(probabilities[-1], model.predict_proba(queries))
    np.testing.assert_allclose(*probabilities, atol=0.03)


@pretended
def test_auto_stacks_networks_and_uses_bfloat16_on_recent_gpus():
    """`precision=auto` is bfloat16 from compute capability 8.0 on, else float32. Networks are stacked on a GPU only."""
    for capability, expected in (
        ((7, 5), torch.float32),
        ((8, 0), torch.bfloat16),
        ((9, 0), torch.bfloat16),
    ):
        with pretended_gpu(capability):
            assert (
                AdamWRecipe(epochs=1, batch_size=1, learning_rate=1.0, weight_decay=0.0).dtype(
                    torch.device("cuda")
                )
                == expected
            )
            assert not CNNTeacher().is_isolated
    assert CNNTeacher().is_isolated


@pretended
def test_the_simulated_gpu_refuses_arrays_of_the_cpu():
    """On the simulated GPU, results stay there, and arrays of the CPU raise `RuntimeError`.

    Single numbers of the CPU are accepted.
    """
    with pretended_gpu():
        on_cpu = torch.ones(2, 3)
        on_gpu = torch.ones(2, 3, device=torch.device("cuda"))
        assert isinstance(on_gpu, OnGpu)
        assert isinstance((on_gpu * 2)[0], OnGpu)
        assert (on_gpu * torch.tensor(2.0)).cpu().tolist() == [[2.0] * 3] * 2
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            on_gpu + on_cpu
        with pytest.raises((TypeError, RuntimeError), match="numpy"):
            on_gpu.numpy()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (on_gpu @ on_gpu.T).dtype == torch.bfloat16
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (on_gpu @ on_gpu.T).dtype == torch.float32
        moments = [torch.zeros_like(on_gpu) for _ in range(2)]
        settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
        settings |= {"amsgrad": False, "maximize": False}
        for gradient, count in ((on_gpu.T.contiguous().T, on_gpu[0, 0]), (on_gpu, torch.zeros(()))):
            with pytest.raises(RuntimeError, match=r"same (dtype, )?device"):
                torch._fused_adamw_(
                    [on_gpu], [gradient], moments[:1], moments[1:], [], [count], **settings
                )
