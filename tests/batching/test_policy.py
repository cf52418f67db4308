import math

import pytest

from batching import QueuePolicy
from batching.policy import CALLERS_TIMEOUT


@pytest.mark.parametrize(
    ("policy", "asked_s", "timeout_s"),
    [
        (QueuePolicy(), 1.0, 0.0),
        (QueuePolicy(default_timeout_s=2.0), 1.0, 2.0),
        (QueuePolicy(default_timeout_s=2.0, allow_timeout_override=True), 1.0, 1.0),
        (QueuePolicy(default_timeout_s=2.0, allow_timeout_override=True), 3.0, 2.0),
        (QueuePolicy(default_timeout_s=2.0, allow_timeout_override=True), 0.0, 2.0),
        (QueuePolicy(default_timeout_s=0.0, allow_timeout_override=True), 1.0, 0.0),
        (CALLERS_TIMEOUT, 1.0, 1.0),
        (CALLERS_TIMEOUT, 0.0, 0.0),
        (CALLERS_TIMEOUT, -1.0, 0.0),
    ],
)
def test_own_timeout_counts_only_where_the_policy_lets_it(policy, asked_s, timeout_s):
    assert policy.timeout_s(asked_s) == timeout_s


@pytest.mark.parametrize(
    "values", [{"default_timeout_s": -1.0}, {"default_timeout_s": math.inf}, {"max_queue_size": -1}]
)
def test_value_out_of_range_is_refused_by_name(values):
    with pytest.raises(ValueError, match=next(iter(values))):
        QueuePolicy(**values)
