"""A value for each option of the server that is not its default: as text and as what it means."""

from pathlib import Path

from batching.options import Oversize

VALUES = {
    "model_repository": ("models", (Path("models"),)),
    "model": ("clip=a=b", ("clip=a=b",)),
    "grpc_address": ("::1", ("::1",)),
    "grpc_port": ("9001", 9001),
    "server_id": ("mine", "mine"),
    "default_signature": ("embed", "embed"),
    "default_max_batch_size": ("0", 0),
    "max_queue_delay_us": ("500", 500),
    "oversize_requests": ("reject", Oversize.REJECT),
    "disable_auto_complete_config": ("true", True),
    "exit_on_error": ("false", False),
    "instance_count": ("3", 3),
    "intra_op_threads": ("4", 4),
    "inter_op_threads": ("5", 5),
    "drain_delay": ("1.5", 1.5),
    "drain_timeout": ("0", 0.0),
    "log_verbose": ("2", 2),
}
