import math

import pytest

from batching import QueueOptions, QueuePolicy

BAD = [
    ({"max_batch_size": 0}, "max_batch_size must be at least 1, not 0"),
    ({"max_queue_delay_s": -0.1}, "max_queue_delay_s"),
    ({"max_queue_delay_s": math.nan}, "max_queue_delay_s"),
    ({"max_queue_size": -1}, "max_queue_size"),
    ({"max_queue_rows": -1}, "max_queue_rows"),
    ({"max_queue_bytes": -1}, "max_queue_bytes"),
    ({"weight": 0.0}, "weight"),
    ({"preferred_batch_size": (4, 9)}, "preferred_batch_size must be from 1 to max_batch_size 8, not 9"),
    ({"allowed_batch_sizes": (0, 8)}, "allowed_batch_sizes must be positive and ascending"),
    ({"allowed_batch_sizes": (4, 4, 8)}, "allowed_batch_sizes must be positive and ascending"),
    ({"allowed_batch_sizes": (2, 4)}, "the last of allowed_batch_sizes must be max_batch_size 8, not 4"),
    ({"priority_levels": 2}, "default_priority_level must be from 1 to 2, not 0"),
    ({"default_priority_level": 1}, "default_priority_level must be from 0 to 0, not 1"),
    (
        {"priority_levels": 1, "default_priority_level": 1, "priority_queue_policy": {2: QueuePolicy()}},
        "priority_queue_policy names the level 2 of 1",
    ),
    ({"trimmed_outputs": {"y": "x"}}, "'y' follows 'x', which is not among pad_variable_length_inputs"),
]


@pytest.mark.parametrize(("values", "text"), BAD)
def test_value_out_of_range_is_refused_by_name(values, text):
    with pytest.raises(ValueError, match=text):
        QueueOptions(**{"max_batch_size": 8, **values})


def test_equal_options_of_two_signatures_are_told_apart():
    assert QueueOptions(max_batch_size=4) != QueueOptions(max_batch_size=4)


@pytest.mark.parametrize(("priority", "level"), [(0, 2), (1, 1), (3, 3), (4, 2), (-1, 2)])
def test_priority_that_does_not_exist_means_the_default(priority, level):
    options = QueueOptions(max_batch_size=1, priority_levels=3, default_priority_level=2)

    assert options.level_of(priority) == level


@pytest.mark.parametrize(("size", "padded"), [(1, 2), (2, 2), (3, 8), (8, 8), (9, 9)])
def test_smallest_allowed_size_with_room_is_chosen(size, padded):
    assert QueueOptions(max_batch_size=8, allowed_batch_sizes=(2, 8)).padded_size(size) == padded


def test_key_leaves_out_the_sizes_that_are_evened_out():
    options = QueueOptions(max_batch_size=8, pad_variable_length_inputs={"ids": 0})

    assert options.inner_shape("ids", (3, 5, 2)) == (None, None)
    assert options.inner_shape("mask", (3, 5, 2)) == (5, 2)
