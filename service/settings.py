"""The server's options, each written once: the command line and the SIGNET_... variables are made from these fields."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Le, MinLen
from pydantic import AfterValidator, Field, FiniteFloat, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from batching.options import Oversize
from service.config_completion import ConfigDefaults
from service.devices import DeviceChoice, GpuAllocator
from service.environment import PREFIX
from service.instance_groups import MAX_INSTANCES
from service.logs import LogFormat, LogOptions
from service.model_scan import ModelScan
from service.tensorflow_serving import with_batching_parameters

# Channel arguments of gRPC, sizes of batches in Triton's configuration and TensorFlow's numbers of threads are 32 bits
# wide.
_Count = Annotated[int, Ge(0), Le(2**31 - 1)]
_Milliseconds = Annotated[int, Ge(1), Le(2**31 - 1)]


class ResponseCompression(Enum):
    """How much time may go into making answers smaller."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class TransportKind(Enum):
    """What carries the calls."""

    AUTO = "auto"
    """The native one, where it is installed and can do what the other options ask for, on this host alone."""
    NATIVE = "native"
    """HTTP/2 outside the interpreter; without TLS and without GOAWAY."""
    GRPCIO = "grpcio"
    """The reference."""


class ControlMode(Enum):
    """Who decides which models are loaded."""

    NONE = "none"
    """Nobody after the start, when all are."""
    POLL = "poll"
    """What lies on disk, looked at again and again."""
    EXPLICIT = "explicit"
    """Those who call RepositoryModelLoad and RepositoryModelUnload."""


class ReloadPolicy(Enum):
    """What comes first when a version takes the place of another."""

    LOAD_FIRST = "load-first"
    """The load: one version serves at every moment, and for a while there is memory in use for both."""
    UNLOAD_FIRST = "unload-first"
    """The unload: there is never memory in use for both, and for a while no version serves."""


class StatusPage(Enum):
    """Whether there is a page for people on the HTTP port."""

    AUTO = "auto"
    """Where only this host can reach the port."""
    ON = "on"
    OFF = "off"


SWITCHES: Final = frozenset({"disable_auto_complete_config"})
"""Options that take no value on the command line, as in Triton; its other booleans are written ``--option true``."""


