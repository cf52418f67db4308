"""A file of tokens, in the clear or as hashes."""

import hashlib

import pytest

from service.errors import LoadError
from service.tokens import Tokens


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def tokens(tmp_path):
    def make(text):
        (tmp_path / "tokens").write_text(text)
        return Tokens(tmp_path / "tokens")

    return make


def test_tokens_of_a_file_are_known_and_no_others(tokens):
    known = tokens(f"# those of the gateway\none\n\n  two  \nsha256:{digest('three')}\n")

    assert all(map(known.know, ["one", "two", "three"]))
    assert not any(
        map(known.know, ["", "# those of the gateway", "ONE", "on", "onee", f"sha256:{digest('three')}", "ü"])
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_file_without_a_token_is_an_error(tokens, text):
    with pytest.raises(LoadError, match="holds no token"):
        tokens(text)


@pytest.mark.parametrize("value", ["", "abc", "g" * 64, digest("x") + "00"])
def test_hash_that_is_none_is_an_error_that_does_not_tell_it(tokens, value):
    with pytest.raises(LoadError, match="line 2: expected sha256: and 64") as caught:
        tokens(f"one\nsha256:{value}\n")

    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "line"), [(b"one\nsecret\xc3\xb6\n", 2), (b"secret\0\n", 1), ("secret\n".encode("utf-16"), 1)]
)
def test_token_that_no_caller_could_send_is_an_error_that_does_not_tell_it(tmp_path, written, line):
    (tmp_path / "tokens").write_bytes(written)

    with pytest.raises(LoadError, match=f"line {line}: metadata hold printable ASCII") as caught:
        Tokens(tmp_path / "tokens")
    assert "secret" not in str(caught.value)


def test_file_that_an_editor_of_windows_wrote_is_understood(tmp_path):
    (tmp_path / "tokens").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    known = Tokens(tmp_path / "tokens")

    assert known.know("one")
    assert known.know("two")


def test_tokens_themselves_are_not_kept(tokens):
    known = tokens("a-long-token\n")

    assert b"a-long-token" not in repr(vars(known._hashes)).encode()
