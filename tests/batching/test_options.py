import pytest

from batching import QueueOptions


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be at least 1, not 0"),
        ({"max_batch_size": 1, "max_queue_delay_s": -0.1}, "max_queue_delay_s"),
        ({"max_batch_size": 1, "max_queue_size": -1}, "max_queue_size"),
    ],
)
def test_value_out_of_range_is_refused_by_name(values, text):
    with pytest.raises(ValueError, match=text):
        QueueOptions(**values)


def test_equal_options_of_two_signatures_are_told_apart():
    assert QueueOptions(max_batch_size=4) != QueueOptions(max_batch_size=4)