class Settings(BaseSettings):
    """Options of ``signet serve``. Names are Triton's where Triton has the option; units stand in the names."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    model_repository: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="A model or a directory of models, in any layout; may be repeated, like the PATH arguments."
    )
    model: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="NAME=PATH: serve the model at PATH under this name; may be repeated."
    )
    model_config_name: Annotated[str | None, Field(pattern=r"^[^/\x00]+$")] = Field(
        None, description="Take a model's configs/NAME.pbtxt, where it is there, in place of its config.pbtxt."
    )
    model_config_file: Path | None = Field(
        None, description="TensorFlow Serving's models.config: serve the models that it lists."
    )
    model_control_mode: ControlMode = Field(
        ControlMode.NONE,
        description="Load all models at the start and no more, or go on with what comes, changes and goes on disk "
        "(poll), or load those that callers ask for (explicit).",
    )
    repository_poll_secs: Annotated[int, Ge(1), Le(2**31 - 1)] = Field(
        15, description="Seconds from one look at the models' places to the next in mode poll."
    )
    repository_quiet_secs: Annotated[FiniteFloat, Ge(0)] = Field(
        5.0,
        description="Seconds that the files of a model must be left alone before a change counts in mode poll, and at "
        "least from one look to the next; what is moved into place whole counts at once.",
    )
    load_model: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="A model to load at the start in mode explicit, * for all; may be repeated."
    )
    allow_file_override: bool = Field(
        default=False, description="Let callers bring the files of a model that they load, in mode explicit."
    )
    share_equal_models: bool = Field(
        default=False,
        description="Let models whose SavedModels are equal byte for byte share one loaded copy, as those made of the "
        "very same files always do.",
    )
    reload_policy: ReloadPolicy = Field(
        ReloadPolicy.LOAD_FIRST,
        description="Load a version before the one that it replaces is unloaded, or, where memory does not allow two "
        "copies, after that: then requests are refused meanwhile.",
    )
    strict_readiness: bool = Field(
        default=False, description="Be ready only while every version of every model is ready, as Triton has it."
    )
    grpc_address: Annotated[tuple[str, ...], NoDecode, MinLen(1)] = Field(
        ("127.0.0.1",),
        description="Where to listen for gRPC: an IP address or unix:PATH; may be repeated.",
    )
    grpc_port: Annotated[int, Ge(0), Le(65535)] = Field(8001, description="Port for gRPC; 0 takes a free one.")
    grpc_unix_socket_mode: Annotated[str, Field(pattern=r"^0?[0-7]{3}$")] = Field(
        "660", description="Permissions of the files of Unix sockets, in octal; to connect takes the right to write."
    )
    transport: TransportKind = Field(
        TransportKind.AUTO,
        description="What carries gRPC: the fast native server or grpcio; auto takes native where every address is "
        "loopback or a Unix socket and no option asks for what only grpcio can do.",
    )
    grpc_use_ssl: bool = Field(default=False, description="Speak TLS at IP addresses; Unix sockets have their mode.")
    grpc_use_ssl_mutual: bool = Field(
        default=False, description="Speak TLS and ask clients for certificates that --grpc-root-cert leads to."
    )
    grpc_server_cert: Path | None = Field(None, description="The server's certificate and its chain, in PEM.")
    grpc_server_key: Path | None = Field(None, description="Its private key, in PEM.")
    grpc_root_cert: Path | None = Field(None, description="Whom to trust for clients' certificates, in PEM.")
    token_file: Path | None = Field(
        None, description="Take calls with a bearer token of this file only, but for probes of health."
    )
    admin_token_file: Path | None = Field(
        None,
        description="Take calls that concern models' loading, shared memory, traces or the log with a bearer token of "
        "this file only; they are good for all other calls, too.",
    )
    grpc_restricted_protocol: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="GROUP[,GROUP...]:KEY=VALUE: take calls of these groups with the header triton-grpc-protocol-KEY "
        "of this value only; may be repeated, in the variable with semicolons between.",
    )
    grpc_infer_response_compression_level: ResponseCompression = Field(
        ResponseCompression.NONE, description="Compress answers, for clients that accept gzip or deflate."
    )
    grpc_keepalive_time: _Milliseconds = Field(
        7_200_000, description="Ping a client that was silent for so many milliseconds."
    )
    grpc_keepalive_timeout: _Milliseconds = Field(
        20_000, description="Close the connection when such a ping is not answered within so many milliseconds."
    )
    grpc_keepalive_permit_without_calls: bool = Field(
        default=True, description="Send and accept keepalive pings also while there is no call."
    )
    grpc_http2_max_pings_without_data: _Count = Field(
        2, description="Most pings that are sent with no data between them; 0 means no limit."
    )
    grpc_http2_min_recv_ping_interval_without_data: _Count = Field(
        4500, description="Milliseconds from ping to ping of a client below which it is warned, then disconnected."
    )
    grpc_http2_max_ping_strikes: _Count = Field(
        2, description="Pings that may come too early before the client is disconnected; 0 means no limit."
    )
    grpc_max_connection_age: _Count = Field(
        0, description="Milliseconds after which a client has to connect anew; 0 means never."
    )
    grpc_max_connection_age_grace: _Count = Field(
        0, description="Milliseconds that its calls may then still take; 0 means as long as they need."
    )
    allow_metrics: bool = Field(
        default=True, description="Answer health probes and Prometheus over HTTP, on a port of its own."
    )
    metrics_address: str = Field("127.0.0.1", description="Where to listen for HTTP: an IP address.")
    metrics_port: Annotated[int, Ge(0), Le(65535)] = Field(8002, description="Port for HTTP; 0 takes a free one.")
    status_page: StatusPage = Field(
        StatusPage.AUTO,
        description="A page for people at the HTTP port, with what is served, what it does, and a form to try it; auto "
        "shows it where --metrics-address is a loopback address.",
    )
    health_address: str | None = Field(
        None,
        description="Open a further port, for gRPC health, HTTP health and metrics alone: an IP address that probes "
        "and Prometheus reach while the service stays where others do not.",
    )
    health_port: Annotated[int, Ge(0), Le(65535)] = Field(8003, description="Its number; 0 takes a free one.")
    stuck_run_timeout: Annotated[FiniteFloat, Ge(0)] = Field(
        600.0, description="Seconds of one run after which the server no longer calls itself live; 0 means never."
    )
    max_requests_in_flight: _Count = Field(
        10_000, description="Inference requests that are taken at a time, all models together; 0 means no limit."
    )
    max_bytes_in_flight: Annotated[int, Ge(0), Le(2**63 - 1)] | None = Field(
        None,
        description="Bytes of their inputs; 0 means no limit, without a value a quarter of the memory that the "
        "container or the machine has.",
    )
    max_streams: _Count = Field(1000, description="Calls of ModelStreamInfer at a time; 0 means no limit.")
    grpc_max_connections: _Count = Field(0, description="Connections of clients at a time; 0 means no limit.")
    grpc_max_receive_message_length: _Count = Field(
        0, description="Largest request message in bytes; 0 means the 2 GiB that a message can have."
    )
    server_id: str = Field("triton", description="The server's name in ServerMetadata; stock programs check it.")
    default_signature: str | None = Field(
        None, description="Signature of requests that name none, where a model's configuration does not say."
    )
    default_max_batch_size: _Count = Field(
        64, description="Most rows in a run of a signature whose configuration does not say; 0 turns batching off."
    )
    max_queue_delay_us: Annotated[int, Ge(0), Le(2**64 - 1)] = Field(
        0, description="How long a batch that is not full waits for company, in microseconds, where not configured."
    )
    batching_parameters_file: Path | None = Field(
        None, description="TensorFlow Serving's batching_parameters.txt; what it says goes before the options."
    )
    oversize_requests: Oversize = Field(
        Oversize.CUT, description="Cut a request with more rows than max_batch_size into parts, or reject it."
    )
    disable_auto_complete_config: bool = Field(
        default=False, description="Take configurations as they are; a model without max_batch_size is not batched."
    )
    exit_on_error: bool = Field(default=True, description="Exit when a model cannot be loaded at the start.")
    allow_client_shm: bool = Field(
        default=True, description="Let clients on this host pass tensors in shared memory, which they register."
    )
    allow_remote_shared_memory: bool = Field(
        default=False, description="Let clients on other hosts use this host's shared memory, too."
    )
    instance_count: Annotated[int, Ge(1), Le(MAX_INSTANCES)] = Field(
        2, description="Workers that run batches of one model at a time on each device, where not configured."
    )
    device: Annotated[str, AfterValidator(lambda text: str(DeviceChoice.parse(text)))] = Field(
        "auto",
        description="What models run on: GPUs where there are any (auto), cpu, all GPUs (gpu) or some (gpu:0,1).",
    )
    gpu_memory: _Count = Field(
        0, description="The most that is taken of each GPU's memory, in MiB; 0 sets no limit. It is taken as needed."
    )
    gpu_allocator: GpuAllocator = Field(
        GpuAllocator.BFC, description="What hands out the memory of GPUs: TensorFlow's allocator or that of CUDA."
    )
    intra_op_threads: _Count = Field(
        0, description="Threads within one operation; 0 takes the CPU limit of the container or the machine."
    )
    inter_op_threads: _Count = Field(0, description="Threads over operations; 0 likewise.")
    op_library: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="A shared library with further TensorFlow operations, for all models; may be repeated."
    )
    warm_up_timeout: Annotated[FiniteFloat, Ge(0)] = Field(
        60.0, description="Seconds that the runs before a version's first request may take; 0 leaves them out."
    )
    scan_models: ModelScan = Field(
        ModelScan.WARN,
        description="Warn of models whose graph touches files, runs Python or talks to other hosts, or refuse them.",
    )
    drain_delay: Annotated[FiniteFloat, Ge(0)] = Field(
        0.0, description="Seconds from SIGTERM, when the server stops to be ready, until it refuses new calls."
    )
    drain_timeout: Annotated[FiniteFloat, Ge(0)] = Field(
        30.0, description="Seconds that calls which were taken may need until the server ends nevertheless."
    )
    allow_core_dumps: bool = Field(
        default=False, description="Let a crash leave a core dump, in which callers' data and weights can be read."
    )
    otlp_endpoint: str | None = Field(
        None,
        description="Send OpenTelemetry spans of requests to the collector at this URL, such as http://collector:4317, "
        "over gRPC.",
    )
    otlp_sampling_rate: Annotated[FiniteFloat, Ge(0), Le(1)] = Field(
        0.01, description="The share of requests to trace among those whose callers do not say; 1 means all."
    )
    log_info: bool = Field(default=True, description="Log events that an operator wants to know of.")
    log_warning: bool = Field(default=True, description="Log events that may be a problem.")
    log_error: bool = Field(default=True, description="Log events that are a problem.")
    log_verbose: Annotated[int, Ge(0), Le(2**32 - 1)] = Field(0, description="1 or more logs details, too.")
    log_format: LogFormat = Field(
        LogFormat.DEFAULT,
        description="How a line of the log begins: as Triton's do, or with the date in full; or each is a JSON object.",
    )
    slow_request_ms: _Count = Field(
        0, description="Log requests that took longer than so many milliseconds, with where the time went; 0 logs none."
    )

    @field_validator("model_repository", "model", "load_model", "op_library", "grpc_address", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """In an environment variable, repeated values are separated by commas."""
        return tuple(part for part in value.split(",") if part) if isinstance(value, str) else value

    @field_validator("grpc_restricted_protocol", mode="before")
    @classmethod
    def _split_restrictions(cls, value: object) -> object:
        """Commas stand between the groups of one restriction."""
        return tuple(part for part in value.split(";") if part) if isinstance(value, str) else value

    def grpc_targets(self) -> list[str]:
        """Return the addresses to bind, as gRPC writes them."""
        return [
            address
            if address.startswith("unix:")
            else f"[{address}]:{self.grpc_port}"
            if ":" in address
            else f"{address}:{self.grpc_port}"
            for address in self.grpc_address
        ]

    def log_options(self) -> LogOptions:
        """Return what is logged, and how, until LogSettings changes it."""
        return LogOptions(
            info=self.log_info,
            warning=self.log_warning,
            error=self.log_error,
            verbose_level=self.log_verbose,
            format=self.log_format,
        )

    def config_defaults(self) -> ConfigDefaults:
        """Return what holds where a model's configuration says nothing.

        Raises:
            LoadError: ``batching_parameters_file`` cannot be used.
        """
        defaults = ConfigDefaults(
            default_max_batch_size=self.default_max_batch_size,
            max_queue_delay_us=self.max_queue_delay_us,
            default_signature=self.default_signature,
            auto_complete=not self.disable_auto_complete_config,
            instance_count=self.instance_count,
        )
        if self.batching_parameters_file is None:
            return defaults
        return with_batching_parameters(defaults, self.batching_parameters_file)
