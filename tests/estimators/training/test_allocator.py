"""The simulated caching allocator, by hand."""

from __future__ import annotations

import pytest

from presage.estimators.training.profile import MemoryParts
from presage.estimators.training.tracing.allocator import CachingAllocator
from presage.estimators.training.tracing.ledger import Ledger, Use

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ([1], 2 * MIB),
        ([0], 0),
        ([MIB, MIB], 2 * MIB),
        ([MIB, MIB, 1], 4 * MIB),
        ([MIB + 1], 20 * MIB),
        ([5 * MIB] * 4, 20 * MIB),
        ([5 * MIB] * 5, 40 * MIB),
        ([10 * MIB], 10 * MIB),
        ([11 * MIB], 12 * MIB),
        ([100 * MIB + 1], 102 * MIB),
    ],
)
def test_segments_have_the_sizes_of_cudas(sizes: list[int], reserved: int) -> None:
    allocator = CachingAllocator()
    for size in sizes:
        allocator.allocate(size)
    assert allocator.reserved_bytes == reserved


def test_what_is_freed_is_used_again_and_joined_with_its_neighbours() -> None:
    allocator = CachingAllocator()
    first, second, third = (allocator.allocate(6 * MIB) for _ in range(3))
    allocator.release(first)
    allocator.release(third)
    allocator.allocate(7 * MIB)  # third and the 2 MiB behind it
    assert allocator.reserved_bytes == 20 * MIB
    allocator.release(second)
    allocator.allocate(12 * MIB)  # first and second
    assert allocator.reserved_bytes == 20 * MIB


def test_the_smallest_block_that_fits_is_taken() -> None:
    allocator = CachingAllocator()
    large, small = allocator.allocate(40 * MIB), allocator.allocate(12 * MIB)
    allocator.release(large)
    allocator.release(small)
    allocator.allocate(12 * MIB)
    allocator.allocate(40 * MIB)
    assert allocator.reserved_bytes == 52 * MIB


def test_a_large_block_keeps_a_rest_of_a_mebibyte() -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(12 * MIB))
    allocator.allocate(11 * MIB)  # the last MiB stays with it
    allocator.allocate(MIB + 512)
    assert allocator.reserved_bytes == 12 * MIB + 20 * MIB


class _Storage:
    def __init__(self, size: int) -> None:
        self._cdata = id(self)
        self._size = size

    def nbytes(self) -> int:
        return self._size


def test_a_ledger_knows_the_peak_and_what_was_alive_then() -> None:
    ledger = Ledger()
    weights, activation = _Storage(100), _Storage(1000)
    ledger.see(weights, Use.PARAMETER)
    ledger.see(activation)
    ledger.see(activation)
    gradient = _Storage(50)
    ledger.see(gradient)
    ledger.pass_through(7)
    del activation
    ledger.see(gradient, Use.GRADIENT)  # known only later, true of the whole life
    footprint = ledger.footprint(lambda piece: piece.size)
    assert footprint.peak_bytes == 1157
    assert footprint.parts == MemoryParts(parameters=100, gradients=50, optimizer=0, activations=1007)
    assert footprint.reserved_bytes == 2 * MIB
