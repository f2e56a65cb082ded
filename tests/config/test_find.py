"""Which file is used when none is named."""

from __future__ import annotations

from pathlib import Path

from gearshift.config import find_config


def _write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("models: {}\n")
    return path


def test_the_working_folder_comes_first_then_xdg(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home")}
    cwd = tmp_path / "cwd"
    users = _write(tmp_path / "xdg/gearshift/gearshift.yaml")
    assert find_config(cwd, env) == users
    here = _write(cwd / "gearshift.yaml")
    assert find_config(cwd, env) == here


def test_without_xdg_the_home_s_config_folder_is_meant(tmp_path: Path) -> None:
    users = _write(tmp_path / ".config/gearshift/gearshift.yaml")
    assert find_config(tmp_path / "cwd", {"HOME": str(tmp_path)}) == users


def test_a_folder_of_that_name_is_not_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "gearshift.yaml").mkdir()
    users = _write(tmp_path / ".config/gearshift/gearshift.yaml")
    assert find_config(tmp_path, {"HOME": str(tmp_path)}) == users
