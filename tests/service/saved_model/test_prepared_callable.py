"""Prepared callables, the private way and the public one."""

import numpy as np
import pytest
import tensorflow as tf

from service.saved_model.prepared_callable import prepare


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a, b = (tf.compat.v1.placeholder(tf.float32, [None], name=name) for name in "ab")
        tf.add(a, b, name="sum")
        tf.subtract(a, b, name="difference")
        yield session


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_feeds_and_fetches_keep_their_order(private, inline, session, monkeypatch):
    if not private:
        owner = next(one for one in type(session).__mro__ if "_make_callable_from_options" in vars(one))
        monkeypatch.delattr(owner, "_make_callable_from_options")

    run = prepare(session, ["b:0", "a:0"], ["difference:0", "sum:0"], inline=inline)

    difference, total = run(np.array([1.0], np.float32), np.array([5.0], np.float32))
    assert (difference.tolist(), total.tolist()) == ([4.0], [6.0])
