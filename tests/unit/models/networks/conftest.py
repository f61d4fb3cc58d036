import numpy as np
import pytest


def draw_images(num_images, *, channels=3, side=16, num_labels=4, seed=0):
    """Draws images with a bright square in some of their corners, and a label for each corner."""
    rng = np.random.default_rng(seed)
    images = rng.random((num_images, channels, side, side), dtype=np.float32) * 0.5
    labels = rng.random((num_images, num_labels)) < 0.4
    for corner in range(num_labels):
        row, column = divmod(corner, 2)
        half = side // 2
        images[:, :, row * half : (row + 1) * half, column * half : (column + 1) * half] += (
            0.5 * labels[:, corner, None, None, None]
        )
    return images, labels


@pytest.fixture(scope="session")
def make_images():
    """Returns the function `draw_images`."""
    return draw_images
