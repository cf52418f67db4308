import inspect
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from service import errors
from service.status import status_of

INVALID = grpc.StatusCode.INVALID_ARGUMENT
CODES = [
    (errors.InvalidArgumentError, INVALID),
    (errors.NotFoundError, grpc.StatusCode.NOT_FOUND),
    (errors.AlreadyExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (errors.UnavailableError, grpc.StatusCode.UNAVAILABLE),
    (errors.InternalError, grpc.StatusCode.INTERNAL),
    (errors.UnimplementedError, grpc.StatusCode.UNIMPLEMENTED),
    (errors.ResourceExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.DeadlineExceededError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.CancelledError, grpc.StatusCode.CANCELLED),
    (errors.UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (errors.PermissionDeniedError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.LoadError, INVALID),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_a_domain_error_has_its_code_and_keeps_its_text(error, code):
    assert status_of(error("input 'x' is too large")) == (code, "input 'x' is too large")


def test_every_domain_error_has_a_code():
    declared = {each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__}

    assert {error for error, _ in CODES} == declared - {errors.SignetError}


@pytest.mark.parametrize("error", [ValueError("a secret"), KeyError("a secret"), errors.SignetError("a secret")])
def test_any_other_error_is_logged_and_answered_with_a_fixed_text(error, caplog):
    assert status_of(error) == (grpc.StatusCode.INTERNAL, errors.UNEXPECTED)
    assert "a secret" not in errors.UNEXPECTED
    assert [record.exc_info[1] for record in caplog.records] == [error]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a" * 4000, "a" * 4000),
        ("a" * 4001, "a" * 4000 + " ..."),
        ("\n" * 4000, "\n" * 1333 + " ..."),
        ("%" * 4000, "%" * 1333 + " ..."),
        ("\u6f22" * 4000, "\u6f22" * 444 + " ..."),
        ("\U0001f600" * 334, "\U0001f600" * 333 + " ..."),
    ],
    ids=["fits", "ascii", "line_feeds", "percent_signs", "three_bytes_each", "four_bytes_each"],
)
def test_a_text_is_cut_to_what_a_header_can_carry(text, kept):
    assert status_of(errors.NotFoundError(text))[1] == kept


@pytest.fixture(scope="module")
def refuse():
    """Calls a real gRPC server that refuses with the given text, and returns what the client sees."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: context.abort(*status_of(errors.InvalidArgumentError(texts[int(request)])))
            )

    def call(text):
        texts.append(text)
        with pytest.raises(grpc.RpcError) as caught:
            method(str(len(texts) - 1).encode(), timeout=30)
        return caught.value.code(), caught.value.details()

    texts = []
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.unary_unary("/any/Method")
        yield call
    server.stop(None).wait()


@pytest.mark.parametrize("text", ["a" * 10**6, "\u6f22" * 4000, "%" * 4000, "\n" * 4000, "\0" * 4000])
def test_a_long_text_reaches_a_client_with_its_code(refuse, text):
    assert refuse(text) == status_of(errors.InvalidArgumentError(text))


def test_the_name_of_a_file_that_is_no_utf8_reaches_a_client_escaped(refuse):
    assert refuse("models/\udcff: no such directory") == (INVALID, "models/\\udcff: no such directory")
