"""Our text defines everything that Triton's does, under the same names and numbers, and little else."""

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from protos import grpc_service_pb2, model_config_pb2

ADDED_TO_THE_SERVICE = {
    "field inference.ModelMetadataResponse.properties = 6 map<string, string>",
}
ADDED_TO_THE_CONFIGURATION = {
    "message inference.SignatureConfig",
    "field inference.SignatureConfig.max_batch_size = 1 optional int32",
    "field inference.SignatureConfig.input = 2 repeated .inference.ModelInput",
    "field inference.SignatureConfig.output = 3 repeated .inference.ModelOutput",
    "field inference.SignatureConfig.dynamic_batching = 4 .inference.ModelDynamicBatching",
    "field inference.SignatureConfig.allowed_batch_sizes = 5 repeated int32",
    "field inference.SignatureConfig.pad_variable_length_inputs = 6 map<string, string>",
    "field inference.SignatureConfig.trimmed_outputs = 7 map<string, string>",
    "field inference.SignatureConfig.latency_objective_microseconds = 8 uint64",
    "field inference.SignatureConfig.weight = 9 double",
    "field inference.SignatureConfig.max_queue_rows = 10 uint64",
    "field inference.SignatureConfig.max_queue_bytes = 11 uint64",
    "field inference.SignatureConfig.model_warmup = 12 repeated .inference.ModelWarmup",
    "field inference.SignatureConfig.xla = 13 string",
    "field inference.ModelConfig.signatures = 10001 map<string, .inference.SignatureConfig>",
}


@pytest.mark.parametrize(
    ("stubs", "module", "added"),
    [
        (grpc_service_pb2, "service_pb2", ADDED_TO_THE_SERVICE),
        (model_config_pb2, "model_config_pb2", ADDED_TO_THE_CONFIGURATION),
    ],
    ids=["service", "configuration"],
)
def test_definitions_are_those_of_triton_and_the_listed_additions(stubs, module, added):
    pytest.importorskip("tritonclient.grpc")
    theirs = facts_of_file(getattr(__import__("tritonclient.grpc", fromlist=[module]), module))
    ours = facts_of_file(stubs)

    assert len(theirs) > 100
    assert set() == theirs - ours
    assert added == ours - theirs


def facts_of_file(stubs):
    """Return one line for each thing that a file defines."""
    file = FileDescriptorProto()
    stubs.DESCRIPTOR.CopyToProto(file)
    facts = {f"syntax {file.syntax}", f"package {file.package}"}
    for service in file.service:
        for method in service.method:
            kinds = ["stream" if method.client_streaming else "one", "stream" if method.server_streaming else "one"]
            facts.add(f"method {service.name}.{method.name} {kinds} {method.input_type} {method.output_type}")
    for enum in file.enum_type:
        facts |= facts_of_enum(enum, file.package)
    for message in file.message_type:
        facts |= facts_of_message(message, file.package)
    return facts


def facts_of_enum(enum, scope):
    return {f"value {scope}.{enum.name}.{value.name} = {value.number}" for value in enum.value}


def facts_of_message(message, scope):
    name = f"{scope}.{message.name}"
    maps = {f".{name}.{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
    facts = {f"message {name}"}
    facts |= {f"reserved {name} {reserved.start} {reserved.end}" for reserved in message.reserved_range}
    facts |= {f"reserved {name} {reserved}" for reserved in message.reserved_name}
    for nested in message.nested_type:
        if not nested.options.map_entry:
            facts |= facts_of_message(nested, name)
    for enum in message.enum_type:
        facts |= facts_of_enum(enum, name)
    return facts | {
        f"field {name}.{field.name} = {field.number} {kind_of(field, message, maps)}" for field in message.field
    }


def kind_of(field, message, maps):
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        return f"map<{type_of(key)}, {type_of(value)}>"
    label = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    if field.proto3_optional:
        label = "optional "
    elif field.HasField("oneof_index"):
        label = f"oneof {message.oneof_decl[field.oneof_index].name} "
    return f"{label}{type_of(field)}{field.options}"


def type_of(field):
    return field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
