"""The RPCs of shared memory: what they do, and for whom."""

import logging
import shutil

import pytest

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.cuda_region import CudaRegion
from service.errors import AlreadyExistsError, InternalError, InvalidArgumentError, NotFoundError, UnimplementedError
from service.shared_memory import Regions
from service.shared_memory_rpcs import SharedMemoryRpcs
from service.system_region import DIRECTORY
from tests.memory_objects import memory_objects

LOCAL, REMOTE = Caller(is_local=True), Caller(is_local=False)
KINDS = ["system", "cuda"]


@pytest.fixture
def memory():
    with memory_objects() as making:
        yield making(8192)


@pytest.fixture
def rpcs():
    return SharedMemoryRpcs(Regions())


def register(rpcs, memory, name="a", byte_size=64, offset=0, caller=LOCAL):
    request = pb.SystemSharedMemoryRegisterRequest(name=name, key=memory.key, offset=offset, byte_size=byte_size)
    return rpcs.system_register(request, caller)


def status(rpcs, name="", kind="system", caller=LOCAL):
    if kind == "cuda":
        return rpcs.cuda_status(pb.CudaSharedMemoryStatusRequest(name=name), caller).regions
    return rpcs.system_status(pb.SystemSharedMemoryStatusRequest(name=name), caller).regions


def unregister(rpcs, name="", kind="system", caller=LOCAL):
    if kind == "cuda":
        return rpcs.cuda_unregister(pb.CudaSharedMemoryUnregisterRequest(name=name), caller)
    return rpcs.system_unregister(pb.SystemSharedMemoryUnregisterRequest(name=name), caller)


def test_all_six_are_offered(rpcs):
    methods = rpcs.unary_methods()

    assert set(methods) == {
        f"{kind}SharedMemory{what}" for kind in ("System", "Cuda") for what in ("Status", "Register", "Unregister")
    }
    for name, (request_type, method) in methods.items():
        assert request_type.DESCRIPTOR.name == f"{name}Request"
        if not name.endswith("Register"):
            assert method(request_type(), LOCAL).DESCRIPTOR.name == f"{name}Response"


def test_first_registration_tells_the_log_how_much_shared_memory_there_is(rpcs, memory, caplog):
    total_mib = shutil.disk_usage(DIRECTORY).total >> 20
    with caplog.at_level(logging.INFO, "service"):
        register(rpcs, memory, "a")
        register(rpcs, memory, "b")

    (record,) = caplog.records
    assert f"MiB of the {total_mib} MiB of /dev/shm are free" in record.getMessage()


def test_refused_registration_tells_the_log_nothing(rpcs, memory, caplog):
    with caplog.at_level(logging.INFO, "service"), pytest.raises(InvalidArgumentError):
        register(rpcs, memory, byte_size=1 << 40)

    assert not caplog.records


def test_status_tells_what_was_registered(rpcs, memory):
    register(rpcs, memory, "a", 64)
    register(rpcs, memory, "b", 100, 4096)

    assert dict(status(rpcs)) == {
        "a": pb.SystemSharedMemoryStatusResponse.RegionStatus(name="a", key=memory.key, byte_size=64),
        "b": pb.SystemSharedMemoryStatusResponse.RegionStatus(name="b", key=memory.key, byte_size=100, offset=4096),
    }
    assert set(status(rpcs, "b")) == {"b"}


def test_unregistering_forgets_one_or_all(rpcs, memory):
    for name in "abc":
        register(rpcs, memory, name)
    unregister(rpcs, "b")
    assert set(status(rpcs)) == {"a", "c"}

    unregister(rpcs)
    assert set(status(rpcs)) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_region_has_no_status_and_need_not_be_unregistered(rpcs, kind):
    with pytest.raises(NotFoundError, match=f"^Unable to find {kind} shared memory region: 'a'$"):
        status(rpcs, "a", kind)
    assert unregister(rpcs, "a", kind) is not None


def test_failures_of_registration_reach_the_caller(rpcs, memory):
    register(rpcs, memory)
    with pytest.raises(AlreadyExistsError):
        register(rpcs, memory)
    with pytest.raises(InvalidArgumentError):
        register(rpcs, memory, "b", 2**64 - 1)
    with pytest.raises(InternalError):
        rpcs.system_register(pb.SystemSharedMemoryRegisterRequest(name="c", key="/../etc/hosts", byte_size=1), LOCAL)

    assert set(status(rpcs)) == {"a"}


# Without a GPU. --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw_handle", [b"", bytes(63), bytes(64), bytes(65)])
@pytest.mark.parametrize("device_id", [0, -1, 2**40])
def test_a_handle_of_no_gpu_memory_is_an_invalid_argument(rpcs, raw_handle, device_id):
    request = pb.CudaSharedMemoryRegisterRequest(name="g", raw_handle=raw_handle, device_id=device_id, byte_size=64)
    with pytest.raises(InvalidArgumentError, match="failed to register shared memory region: invalid args: 'g'"):
        rpcs.cuda_register(request, LOCAL)

    assert dict(status(rpcs, kind="cuda")) == {}


def test_regions_of_one_kind_are_not_shown_or_forgotten_among_the_other(memory):
    regions = Regions()
    rpcs = SharedMemoryRpcs(regions)
    register(rpcs, memory)
    unregister(rpcs, kind="cuda")
    unregister(rpcs, "a", kind="cuda")

    assert set(status(rpcs)) == {"a"}
    assert dict(status(rpcs, kind="cuda")) == {}
    assert regions.registered(CudaRegion) == []


# Other callers. --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_callers_on_other_hosts_can_change_nothing_and_see_nothing(rpcs, memory, kind):
    register(rpcs, memory)
    with pytest.raises(UnimplementedError, match="on the server's own host only"):
        register(rpcs, memory, "b", caller=REMOTE)
    with pytest.raises(UnimplementedError, match="on the server's own host only"):
        rpcs.cuda_register(pb.CudaSharedMemoryRegisterRequest(name="g"), REMOTE)
    with pytest.raises(UnimplementedError, match="on the server's own host only"):
        unregister(rpcs, "a", kind, REMOTE)
    with pytest.raises(NotFoundError):
        status(rpcs, "a", kind, REMOTE)

    assert dict(status(rpcs, "", kind, REMOTE)) == {}
    assert set(status(rpcs)) == {"a"}


def test_callers_on_other_hosts_may_do_all_when_that_is_allowed(memory):
    rpcs = SharedMemoryRpcs(Regions(allow_remote=True))
    register(rpcs, memory, caller=REMOTE)
    assert set(status(rpcs, "a", caller=REMOTE)) == {"a"}

    unregister(rpcs, "a", caller=REMOTE)
    assert dict(status(rpcs, caller=REMOTE)) == {}


def test_where_it_is_switched_off_nobody_can_register(memory):
    rpcs = SharedMemoryRpcs(Regions(enabled=False))
    with pytest.raises(UnimplementedError, match="switched off on this server"):
        register(rpcs, memory)
    with pytest.raises(UnimplementedError, match="switched off on this server"):
        unregister(rpcs)

    assert dict(status(rpcs)) == {}
