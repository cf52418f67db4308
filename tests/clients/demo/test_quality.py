"""Two digits whose pictures and words lie on the axes of a plane, so that every share can be told by eye."""

import numpy as np
import pytest

from clients.demo.calls import Call, Request
from clients.demo.quality import Quality, collect, measure
from clients.demo.traffic import Outcome

LABELS = np.array([0, 0, 1, 1])
AXES = np.eye(2, dtype=np.float32)


@pytest.fixture
def answers():
    return {
        "predict": {"class": LABELS},
        "predict_png": {"class": LABELS},
        "debug_predict": {"logits": AXES[LABELS]},
        "embeddings": {"embedding": AXES[LABELS]},
        "embed_text": {"embedding": AXES[LABELS]},
        "image_threshold": {"threshold": np.asarray(0.5)},
        "text_threshold": {"threshold": np.asarray(0.5)},
        "debug_embeddings": {"projected": 3 * AXES[LABELS], "length": np.full(4, 3.0)},
    }


def test_right_answers_are_perfect_throughout(answers):
    assert {quality.share for quality in measure(answers, LABELS).values()} == {1.0}


@pytest.mark.parametrize(
    ("signature", "answer", "share"),
    [
        ("predict", {"class": np.array([0, 0, 1, 0])}, 0.75),
        ("predict_png", {"class": np.array([1, 1, 1, 1])}, 0.5),
        ("debug_predict", {"logits": AXES[[1, 1, 0, 0]]}, 0.0),
        ("embeddings", {"embedding": AXES[[0, 1, 1, 1]]}, 0.75),
        ("embed_text", {"embedding": AXES[1 - LABELS]}, 0.0),
        ("image_threshold", {"threshold": np.asarray(1.5)}, 0.5),
        ("text_threshold", {"threshold": np.asarray(-0.5)}, 0.5),
        ("debug_embeddings", {"projected": AXES[LABELS], "length": np.array([1.0, 1.0, 1.0, 2.0])}, 0.75),
    ],
)
def test_wrong_answers_lower_the_share_of_their_signature(answers, signature, answer, share):
    quality = measure(answers | {signature: answer}, LABELS)[signature]
    assert quality.share == pytest.approx(share)
    assert not quality.good


def test_a_share_at_the_floor_is_good():
    assert Quality(0.9, "pairs", floor=0.9).good
    assert not Quality(0.89, "pairs", floor=0.9).good


def test_collect_puts_rows_back_where_they_belong():
    ids = np.arange(5)
    call, constant = Call("double", {"x": ids}, {"y": 2 * ids}), Call("constant", {}, {"y": np.asarray(7)})
    requests = [Request(call, slice(3, 5)), Request(constant, slice(0)), Request(call, slice(3))]
    answers = collect([Outcome(request, request.expected, None) for request in requests])
    assert answers["double"]["y"].tolist() == [0, 2, 4, 6, 8]
    assert answers["constant"]["y"] == 7
