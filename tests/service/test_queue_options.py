"""What config.pbtxt says of a signature's queue reaches the batcher, in the batcher's units."""

import pytest
from google.protobuf import text_format

from batching.options import Joining, Oversize
from batching.policy import QueuePolicy, TimeoutAction
from protos.model_config_pb2 import ModelConfig
from service.config_completion import ConfigDefaults, complete
from service.errors import LoadError
from service.queue_options import queue_options
from tests.fakes import signature, spec
from tests.service.serving import kit

EVERYTHING = """
    max_batch_size: 8
    dynamic_batching {
        preferred_batch_size: [ 4, 2, 4 ] max_queue_delay_microseconds: 500 preserve_ordering: true
        priority_levels: 3 default_priority_level: 2
        default_queue_policy {
            timeout_action: DELAY default_timeout_microseconds: 250000 allow_timeout_override: true max_queue_size: 16
        }
        priority_queue_policy { key: 1 value { default_timeout_microseconds: 1 } }
    }
"""


def options(name="serving_default", text="", oversize=Oversize.CUT, **defaults):
    signatures = kit().signatures
    config = complete(
        text_format.Parse(text, ModelConfig()), model="clip", signatures=signatures, defaults=ConfigDefaults(**defaults)
    )
    return queue_options(signatures[name], config, oversize, model="clip")


@pytest.mark.parametrize(
    ("name", "joining", "max_batch_size"),
    [
        ("serving_default", Joining.JOIN, 64),
        ("text", Joining.JOIN, 64),
        ("sum", Joining.ALONE, 1),
        ("store", Joining.ALONE, 1),
        ("threshold", Joining.SHARE, 1),
        ("draw", Joining.ALONE, 1),
        ("scale", Joining.ALONE, 1),
    ],
)
def test_signature_decides_whether_requests_join_share_or_run_alone(name, joining, max_batch_size):
    chosen = options(name)

    assert (chosen.joining, chosen.max_batch_size) == (joining, max_batch_size)


def test_nothing_waits_and_nothing_is_limited_where_nothing_is_configured():
    chosen = options()

    assert chosen.max_queue_delay_s == 0
    assert chosen.max_queue_size == 0
    assert chosen.default_queue_policy is None
    assert chosen.priority_levels == 0
    assert not chosen.preserve_ordering


def test_everything_that_is_configured_is_taken_over():
    chosen = options(text=EVERYTHING)

    assert chosen.max_batch_size == 8
    assert chosen.preferred_batch_size == (2, 4)
    assert chosen.max_queue_delay_s == 0.0005
    assert chosen.preserve_ordering
    assert (chosen.priority_levels, chosen.default_priority_level) == (3, 2)
    assert chosen.default_queue_policy == QueuePolicy(
        timeout_action=TimeoutAction.DELAY, default_timeout_s=0.25, allow_timeout_override=True, max_queue_size=16
    )
    assert chosen.priority_queue_policy == {
        1: QueuePolicy(
            timeout_action=TimeoutAction.REJECT, default_timeout_s=1e-6, allow_timeout_override=False, max_queue_size=0
        )
    }


def test_policies_hold_also_for_signatures_whose_requests_run_alone():
    chosen = options("sum", EVERYTHING)

    assert chosen.joining is Joining.ALONE
    assert (chosen.priority_levels, chosen.default_priority_level) == (3, 2)
    assert chosen.default_queue_policy.max_queue_size == 16


def test_empty_policy_is_a_policy():
    """As on Triton, a queue with a policy does not listen to the timeouts of requests unless it says so."""
    chosen = options(text="max_batch_size: 8 dynamic_batching { default_queue_policy {} }")

    assert chosen.default_queue_policy == QueuePolicy(
        timeout_action=TimeoutAction.REJECT, default_timeout_s=0, allow_timeout_override=False, max_queue_size=0
    )


def test_signature_has_its_own_queue_where_it_is_configured():
    text = EVERYTHING + 'signatures { key: "embed" value { max_batch_size: 2 dynamic_batching {} } }'

    assert options("embed", text).max_batch_size == 2
    assert options("embed", text).priority_levels == 0
    assert options("serving_default", text).max_batch_size == 8


@pytest.mark.parametrize("defaults", [{"default_max_batch_size": 1}, {"default_max_batch_size": 0}])
def test_batches_of_one_row_are_runs_of_single_requests(defaults):
    assert options(**defaults).joining is Joining.ALONE


