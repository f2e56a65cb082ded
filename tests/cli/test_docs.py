"""The docs cannot rot: generated parts are current, commands parse, configurations load, files that are named exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import click
import pytest
import yaml

from gearshift.cli.reference import all_parts, refreshed
from gearshift.cli.root import root
from gearshift.config import load_config, parse_config
from gearshift.domain.settings import Settings

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
DEPLOY = REPOSITORY / "deploy"
PAGES = [
    DOCS / f"{name}.md"
    for name in ("cli", "admin-api", "quickstart", "api-keys", "open-webui", "remote-access", "report", "service")
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENV = {"HOME": "/home/me"}


def fenced(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text()) if found == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_current(page: Path) -> None:
    assert refreshed(page.read_text()) == page.read_text(), f"run: python -m gearshift.cli.reference {page}"


def test_every_command_and_operation_is_in_the_docs() -> None:
    shown = {name for page in PAGES for name in re.findall(r"<!-- generated: ([a-z -]+) -->", page.read_text())}
    assert shown == {name for name, _ in all_parts()}


def test_every_environment_variable_of_the_program_is_in_the_docs() -> None:
    sources = [path.read_text() for path in (REPOSITORY / "src/gearshift/cli").glob("*.py")]
    used = set(re.findall(r"\"(GEARSHIFT_[A-Z]+)\"", "".join(sources)))
    assert used
    assert used <= set(re.findall(r"`(GEARSHIFT_[A-Z_]+)`", (DOCS / "cli.md").read_text()))


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each line of a shell block that runs gearshift, with its arguments up to a pipe, redirection or comment."""
    for page in PAGES:
        for line in "".join(fenced(page, "sh")).replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|[ |])gearshift (?!gearshift )(.*)", line)
            if found and not line.startswith("cloudflared"):
                words = shlex.shlex(found[1], posix=True, punctuation_chars="|>")
                words.whitespace_split = True
                yield f"{page.name}: {line}", list(takewhile(lambda word: word not in {"|", ">"}, words))


def parse(command: click.Command, arguments: list[str], parent: click.Context | None = None) -> None:
    """Raises UsageError where the program would."""
    context = command.make_context(command.name or "gearshift", arguments, parent=parent)
    if isinstance(command, click.Group):
        _, child, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert child is not None
        parse(child, rest, context)


@pytest.mark.parametrize(("place", "arguments"), list(commands()), ids=lambda value: str(value)[:60])
def test_every_command_shown_is_one_that_the_program_takes(place: str, arguments: list[str]) -> None:
    assert place
    with suppress(click.exceptions.Exit):  # --version ends on its own
        parse(root, arguments)


@pytest.mark.parametrize(
    ("place", "text"),
    [(f"{page.name}-{number}", text) for page in PAGES for number, text in enumerate(fenced(page, "yaml"))],
)
def test_every_configuration_shown_loads(place: str, text: str) -> None:
    complete = text if "models:" in text else text + "models: {}\n"
    assert isinstance(parse_config(complete, file=None, env=ENV).settings, Settings), place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([a-z-]+\.md)(?:#[\w-]+)?\)", page.read_text())
    assert [target for target in targets if not (DOCS / target).exists()] == []


def containerfile() -> list[list[str]]:
    """Instructions with their words; continued lines joined, comments left out."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


def test_what_the_container_copies_is_in_the_repository() -> None:
    sources = [word for name, rest in containerfile() if name == "COPY" for word in rest.split()[:-1]]
    assert sources == ["pyproject.toml", "README.md", "LICENSE", "src"]
    assert [word for word in sources if not (REPOSITORY / word).exists()] == []


def test_what_the_container_copies_is_not_ignored() -> None:
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    assert [line.removeprefix("!") for line in ignored if line.startswith("!")] == [
        "pyproject.toml", "README.md", "LICENSE", "src",
    ]  # fmt: skip


def test_the_container_runs_the_server_without_root() -> None:
    lines = containerfile()
    users = [rest for name, rest in lines if name == "USER"]
    start = next(yaml.safe_load(rest) for name, rest in lines if name == "ENTRYPOINT")
    serve = next(yaml.safe_load(rest) for name, rest in lines if name == "CMD")
    assert users == ["gearshift"]
    assert start == ["tini", "--", "gearshift"]
    parse(root, serve)


def compose(name: str) -> dict[str, dict[str, dict[str, object]]]:
    document: dict[str, dict[str, dict[str, object]]] = yaml.safe_load((DEPLOY / name).read_text())
    return document


def test_compose_publishes_on_loopback_only_and_mounts_what_exists() -> None:
    document = compose("compose.yaml")
    ports = [port for service in document["services"].values() for port in yaml.safe_load(str(service["ports"]))]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    mounts = [mount.rsplit(":", 2) for mount in yaml.safe_load(str(document["services"]["gearshift"]["volumes"]))]
    files = [source for source, *_ in mounts if source.startswith("./")]
    assert [(DEPLOY / file).exists() for file in files] == [True]
    named = {source for source, *_ in mounts if source.isalpha()}
    assert named <= set(document["volumes"])


def test_the_gpu_file_only_adds_to_services_that_exist() -> None:
    assert set(compose("compose.gpu.yaml")["services"]) <= set(compose("compose.yaml")["services"])


def test_the_containers_configuration_loads_and_answers_to_its_service_name() -> None:
    settings = load_config(DEPLOY / "gearshift.yaml", ENV | {"GEARSHIFT_KEY": "secret"}).settings
    assert settings.allowed_hosts == ("gearshift",)
    assert [key.secret for key in settings.api_keys] == ["secret"]
