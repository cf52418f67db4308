"""What running a signature does besides answering: nothing, drawing random numbers, or writing.

TensorFlow marks every op that must not be merged, dropped or folded as stateful, also those that only read state. So
the ops that are known to be harmless or random are listed, and any other stateful op counts as writing: Python
functions, ops of other libraries, queues, files, assignments. TF1's reference variables are written by ops that are not
marked as stateful; those take a reference as input.
"""

from collections.abc import Iterable

from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.saved_model.graph_index import GraphIndex
from service.saved_model.op_registry import op_def
from service.signature import Effect

_CALLS = {"StatefulPartitionedCall", "If", "While", "Case", "RemoteCall", "XlaLaunch", "BatchFunction"}
"""Their effect is that of the functions that they call, which are walked as well."""

_READS_OF_VARIABLES = {
    "VarHandleOp",
    "_VarHandlesOp",
    "ReadVariableOp",
    "_ReadVariablesOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VariableShape",
    "VarIsInitializedOp",
    "DisableCopyOnRead",
    "Variable",
    "VariableV2",
    "IsVariableInitialized",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefMerge",
    "RefNextIteration",
    "RefSelect",
    "RefSwitch",
}

_READS_OF_TABLES = {
    "HashTable",
    "HashTableV2",
    "AnonymousHashTable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors",
    "AnonymousMutableDenseHashTable",
    "LookupTableFind",
    "LookupTableFindV2",
    "LookupTableSize",
    "LookupTableSizeV2",
    "LookupTableExport",
    "LookupTableExportV2",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesPredict",
}

_MESSAGES = {"Assert", "Print", "PrintV2", "CheckNumerics", "CheckNumericsV2", "DebugIdentityV2", "DebugIdentityV3"}

_OF_ONE_RUN = {
    "Stack",
    "StackV2",
    "StackClose",
    "StackCloseV2",
    "StackPop",
    "StackPopV2",
    "StackPush",
    "StackPushV2",
    "TemporaryVariable",
    "DestroyTemporaryVariable",
    "Empty",
    "GuaranteeConst",
    "_Arg",
    "_Retval",
    "DeviceIndex",
    "IsTensorFloat32Enabled",
    "MakeWeakResourceHandle",
    "StatelessRandomGetAlg",
    "SleepOp",
    "SleepIdentityOp",
    "CudnnRNN",
    "CudnnRNNV2",
    "CudnnRNNV3",
}
"""State that lives for one run, or none at all."""

_TENSOR_ARRAYS = "TensorArray"
"""All ops of this prefix keep their state within one run."""

_READS_OF_DATA = {
    "TensorDataset",
    "TensorSliceDataset",
    "SparseTensorSliceDataset",
    "RangeDataset",
    "ListDataset",
    "ThreadPoolDataset",
    "ThreadPoolHandle",
    "TextLineDataset",
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
    "CSVDataset",
    "CSVDatasetV2",
    "MatchingFilesDataset",
    "DatasetToSingleElement",
    "ReduceDataset",
    "GroupByReducerDataset",
}
"""Datasets that are made, read to their end and dropped within one run. Iterators may outlive it and are not here."""

_HARMLESS = _CALLS | _READS_OF_VARIABLES | _READS_OF_TABLES | _MESSAGES | _OF_ONE_RUN | _READS_OF_DATA

_RANDOM = {
    "RandomUniform",
    "RandomUniformInt",
    "RandomStandardNormal",
    "TruncatedNormal",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "RandomShuffle",
    "RandomCrop",
    "Multinomial",
    "NonDeterministicInts",
    "StatefulRandomBinomial",
    "StatefulStandardNormal",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
    "RngSkip",
    "RngReadAndSkip",
    "SampleDistortedBoundingBox",
    "SampleDistortedBoundingBoxV2",
    "AllCandidateSampler",
    "FixedUnigramCandidateSampler",
    "LearnedUnigramCandidateSampler",
    "LogUniformCandidateSampler",
    "ThreadUnsafeUnigramCandidateSampler",
    "UniformCandidateSampler",
    "RandomDataset",
    "RandomDatasetV2",
    "ShuffleDatasetV2",
    "ShuffleDatasetV3",
    "ShuffleAndRepeatDatasetV2",
    "AnonymousSeedGenerator",
    "AnonymousRandomSeedGenerator",
    "DeleteSeedGenerator",
    "DeleteRandomSeedGenerator",
    "DummySeedGenerator",
    "Timestamp",
}
"""Their answer differs from run to run. A random generator's position is a variable, but one that only they read."""

_SEVERITY = {Effect.PURE: 0, Effect.RANDOM: 1, Effect.WRITING: 2}


def effect_of(index: GraphIndex, roots: Iterable[str]) -> Effect:
    """Return the gravest effect among all nodes that a run of the given nodes may execute."""
    effects = {_effect_of_node(node, index) for node in index.reached_nodes(roots)}
    return max(effects, key=_SEVERITY.__getitem__, default=Effect.PURE)


def _effect_of_node(node: NodeDef, index: GraphIndex) -> Effect:
    if node.op in _RANDOM:
        return Effect.RANDOM
    if node.op in _HARMLESS or node.op.startswith(_TENSOR_ARRAYS) or node.op in index.functions:
        return Effect.PURE
    known = op_def(node.op)
    if known is None or known.is_stateful or any(argument.is_ref for argument in known.input_arg):
        return Effect.WRITING
    return Effect.PURE
