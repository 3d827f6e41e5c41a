"""The limits of containers, of both versions of cgroup, wherever between the process and the root they are set."""

from __future__ import annotations

from pathlib import Path

import pytest

from venus_edge.engine import cgroup

GIB = 1024**3
NONE_V1 = 2**63 - 4_096


def tree(root: Path, **files: str) -> Path:
    """Files by path, "." as __ and "/" as ___."""
    for name, text in files.items():
        path = root / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


OLD = "memory___memory__"  # where version 1 has its files


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        ({}, (0, 0)),
        ({"memory__max": "max\n", "memory__current": "5\n"}, (0, 0)),
        ({"memory__max": f"{4 * GIB}\n", "memory__current": f"{GIB}\n"}, (4 * GIB, GIB)),
        (
            {
                "memory__max": f"{4 * GIB}",
                "memory__current": f"{3 * GIB}",
                "memory__stat": f"anon 5\ninactive_file {GIB}",
            },
            (4 * GIB, 2 * GIB),
        ),
        ({"memory__max": f"{NONE_V1}"}, (0, 0)),
        ({f"{OLD}limit_in_bytes": f"{2 * GIB}\n", f"{OLD}usage_in_bytes": f"{GIB}\n"}, (2 * GIB, GIB)),
        (
            {
                f"{OLD}limit_in_bytes": f"{2 * GIB}",
                f"{OLD}usage_in_bytes": f"{GIB}",
                f"{OLD}stat": f"inactive_file 7\ntotal_inactive_file {GIB // 2}\n",
            },
            (2 * GIB, GIB // 2),
        ),
        ({f"{OLD}limit_in_bytes": f"{NONE_V1}"}, (0, 0)),
    ],
)
def test_a_containers_limit_is_its_root(tmp_path: Path, files: dict[str, str], limits: tuple[int, int]) -> None:
    assert cgroup.memory(tree(tmp_path, **files), "") == limits


def test_a_limit_of_version_2_counts_wherever_above_the_process_it_is_set(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        user__slice___run__scope___memory__max="max",
        user__slice___memory__max=f"{3 * GIB}",
        user__slice___memory__current=f"{GIB}",
        other__slice___memory__max=f"{GIB}",
    )
    assert cgroup.memory(root, "0::/user.slice/run.scope\n") == (3 * GIB, GIB)
    assert cgroup.memory(root, "0::/a/place/of/the/host\n") == (0, 0)


def test_of_several_limits_the_one_with_the_least_left_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        a___memory__max=f"{8 * GIB}",
        a___memory__current=f"{7 * GIB}",
        a___b___memory__max=f"{4 * GIB}",
        a___b___memory__current=f"{GIB}",
    )
    assert cgroup.memory(root, "0::/a/b") == (8 * GIB, 7 * GIB)


def test_a_limit_of_version_1_is_found_at_the_processs_own_place(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        memory___memory__limit_in_bytes=f"{NONE_V1}",
        memory___docker___x___memory__limit_in_bytes=f"{2 * GIB}",
        memory___docker___x___memory__usage_in_bytes=f"{GIB // 2}",
        cpu___docker___x___cpu__cfs_quota_us="150000",
        cpu___docker___x___cpu__cfs_period_us="50000",
        cpu___cpu__cfs_quota_us="-1",
        cpu___cpu__cfs_period_us="100000",
    )
    place = "4:memory:/docker/x\n1:cpu:/docker/x\n0::/\n"
    assert cgroup.memory(root, place) == (2 * GIB, GIB // 2)
    assert cgroup.cores(root, place) == 3


@pytest.mark.parametrize(
    ("line", "whole"),
    [("max 100000\n", 0), ("200000 100000\n", 2), ("50000 100000\n", 1), ("", 0), ("odd", 0), ("1 0", 0)],
)
def test_a_containers_share_of_cores(line: str, whole: int, tmp_path: Path) -> None:
    assert cgroup.cores(tree(tmp_path, cpu__max=line), "0::/") == whole


def test_controllers_that_are_mounted_together_are_found(tmp_path: Path) -> None:
    root = tree(
        tmp_path, **{"cpu,cpuacct___x___cpu__cfs_quota_us": "200000", "cpu,cpuacct___x___cpu__cfs_period_us": "100000"}
    )
    assert cgroup.cores(root, "3:cpu,cpuacct:/x") == 2


def test_this_machine_tells_its_limits_or_none() -> None:
    limit, used = cgroup.memory()
    assert 0 <= used <= max(limit, used)
    assert cgroup.cores() >= 0
