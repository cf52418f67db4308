"""Requests to the model ``kit`` whose every row tells whose it is, and checks of their answers.

A check gets ``ask(inputs, signature)``, which sends a request and returns its outputs by name, the first of the ids
that it may use, and a number of rows. It raises AssertionError when the answer is not what it must be.
"""

import numpy as np

from tests.end_to_end.calls import rows, texts

PROJECTION = np.arange(32, dtype=np.float32).reshape(4, 8)


def embedded(x):
    return np.concatenate([x[:, :1], (x @ PROJECTION)[:, 1:]], axis=1)


def check_floats(function, output):
    def check(ask, first_id, count):
        x = rows(count, first_id)
        signature, expected = function(x)
        np.testing.assert_allclose(ask({"x": x}, signature)[output], expected, rtol=1e-5)

    return check


def check_wide(ask, first_id, count):
    x = rows(count, first_id, columns=6)
    np.testing.assert_array_equal(ask({"x": x}, "wide")["y"], x[:, [0, 5]])


def check_tokens(ask, first_id, count):
    ids = first_id + np.arange(count * (1 + first_id % 4), dtype=np.int64).reshape(count, -1)
    np.testing.assert_array_equal(ask({"ids": ids}, "tokens")["total"], ids.sum(axis=1))


def check_text(ask, first_id, count):
    sent = texts(*(b"%d\0" % (first_id + row) for row in range(count)))
    assert ask({"text": sent}, "text")["text"].tolist() == sent.tolist()


def check_info(ask, _first_id, _count):
    assert ask({}, "info")["build"] == b"kit 1"


def check_filter(ask, first_id, count):
    x = rows(count, first_id)
    x[::2, 0] *= -1
    np.testing.assert_array_equal(ask({"x": x}, "filter")["kept"], x[x[:, 0] > 0])


def check_scale(ask, first_id, count):
    x, k = rows(count, first_id), np.array(first_id % 5, np.float32)
    np.testing.assert_array_equal(ask({"x": x, "k": k}, "scale")["y"], x * k)


def check_many(ask, first_id, count):
    x = rows(count, first_id)
    for name, array in ask({"x": x}, "many").items():
        number = float(name.removeprefix("out_"))
        np.testing.assert_array_equal(array, np.stack([x[:, 0], np.full(count, number)], axis=1))


CHECKS = [
    check_floats(lambda x: (None, x[:, :2] * 10), "y"),
    check_floats(lambda x: ("embed", embedded(x)), "z"),
    check_floats(lambda x: ("mean", x.mean()), "m"),
    check_floats(lambda x: ("picky", x[:, :2] * 10), "y"),
    check_floats(lambda x: ("slow", x[:, :2] * 10), "y"),
    check_wide,
    check_tokens,
    check_text,
    check_info,
    check_filter,
    check_scale,
    check_many,
]
