import numpy as np
import pytest


@pytest.fixture(scope="module")
def separating_threshold():
    from clients.digits.training import separating_threshold

    return separating_threshold


def test_threshold_is_in_the_middle_of_the_gap_between_matches_and_others(separating_threshold):
    cosines = np.array([0.1, 0.9, 0.2, 0.6])
    assert separating_threshold(cosines, np.array([False, True, False, True])) == pytest.approx(0.4)


def test_threshold_weighs_both_kinds_alike_however_rare_matches_are(separating_threshold):
    cosines = np.array([0.0] * 1000 + [0.5] * 10 + [0.6, 0.4])
    matches = np.array([False] * 1010 + [True, True])
    assert 0.0 < separating_threshold(cosines, matches) < 0.4


def test_training_twice_gives_the_same_weights():
    from clients.digits.model import DigitsModel
    from clients.digits.pictures import load_pictures
    from clients.digits.training import train

    training, held_out = load_pictures()
    first, second = (train(training, held_out) for _ in range(2))
    assert isinstance(first, DigitsModel)
    for one, other in zip(first.variables, second.variables, strict=True):
        assert np.array_equal(one.numpy(), other.numpy())
