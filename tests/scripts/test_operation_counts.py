"""The benchmark of teachers counts no products with zeros beyond the edge of an image."""

import pytest
import torch

from benchmarks.teachers import _inside


@pytest.mark.parametrize(("side", "kernel_size"), [(8, 5), (8, 3), (4, 3), (2, 5)])
def test_products_with_zeros_beyond_the_edge_do_not_count(side: int, kernel_size: int) -> None:
    """`_inside` is the share of a kernel's products whose input lies in the image.

    A convolution of ones counts them.
    """
    image = torch.ones(1, 1, side, side)
    kernel = torch.ones(1, 1, kernel_size, kernel_size)
    done = torch.nn.functional.conv2d(image, kernel, padding=kernel_size // 2).sum().item()
    assert _inside(side, kernel_size) == pytest.approx(done / (side**2 * kernel_size**2))
    assert _inside(side, kernel_size) < 1
