"""The script: every flag of the fake engine, with its default."""

import argparse
from collections.abc import Sequence


class Options(argparse.Namespace):
    """Parsed flags. ``POST /__set`` may change any of them while the engine runs."""

    port: int
    host: str
    served: list[str]
    style: str
    load_seconds: float
    crash_at_load: str | None
    exit_code: int
    stall_at_load: bool
    log_flood: int
    refuse_port: bool
    port_delay: float
    health_path: str
    hang_after: int | None
    dead_health: str | None
    ignore_sigterm: bool
    stop_seconds: float
    fork_grandchild: bool
    grandchild_ignores_sigterm: bool
    grandchild_setsid: bool
    grandchild_rename: str | None
    grandchild_double_fork: bool
    rename: str | None
    environment_wipe: bool
    busy: bool
    die_mid_stream: int | None
    break_mid_stream: int | None
    answer_status: int
    answer_words: int
    tokens: int
    token_ms: float
    prompt_ms: float
    tokens_per_chunk: int
    reasoning: int
    usage: str
    sleep_broken: bool
    gpu_file: str | None


def parse(argv: Sequence[str]) -> Options:
    """Options from a command line; exits with argparse's message on a wrong one."""
    parser = argparse.ArgumentParser(prog="fake_engine", description="A scripted OpenAI-ish engine.")
    _serving(parser.add_argument_group("serving"))
    _loading(parser.add_argument_group("loading"))
    _answering(parser.add_argument_group("answering"))
    _processes(parser.add_argument_group("processes"))
    options = parser.parse_args(argv, namespace=Options())
    options.served = options.served or ["fake"]
    return options


def _serving(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--port", type=int, required=True)
    group.add_argument("--host", default="127.0.0.1")
    group.add_argument("--served", action="append", default=[], help="a model name it answers to; may be repeated")
    group.add_argument("--style", choices=["llama.cpp", "vllm"], default="llama.cpp", help="log lines and metric names")
    group.add_argument("--health-path", default="/health")
    group.add_argument("--refuse-port", action="store_true", help="never listen")
    group.add_argument("--port-delay", type=float, default=0.0, help="listen only after so many seconds, as vLLM does")


def _loading(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--load-seconds", type=float, default=0.0, help="health is 503 for so long")
    group.add_argument("--crash-at-load", metavar="LINE", help="print LINE in mid-log, then noise, then exit")
    group.add_argument("--exit-code", type=int, default=1, help="of --crash-at-load; negative = die by that signal")
    group.add_argument("--stall-at-load", action="store_true", help="fall silent before the load is done")
    group.add_argument("--log-flood", type=int, default=0, metavar="LINES", help="print so many lines while loading")


def _answering(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--hang-after", type=int, metavar="N", help="answer nothing after N generations (a probe is one)"
    )
    group.add_argument(
        "--dead-health", choices=["hang", "500"], help="health stays 200, generations hang or fail (after --hang-after)"
    )
    group.add_argument("--answer-status", type=int, default=200, help="answer generations with this error status")
    group.add_argument("--answer-words", type=int, default=0, help="so many more characters in that error's message")
    group.add_argument("--die-mid-stream", type=int, metavar="N", help="SIGKILL itself after N stream events")
    group.add_argument("--break-mid-stream", type=int, metavar="N", help="cut the connection after N stream events")
    group.add_argument("--tokens", type=int, default=4, help="answer length where the request sets no lower limit")
    group.add_argument("--token-ms", type=float, default=0.0)
    group.add_argument("--prompt-ms", type=float, default=0.0, help="time before the first token")
    group.add_argument("--tokens-per-chunk", type=int, default=1)
    group.add_argument("--reasoning", type=int, default=0, help="reasoning tokens before the answer (chat, responses)")
    group.add_argument("--usage", choices=["always", "asked", "never"], default="asked")
    group.add_argument("--gpu-file", metavar="PATH", help="scripted GPU on which it is seen to hold 16 GiB, asleep 2")
    group.add_argument("--sleep-broken", action="store_true", help="wake answers 500, then generations hang")


def _processes(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--ignore-sigterm", action="store_true")
    group.add_argument("--stop-seconds", type=float, default=0.0, help="time between SIGTERM and exit")
    group.add_argument("--fork-grandchild", action="store_true")
    group.add_argument("--grandchild-ignores-sigterm", action="store_true")
    group.add_argument("--grandchild-setsid", action="store_true")
    group.add_argument("--grandchild-rename", metavar="NAME")
    group.add_argument("--grandchild-double-fork", action="store_true", help="its parent exits at once")
    group.add_argument("--rename", metavar="NAME", help="overwrite argv and comm")
    group.add_argument("--environment-wipe", action="store_true", help="run with an empty environment")
    group.add_argument("--busy", action="store_true", help="use CPU time without end, a third of a core")