def test_model_without_a_scheduler_is_not_batched_where_nothing_is_completed():
    assert options(text="max_batch_size: 8", auto_complete=False).joining is Joining.ALONE


def test_delay_of_the_server_holds_where_the_model_has_none():
    assert options(max_queue_delay_us=300).max_queue_delay_s == 0.0003
    assert options(text="max_batch_size: 8 dynamic_batching {}", max_queue_delay_us=300).max_queue_delay_s == 0


@pytest.mark.parametrize("oversize", Oversize)
def test_what_happens_to_oversize_requests_is_the_servers_choice(oversize):
    assert options(oversize=oversize).oversize is oversize


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("preferred_batch_size: 9", "preferred_batch_size must be from 1 to max_batch_size 8, not 9"),
        ("preferred_batch_size: 0", "preferred_batch_size"),
        ("priority_levels: 2", "default_priority_level must be from 1 to 2, not 0"),
        ("priority_levels: 2 default_priority_level: 3", "not 3"),
        ("priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 2 value {} }", "level 2 of 1"),
    ],
)
def test_value_out_of_range_is_a_load_error_that_names_model_and_signature(text, says):
    with pytest.raises(LoadError, match=f"^model 'clip', signature 'serving_default': .*{says}"):
        options(text=f"max_batch_size: 8 dynamic_batching {{ {text} }}")


LENGTHS = signature("tokens", [spec("ids", "INT64", (-1, -1))], [spec("total", "INT64", (-1,)), spec("y", "FP32")])

OWN = """
    signatures {
        key: "tokens"
        value {
            max_batch_size: 8
            allowed_batch_sizes: [ 2, 8 ]
            pad_variable_length_inputs { key: "ids" value: "-1" }
            trimmed_outputs { key: "y" value: "ids" }
            weight: 2.5 max_queue_rows: 100 max_queue_bytes: 1000
            dynamic_batching { }
        }
    }
"""


def own_options(text):
    config = complete(
        text_format.Parse(text, ModelConfig()),
        model="clip",
        signatures={"tokens": LENGTHS},
        defaults=ConfigDefaults(),
    )
    return queue_options(LENGTHS, config, Oversize.CUT, model="clip")


def test_what_only_a_signature_can_say_reaches_the_batcher():
    chosen = own_options(OWN)

    assert chosen.allowed_batch_sizes == (2, 8)
    assert chosen.pad_variable_length_inputs == {"ids": -1}
    assert chosen.trimmed_outputs == {"y": "ids"}
    assert (chosen.weight, chosen.max_queue_rows, chosen.max_queue_bytes) == (2.5, 100, 1000)


def test_a_latency_objective_is_given_in_microseconds():
    chosen = own_options('signatures { key: "tokens" value { latency_objective_microseconds: 20000 } }')

    assert chosen.latency_objective_s == 0.02


def test_a_latency_objective_takes_the_place_of_the_delay_of_the_server():
    text = 'signatures { key: "serving_default" value { latency_objective_microseconds: 20000 } }'

    chosen = options(text=text, max_queue_delay_us=500)

    assert (chosen.latency_objective_s, chosen.max_queue_delay_s) == (0.02, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('pad_variable_length_inputs { key: "nope" value: "0" }', "'nope' is no input with an open dimension"),
        ('pad_variable_length_inputs { key: "ids" value: "x" }', "expected a value of INT64 for input 'ids', got 'x'"),
        ('pad_variable_length_inputs { key: "ids" value: "99999999999999999999" }', "got '99999999999999999999'"),
        ('trimmed_outputs { key: "nope" value: "ids" }', "there is no output 'nope'"),
        ('trimmed_outputs { key: "y" value: "x" }', "'y' follows 'x'"),
        ("allowed_batch_sizes: [ 8, 2 ]", "ascending"),
        ("allowed_batch_sizes: [ 2 ]", "max_batch_size 64"),
        ("max_batch_size: 0 allowed_batch_sizes: [ 2 ]", "do not share runs"),
        ("max_batch_size: 0 latency_objective_microseconds: 5", "do not share runs"),
        ("weight: -1", "weight"),
    ],
)
def test_what_a_signature_cannot_have_is_a_load_error_that_says_why(text, told):
    with pytest.raises(LoadError, match="model 'clip', signature 'tokens'") as caught:
        own_options(f'signatures {{ key: "tokens" value {{ {text} }} }}')

    assert told in str(caught.value)
