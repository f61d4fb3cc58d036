"""The code for a GPU, on a simulated one, or on a real GPU if `CUDA_VISIBLE_DEVICES` shows one to the tests."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
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

CNN = CNNTeacher(width=8, grid=2, epochs=2, batch_size=8, flip=True)
TEACHERS = {
    "linear": LinearTeacher(),
    "linear, a threshold": LinearTeacher(threshold=0.4),
    "mlp": MLPTeacher(epochs=2),
    "stacked, auto": replace(CNN, stacked=True),  # bfloat16, as the GPU has it
    "stacked, batch norm, float16": replace(CNN, norm="batch", precision="float16", stacked=True),
    "stacked, float32": replace(CNN, precision="float32", stacked=True),
    "alone, batch norm, bfloat16": replace(CNN, norm="batch", precision="bfloat16", stacked=False),
    "alone, float16": replace(CNN, precision="float16", stacked=False),
}


def context_with_gpu() -> AbstractContextManager[None]:
    """Returns a context with a GPU: the real one if there is one, else a simulated one."""
    return nullcontext() if REAL else pretended_gpu()


def context_without_gpu() -> AbstractContextManager[object]:
    """Returns a context in which torch finds no GPU."""
    return mock.patch.object(torch.cuda, "is_available", return_value=False)


@pytest.fixture(scope="module")
def shards(make_images):
    """Returns three shards of images."""
    labeled_image_sets = [
        make_images(num_images=num_images, seed=num_images) for num_images in (17, 24, 9)
    ]
    return [Shard(inputs=images, labels=labels) for images, labels in labeled_image_sets]


@pytest.fixture(scope="module")
def queries(make_images):
    """Returns 70 images."""
    return make_images(num_images=70, seed=99)[0]


@pytest.mark.slow
@pytest.mark.parametrize("teacher", TEACHERS.values(), ids=TEACHERS)
def test_teachers_are_trained_and_vote_on_a_gpu(teacher, shards, queries, tmp_path):
    """Teachers trained on a GPU give confidences within 0.03 of those of teachers that are trained on the CPU.

    If the files of the teachers from the GPU are read on the CPU, their confidences are those from the GPU up to
    rounding. Where there is no GPU, a simulated one is used.
    """

    def confidences_of_stored(store, chunk_size):
        chunks = cast_votes(
            teacher, store=store, num_teachers=3, inputs=queries, chunk_size=chunk_size
        )
        return np.concatenate([confidences for _, confidences in chunks])

    def confidences_after_training(store):
        job = TrainingJob(teacher=teacher, shards=shards, seeds=range(3), store=store)
        StackedEngine(chunk_size=2).train(job)
        return confidences_of_stored(store=store, chunk_size=2)

    gpu_store = CheckpointStore(tmp_path / "gpu")
    with context_with_gpu():
        gpu_confidences = confidences_after_training(store=gpu_store)
    with context_without_gpu():
        cpu_confidences = confidences_after_training(store=CheckpointStore(tmp_path / "processor"))
        np.testing.assert_allclose(gpu_confidences, cpu_confidences, atol=0.03)
        gpu_files_on_cpu = confidences_of_stored(store=gpu_store, chunk_size=16)
    np.testing.assert_allclose(gpu_confidences, gpu_files_on_cpu, atol=5e-3 if REAL else 1e-5)


@pytest.mark.slow
def test_a_resnet_is_trained_and_predicts_on_a_gpu(shards, queries):
    """ResNet-50 networks trained on a GPU and on the CPU predict the same within 1e-4, and within 0.1 on a real GPU."""
    teacher = ResNet50Teacher(epochs=1, batch_size=2, precision="float32")
    small_shard = Shard(inputs=shards[2].inputs[:3], labels=shards[2].labels[:3])

    def confidences():
        states = teacher.fit_many(shards=[small_shard], seeds=[0])
        return teacher.predict_many(states=states, inputs=queries[:3])

    with context_with_gpu():
        gpu_confidences = confidences()
    with context_without_gpu():
        cpu_confidences = confidences()
    np.testing.assert_allclose(gpu_confidences, cpu_confidences, atol=0.1 if REAL else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_a_student_from_a_gpu_predicts_on_any_device(precision, shards, queries):
    """A student trained on a GPU predicts within 0.03 of one trained on the CPU, and the same with or without a GPU."""
    student = CNNStudent(width=8, epochs=2, folds=2, precision=precision)
    training_set = TrainingSet(inputs=shards[0].inputs, labels=shards[0].labels)

    def predict_after_training(device_context):
        with device_context:
            model = student.learn(training_set, pool=queries[:20], seed=1)
            on_device = model.predict_proba(queries)
        np.testing.assert_array_equal(on_device, model.predict_proba(queries))
        return on_device

    from_gpu = predict_after_training(device_context=context_with_gpu())
    from_cpu = predict_after_training(device_context=context_without_gpu())
    np.testing.assert_allclose(from_gpu, from_cpu, atol=0.03)


@pretended
def test_auto_stacks_networks_and_uses_bfloat16_on_recent_gpus():
    """`precision=auto` is bfloat16 from compute capability 8.0 on, and float32 below.

    By default, networks are stacked (trained side by side) on a GPU only.
    """
    recipe = AdamWRecipe(epochs=1, batch_size=1, learning_rate=1.0, weight_decay=0.0)
    expected_dtypes = {
        (7, 5): torch.float32,
        (8, 0): torch.bfloat16,
        (9, 0): torch.bfloat16,
    }
    for capability, expected_dtype in expected_dtypes.items():
        with pretended_gpu(capability):
            assert recipe.dtype(torch.device("cuda")) == expected_dtype
            assert not CNNTeacher().is_isolated
    assert CNNTeacher().is_isolated


@pretended
def test_the_simulated_gpu_refuses_arrays_of_the_cpu():
    """Results stay on the simulated GPU. Sums with arrays of the CPU, and reads by NumPy, raise an error.

    Single numbers of the CPU are accepted, but not as the step number of the fused AdamW, which also refuses gradients
    with other strides than the parameters. Only autocast for a GPU has an effect.
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
        transposed = on_gpu.T.contiguous().T
        for gradient, count in ((transposed, on_gpu[0, 0]), (on_gpu, torch.zeros(()))):
            with pytest.raises(RuntimeError, match=r"same (dtype, )?device"):
                torch._fused_adamw_(
                    [on_gpu],
                    grads=[gradient],
                    exp_avgs=[torch.zeros_like(on_gpu)],
                    exp_avg_sqs=[torch.zeros_like(on_gpu)],
                    max_exp_avg_sqs=[],
                    state_steps=[count],
                    lr=0.1,
                    beta1=0.9,
                    beta2=0.99,
                    weight_decay=0.0,
                    eps=1e-8,
                    amsgrad=False,
                    maximize=False,
                )
