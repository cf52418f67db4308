"""A value for each option of the server that is not its default: as text and as what it means."""

from pathlib import Path

from batching.options import Oversize
from service.logs import LogFormat
from service.model_scan import ModelScan
from service.settings import ControlMode, ResponseCompression

VALUES = {
    "model_repository": ("models", (Path("models"),)),
    "model": ("clip=a=b", ("clip=a=b",)),
    "model_config_name": ("canary", "canary"),
    "model_config_file": ("models.config", Path("models.config")),
    "model_control_mode": ("explicit", ControlMode.EXPLICIT),
    "load_model": ("clip", ("clip",)),
    "repository_poll_secs": ("2", 2),
    "allow_file_override": ("true", True),
    "share_equal_models": ("true", True),
    "strict_readiness": ("true", True),
    "grpc_address": ("::1", ("::1",)),
    "grpc_port": ("9001", 9001),
    "grpc_unix_socket_mode": ("0600", "0600"),
    "grpc_infer_response_compression_level": ("medium", ResponseCompression.MEDIUM),
    "grpc_keepalive_time": ("30000", 30_000),
    "grpc_keepalive_timeout": ("5000", 5000),
    "grpc_keepalive_permit_without_calls": ("false", False),
    "grpc_http2_max_pings_without_data": ("0", 0),
    "grpc_http2_min_recv_ping_interval_without_data": ("10000", 10_000),
    "grpc_http2_max_ping_strikes": ("0", 0),
    "grpc_max_connection_age": ("60000", 60_000),
    "grpc_max_connection_age_grace": ("7000", 7000),
    "allow_metrics": ("false", False),
    "metrics_address": ("::1", "::1"),
    "metrics_port": ("9002", 9002),
    "health_address": ("0.0.0.0", "0.0.0.0"),  # noqa: S104
    "health_port": ("9003", 9003),
    "stuck_run_timeout": ("1.5", 1.5),
    "server_id": ("mine", "mine"),
    "default_signature": ("embed", "embed"),
    "default_max_batch_size": ("0", 0),
    "max_queue_delay_us": ("500", 500),
    "batching_parameters_file": ("batching.txt", Path("batching.txt")),
    "oversize_requests": ("reject", Oversize.REJECT),
    "disable_auto_complete_config": ("true", True),
    "exit_on_error": ("false", False),
    "allow_client_shm": ("false", False),
    "allow_remote_shared_memory": ("true", True),
    "instance_count": ("3", 3),
    "intra_op_threads": ("4", 4),
    "inter_op_threads": ("5", 5),
    "op_library": ("ops.so", (Path("ops.so"),)),
    "warm_up_timeout": ("2.5", 2.5),
    "scan_models": ("refuse", ModelScan.REFUSE),
    "drain_delay": ("1.5", 1.5),
    "drain_timeout": ("0", 0.0),
    "allow_core_dumps": ("true", True),
    "log_info": ("false", False),
    "log_warning": ("false", False),
    "log_error": ("false", False),
    "log_verbose": ("2", 2),
    "log_format": ("ISO8601", LogFormat.ISO8601),
}
