import pytest

from service.alias import split_alias


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("clip:embed", ("clip", "embed")),
        ("clip:", ("clip", "")),
        ("clip:a:b", ("clip:a", "b")),
        ("clip:a:b:c", ("clip:a", "b:c")),
        ("clip:b:c", ("clip", "b:c")),
        ("clip", None),
        ("nope:embed", None),
        (":clip", None),
        ("", None),
    ],
)
def test_the_model_is_the_longest_prefix_before_a_colon_that_is_one(name, meant):
    assert split_alias(name, {"clip": 1, "clip:a": 2}) == meant


def test_without_models_nothing_is_an_alias():
    assert split_alias("clip:embed", {}) is None


@pytest.mark.timeout(20)
def test_a_name_of_many_colons_is_looked_at_in_no_time():
    """Looking at every prefix of it took a quarter of an hour."""
    assert split_alias(":" * 5_000_000, {"clip": 1}) is None
    assert split_alias("clip" + ":" * 5_000_000, {"clip": 1}) == ("clip", ":" * 4_999_999)
