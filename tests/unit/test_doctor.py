from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import doctor

INFO = {
    "ServerVersion": "26.1.5+dfsg1",
    "Architecture": "x86_64",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"]],
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SystemTime": "2026-01-02T03:04:05.678901234Z",
}
NOW = 1767323045.0
"""The SystemTime above, in Unix seconds."""


def test_every_fault_has_a_remedy_and_no_success_has_one(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text(f'{{"socket": "{tmp_path}/none.sock", "owned": true}}')
    findings = doctor.examine(tmp_path)
    assert [finding.name for finding in findings if finding.ok == bool(finding.remedy)] == []
    engine = next(finding for finding in findings if finding.name == "engine")
    assert not engine.ok and "none.sock" in engine.detail and "bootstrap.sh" in engine.remedy


def test_a_data_folder_that_does_not_exist_yet_is_examined_by_its_parent(tmp_path: Path) -> None:
    names = {finding.name: finding for finding in doctor.examine(tmp_path / "not" / "yet")}
    assert names["data folder"].ok and str(tmp_path / "not" / "yet") in names["data folder"].detail


def test_an_old_interpreter_is_a_fault() -> None:
    assert not doctor.check_python((3, 10, 14)).ok
    assert doctor.check_python((3, 11, 0)).ok


def test_the_image_store_is_named() -> None:
    assert doctor.check_storage(INFO).detail == "overlay2, classic image store"
    containerd = {"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    assert doctor.check_storage(containerd).detail == "overlayfs, containerd image store"


def test_an_engine_on_vfs_is_a_fault() -> None:
    assert not doctor.check_storage({"Driver": "vfs", "DriverStatus": None}).ok


def test_the_fast_backend_is_named_with_its_runtime() -> None:
    assert doctor.check_backend(INFO, "/usr/bin/crun", user=0).detail == "overlay, by /usr/bin/crun"


def test_builds_that_reach_everything_are_a_fault_with_both_remedies() -> None:
    assert doctor.check_egress(INFO, confined=True).ok
    finding = doctor.check_egress(INFO, confined=False)
    assert not finding.ok and "DOCKER_HOST" in finding.remedy and 'egress = "open"' in finding.remedy
    assert "bootstrap.sh" in doctor.check_egress(None, confined=False).remedy


def test_a_machine_whose_client_knows_no_buildkit_is_told_what_to_install() -> None:
    assert doctor.check_buildkit(("DOCKER_BUILDKIT=1", "/usr/bin/docker", "build")).ok
    assert "docker-buildx" in doctor.check_buildkit(None).remedy


@pytest.mark.parametrize(
    ("driver", "runtime", "user", "said"),
    [
        ("overlay2", "/usr/bin/runc", 1000, "it needs Linux and root"),
        ("overlay2", "", 0, "looked for crun and runc"),
        ("overlayfs", "/usr/bin/runc", 0, "layers of overlay2"),
        ("overlayfs", "", 1000, "root; no OCI runtime is installed; looked for crun and runc; the engine"),
    ],
)
def test_what_keeps_the_fast_backend_away_is_said_and_is_no_fault(
    driver: str, runtime: str, user: int, said: str
) -> None:
    found = doctor.check_backend({**INFO, "Driver": driver}, runtime, user)
    assert found.ok and found.detail.startswith("docker, not overlay: ") and said in found.detail


def test_without_an_engine_no_backend_is_promised() -> None:
    found = doctor.check_backend(None, "/usr/bin/crun", user=0)
    assert not found.ok and "no engine" in found.detail


def test_overlayfs_is_a_fault_only_where_an_engine_has_to_be_started() -> None:
    fault = doctor.check_data_folder(Path("/"), "overlay", engine_answers=False)
    assert not fault.ok and "TOUCHSTONE_DATA" in fault.remedy
    assert doctor.check_data_folder(Path("/"), "overlay", engine_answers=True).ok


def test_little_memory_is_a_fault() -> None:
    text = "MemTotal: 16000000 kB\nMemAvailable: {} kB\n"
    assert doctor.check_memory(text.format(8_000_000)).ok
    assert not doctor.check_memory(text.format(1_000_000)).ok


def test_base_images_need_debootstrap_or_a_registry() -> None:
    assert doctor.check_base_image("/usr/sbin/debootstrap", "unreachable").ok
    assert doctor.check_base_image(None, "").ok
    assert not doctor.check_base_image(None, "unreachable").ok


def test_an_engine_that_cannot_limit_memory_is_a_fault() -> None:
    mountinfo = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    assert doctor.check_cgroups("0::/\n", mountinfo, INFO).ok
    fault = doctor.check_cgroups("0::/\n", mountinfo, {**INFO, "MemoryLimit": False})
    assert not fault.ok and "MemoryLimit" in fault.detail


def test_an_empty_certificate_bundle_is_a_fault() -> None:
    assert not doctor.check_certificates(0).ok


@pytest.mark.parametrize(("now", "written", "ok"), [(NOW, 0, True), (NOW + 3600, 0, False), (NOW, NOW + 3600, False)])
def test_a_wrong_clock_is_a_fault(now: float, written: float, ok: bool) -> None:
    assert doctor.check_clock(now, written, INFO).ok is ok
