"""infra/compose.yaml: what it promises on paper, and a deployment that works, is killed, backed up and restored."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.deployments import COMPOSE_FILE, Deployment, base_of, compose, rows_of
from tests.integration.small_engines import small_engine

SERVICES = yaml.safe_load(COMPOSE_FILE.read_text())["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_watched_starts_again_and_names_its_version(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    tag = service["image"].rpartition(":")[2]
    assert any(digit in tag for digit in "0123456789") and "latest" not in tag
    assert service["logging"]["options"]["max-size"]


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "registry"])
def test_only_the_worker_has_rights_and_no_service_is_privileged(name: str) -> None:
    service = SERVICES[name]
    assert "privileged" not in service
    if name == "worker":
        assert set(service["cap_add"]) == {"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE"}
    else:
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
        assert "user" not in service  # that of the image, which is none of root's


def test_the_ui_is_on_this_machine_only_and_what_shows_data_cannot_change_them() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:${TOUCHSTONE_PORT:-3000}:3000"]}
    for name in ("webserver", "daemon"):
        assert SERVICES[name]["read_only"] and SERVICES[name]["volumes"] == ["data:/data:ro"]


@pytest.mark.network
def test_compose_accepts_the_file_and_asks_for_a_password(data_folder: Path) -> None:
    command = [*compose(data_folder), "-f", str(COMPOSE_FILE), "--profile", "model", "--profile", "registry", "config"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TOUCHSTONE_")}
    refused = subprocess.run([*command, "--quiet"], env=variables, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "choose a password" in refused.stderr
    variables["TOUCHSTONE_POSTGRES_PASSWORD"] = "not a secret"
    said = subprocess.run([*command, "--services"], env=variables, capture_output=True, text=True, check=True)
    assert set(said.stdout.split()) == set(SERVICES)


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.long
def test_a_deployment_materializes_a_partition_though_killed_and_comes_back_from_its_back_up(
    data_folder: Path, tmp_path: Path
) -> None:
    base = base_of(data_folder)
    with small_engine(data_folder) as engine:
        deployment = Deployment(engine, compose(data_folder), tmp_path)
        try:
            deployment.build(base)
            deployment.up()
            for service in ("postgres", "webserver", "daemon"):
                assert deployment.run("exec", "-T", service, "id", "-u").stdout.strip() != b"0"
            deployment.give_base(base)
            partition = f"{datetime.datetime.now(datetime.UTC).date()}|python"
            deployment.launch(partition)

            def fetched() -> bool:
                return bool(deployment.touchstone("status")["repositories"])

            # The worker loses its power: the daemon fails the run and starts it again, and it goes on where it was.
            deployment.wait("waiting for the first stage", fetched)
            deployment.kill("worker")
            deployment.up()
            deployment.wait("waiting for the second run", lambda: deployment.runs()[:2] == ["FAILURE", "STARTED"])
            # So does the database, which the run outlives.
            deployment.kill("postgres")
            deployment.up()
            deployment.wait("waiting for success", lambda: deployment.runs()[1:] != ["STARTED"])
            assert deployment.runs() == ["FAILURE", "SUCCESS"]
            status = deployment.touchstone("status")
            assert status["instances_admitted"] and status["trajectories_verified"] == status["instances_admitted"]

            taken = deployment.touchstone("backup", "/backups/first")
            deployment.run("down", "--volumes")
            deployment.run("up", "--detach", "--no-build", "--wait", "postgres")
            deployment.run("run", "--rm", "-T", "worker", "restore", "/backups/first")
            deployment.up()
            assert deployment.touchstone("status") == status
            assert deployment.runs() == ["FAILURE", "SUCCESS"]
            assert rows_of(deployment.touchstone("backup", "/backups/second")) == rows_of(taken)
            again = deployment.run("exec", "-T", "worker", "touchstone", "restore", "/backups/first", check=False)
            assert again.returncode == 1 and b"is there already" in again.stderr
        finally:
            deployment.run("down", "--volumes", check=False)
            deployment.client.close()
