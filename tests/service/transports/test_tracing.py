"""The caller's trace comes over each transport, and the request's steps go on in it."""

import pytest

from tests.service.serving import WAIT_S, kit, message, serving
from tests.service.test_spans import STEPS, TRACE_ID, children, parent, roots, traced
from tests.service.transports.channels import connected, run

pytestmark = pytest.mark.usefixtures("each_transport")


@pytest.mark.parametrize("is_stream", [False, True])
def test_callers_trace_goes_on_over_the_wire_and_other_requests_have_none(is_stream):
    async def main():
        with serving(kit()) as served, traced(served, sampling_rate=0.0) as made:
            served.servicer = made.servicer
            async with connected(served) as client:
                if is_stream:
                    await client.talk([message()], metadata=parent())
                    await client.talk([message()])
                else:
                    await client.stub.ModelInfer(message(), metadata=parent(), timeout=WAIT_S)
                    await client.stub.ModelInfer(message(), timeout=WAIT_S)
            return made.spans()

    spans = run(main)
    (root,) = roots(spans)
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert [step.name for step in children(spans, root)] == STEPS


def test_every_request_of_a_stream_has_a_span_in_the_callers_trace():
    async def main():
        with serving(kit()) as served, traced(served) as made:
            served.servicer = made.servicer
            async with connected(served) as client:
                await client.talk([message(), message()], metadata=parent())
            return made.spans()

    assert [f"{root.context.trace_id:032x}" for root in roots(run(main))] == [TRACE_ID] * 2
