"""The operations of TensorFlow that reach beyond the graph: files, Python, other processes and hosts."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tensorflow.core.framework.node_def_pb2 import NodeDef

_READS: Final = "reads files"
_WRITES: Final = "writes files"
_PYTHON: Final = "runs Python"
_TALKS: Final = "talks to other processes or hosts"
_PRINTS: Final = "prints tensors to the server's output"
_ENDS: Final = "ends the server"

RESTORE_OPS: Final = frozenset({"Restore", "RestoreSlice", "RestoreV2"})
"""What reads a checkpoint; every SavedModel with variables has one of them in the step that restores them."""

FILE_NAME_INPUTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "CSVDataset": 0,
        "CSVDatasetV2": 0,
        "CacheDataset": 1,
        "CacheDatasetV2": 1,
        "FixedLengthRecordDataset": 0,
        "FixedLengthRecordDatasetV2": 0,
        "InitializeTableFromTextFile": 1,
        "InitializeTableFromTextFileV2": 1,
        "ReadFile": 0,
        "TFRecordDataset": 0,
        "TFRecordDatasetV2": 0,
        "TextLineDataset": 0,
    }
)
"""By op the input that names the files. Those of the model's own assets are no reach beyond it."""

_BY_OP: Final[Mapping[str, tuple[str, ...]]] = {
    _PYTHON: ("EagerPyFunc", "PyFunc", "PyFuncStateless"),
    _READS: (
        *FILE_NAME_INPUTS,
        *RESTORE_OPS,
        "DTensorRestoreV2",
        "DeserializeIterator",
        "ExperimentalCSVDataset",
        "ExperimentalLMDBDataset",
        "ExperimentalMatchingFilesDataset",
        "ExperimentalSqlDataset",
        "FixedLengthRecordReader",
        "FixedLengthRecordReaderV2",
        "GenerateVocabRemapping",
        "ImmutableConst",
        "LMDBDataset",
        "LMDBReader",
        "ListSnapshotChunksDataset",
        "LoadAndRemapMatrix",
        "LoadDataset",
        "MatchingFiles",
        "MatchingFilesDataset",
        "ReaderRead",
        "ReaderReadUpTo",
        "ReaderReadUpToV2",
        "ReaderReadV2",
        "RecordInput",
        "Skipgram",
        "SnapshotChunkDataset",
        "SnapshotDatasetReader",
        "SnapshotNestedDatasetReader",
        "SqlDataset",
        "TFRecordReader",
        "TFRecordReaderV2",
        "TextLineReader",
        "TextLineReaderV2",
        "WholeFileReader",
        "WholeFileReaderV2",
    ),
    _WRITES: (
        "CalibrationStatisticsSaver",
        "CreateSummaryDbWriter",
        "CreateSummaryFileWriter",
        "DatasetToTFRecord",
        "DistributedSave",
        "DumpTensor",
        "ExperimentalDatasetToTFRecord",
        "MergeV2Checkpoints",
        "Save",
        "SaveDataset",
        "SaveDatasetV2",
        "SaveSlices",
        "SaveV2",
        "SnapshotDataset",
        "SnapshotDatasetV2",
        "WriteFile",
    ),
    # Print puts what callers send between the lines of the log, as it is.
    _PRINTS: ("Print", "PrintV2"),
    _ENDS: ("Abort",),
    _TALKS: (
        "CollectiveAllToAllV2",
        "CollectiveAllToAllV3",
        "CollectiveBcastRecv",
        "CollectiveBcastRecvV2",
        "CollectiveBcastSend",
        "CollectiveBcastSendV2",
        "CollectiveGather",
        "CollectiveGatherV2",
        "CollectiveInitializeCommunicator",
        "CollectivePermute",
        "CollectiveReduce",
        "CollectiveReduceScatterV2",
        "CollectiveReduceV2",
        "CollectiveReduceV3",
        "ConfigureDistributedTPU",
        "DataServiceDataset",
        "DataServiceDatasetV2",
        "DataServiceDatasetV3",
        "DataServiceDatasetV4",
        "FileSystemSetConfiguration",
        "RegisterDataset",
        "RegisterDatasetV2",
        "RemoteCall",
        "RpcCall",
        "RpcClient",
        "RpcServer",
        "RpcServerStart",
    ),
}
_BY_NAME: Final = {op: does for does, ops in _BY_OP.items() for op in ops}


def _prints_to_file(node: NodeDef) -> bool:
    return bytes(node.attr["output_stream"].s).startswith(b"file://")


def _has_debug_urls(node: NodeDef) -> bool:
    return bool(node.attr["debug_urls"].list.s)


def _has_vocabulary_file(node: NodeDef) -> bool:
    return bool(node.attr["vocab_file"].s)


_BY_ATTRIBUTE: Final[Mapping[str, tuple[str, Callable[[NodeDef], bool]]]] = {
    "PrintV2": (_WRITES, _prints_to_file),
    "DebugIdentity": (_WRITES, _has_debug_urls),
    "DebugIdentityV2": (_WRITES, _has_debug_urls),
    "DebugIdentityV3": (_WRITES, _has_debug_urls),
    "DebugNanCount": (_WRITES, _has_debug_urls),
    "DebugNumericSummary": (_WRITES, _has_debug_urls),
    "FixedUnigramCandidateSampler": (_READS, _has_vocabulary_file),
}
"""Ops that reach further when an attribute says so."""


def reach_of(node: NodeDef) -> str | None:
    """Return what a node does beyond computing, None when it does nothing; where its files lie is not looked at."""
    if node.op in _BY_ATTRIBUTE:
        does, applies = _BY_ATTRIBUTE[node.op]
        if applies(node):
            return does
    return _BY_NAME.get(node.op)
