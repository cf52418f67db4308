"""The stubs that are checked in are those that their definitions give."""

import shutil

from tools import generate_protos


def test_generating_the_stubs_again_changes_nothing():
    assert generate_protos.difference(generate_protos.PROTOS) == ""


def test_a_changed_definition_an_edited_stub_and_a_stray_stub_are_seen_and_mended(tmp_path):
    protos = tmp_path / "protos"
    shutil.copytree(generate_protos.PROTOS, protos)
    (protos / "model_config_pb2.py").write_text("")
    (protos / "stray_pb2.py").write_text("stray\n")
    definition = protos / "grpc_service.proto"
    definition.write_text(definition.read_text().replace("bool live = 1;", "bool live = 1;\n  bool awake = 2;"))

    diff = generate_protos.difference(protos)

    assert "+_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'protos.model_config_pb2', _globals)\n" in diff
    assert "-stray\n" in diff
    assert "+    awake: bool\n" in diff

    generate_protos.write(protos)

    assert generate_protos.difference(protos) == ""
    assert not (protos / "stray_pb2.py").exists()
