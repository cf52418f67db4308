"""Failed calls give their memory back at once."""

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call

pytestmark = pytest.mark.end_to_end


def test_refused_requests_of_20_mb_do_not_pile_up(server, client):
    x = np.zeros((1, 5_000_000), np.float32)

    def refuse(count):
        for _ in range(count):
            with pytest.raises(InferenceServerException, match="unexpected shape"):
                call(client, "kit", {"x": x})
        return server.resident_mib()

    before_mib = refuse(10)
    # 80 of them at a time waited for the garbage collector.
    assert refuse(40) - before_mib < 200
