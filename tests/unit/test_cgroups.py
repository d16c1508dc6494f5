"""Layouts as recorded on real machines (shortened to the lines that matter)."""

from __future__ import annotations

from sandbox.cgroups import Mount, filesystem_of, layout, missing_mounts

V1_GROUPS = """\
4:memory:/user.slice
3:cpu,cpuacct:/user.slice
2:pids:/user.slice/user-1000.slice
1:name=systemd:/user.slice/user-1000.slice/session-1.scope
"""
HYBRID_GROUPS = V1_GROUPS + "0::/user.slice/user-1000.slice/session-1.scope\n"
V2_GROUPS = "0::/user.slice/user-1000.slice/session-1.scope\n"

BASE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
23 27 0:22 / /sys rw,relatime - sysfs sysfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
"""
TMPFS = "31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n"
V1_MOUNTS = """\
32 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
33 31 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:12 - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/pids rw,nosuid shared:14 - cgroup cgroup rw,pids
"""
UNIFIED = "36 31 0:33 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_version_1_is_complete() -> None:
    assert layout(BASE + TMPFS + V1_MOUNTS) == "v1"
    assert missing_mounts(V1_GROUPS, BASE + TMPFS + V1_MOUNTS) == []


def test_hybrid_is_complete() -> None:
    assert layout(BASE + TMPFS + V1_MOUNTS + UNIFIED) == "hybrid"
    assert missing_mounts(HYBRID_GROUPS, BASE + TMPFS + V1_MOUNTS + UNIFIED) == []


def test_version_2_is_complete() -> None:
    assert layout(BASE + V2_MOUNT) == "v2"
    assert missing_mounts(V2_GROUPS, BASE + V2_MOUNT) == []


def test_a_tree_without_mounts_gets_every_version_1_hierarchy_of_the_kernel() -> None:
    assert layout(BASE) == "none"
    assert missing_mounts(HYBRID_GROUPS, BASE) == [
        Mount("tmpfs", "mode=755", "/sys/fs/cgroup"),
        Mount("cgroup", "memory", "/sys/fs/cgroup/memory"),
        Mount("cgroup", "cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
        Mount("cgroup", "pids", "/sys/fs/cgroup/pids"),
    ]


def test_a_tree_without_mounts_on_a_version_2_machine_gets_version_2() -> None:
    assert missing_mounts(V2_GROUPS, BASE) == [Mount("cgroup2", "rw", "/sys/fs/cgroup")]


def test_only_the_hierarchy_that_is_missing_is_mounted() -> None:
    mountinfo = BASE + TMPFS + "\n".join(line for line in V1_MOUNTS.splitlines() if "pids" not in line)
    assert missing_mounts(V1_GROUPS, mountinfo) == [Mount("cgroup", "pids", "/sys/fs/cgroup/pids")]


def test_the_nearest_mount_tells_the_file_system() -> None:
    mountinfo = BASE + "40 27 0:40 / /mnt/my\\040data rw - xfs /dev/vdb rw\n41 27 0:41 / /mn rw - tmpfs tmpfs rw\n"
    assert filesystem_of("/mnt/my data/tables", mountinfo) == "xfs"
    assert filesystem_of("/mnt/other", mountinfo) == "ext4"


def test_a_later_mount_on_the_same_folder_hides_the_earlier_one() -> None:
    assert filesystem_of("/x", BASE + "50 1 0:50 / / rw - overlay overlay rw,lowerdir=/a\n") == "overlay"
