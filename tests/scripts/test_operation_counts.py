"""Operations that the benchmark of teachers counts."""

import pytest
import torch

from benchmarks.teachers import _inside


@pytest.mark.parametrize(("side", "kernel_size"), [(8, 5), (8, 3), (4, 3), (2, 5)])
def test_products_with_zeros_beyond_the_edge_do_not_count(side: int, kernel_size: int) -> None:
    """`_inside` is the share of the kernel's products whose input lies inside the image.

    A convolution of ones by ones counts these products.
    """
    image = torch.ones(1, 1, side, side)
    kernel = torch.ones(1, 1, kernel_size, kernel_size)
    done = torch.nn.functional.conv2d(image, kernel, padding=kernel_size // 2).sum().item()
    assert _inside(side, kernel_size) == pytest.approx(done / (side**2 * kernel_size**2))
    assert _inside(side, kernel_size) < 1
