import numpy as np
import pytest

from service import aligned


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 5_000_000])
def test_new_memory_has_its_size_and_begins_where_tensorflow_wants_it(size):
    for _ in range(10):
        memory = aligned.allocate(size)
        assert (memory.nbytes, memory.dtype) == (size, np.uint8)
        assert size == 0 or (memory.ctypes.data % 64 == 0 and aligned.is_aligned(memory))


def test_an_array_that_begins_elsewhere_or_has_gaps_is_not_aligned():
    memory = aligned.allocate(4096)

    assert aligned.is_aligned(memory[64:])
    assert not aligned.is_aligned(memory[16:])
    assert not aligned.is_aligned(memory[::2])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, np.int64, np.complex128])
def test_a_copy_is_equal_and_aligned(dtype):
    values = (np.arange(600).reshape(20, 30) % 7).astype(dtype)
    for original in (values, values[1:], values[:, ::2], values.T, values[:0], values[3, 4]):
        copied = aligned.copy(np.asarray(original))
        np.testing.assert_array_equal(copied, original)
        assert copied.dtype == dtype
        assert copied.size == 0 or aligned.is_aligned(copied)
