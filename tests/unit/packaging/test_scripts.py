"""The shell scripts, run against stand-ins for what surrounds them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# DevStack's functions that the plugin calls, each saying its name and arguments; the helper programs too.
DEVSTACK = """
set -o errexit -o nounset
TOP_DIR=/devstack DEST=$1 STACK_USER=stack API_WORKERS=2 ENABLE_DEBUG_LOG_LEVEL=True
ENABLED_SERVICES=rabbit,mysql
function say { echo "$@"; }
for name in define_plugin setup_develop echo_summary iniset rpc_backend_add_vhost iniset_rpc_backend setup_logging recreate_database \\
        time_start time_stop run_process stop_process sudo oslo-config-generator nova-sched-manage chmod; do
    eval "function $name { echo $name \\"\\$@\\"; }"
done
function enable_service { ENABLED_SERVICES+=",$1"; }
function is_service_enabled { [[ ",$ENABLED_SERVICES," == *",$1,"* ]]; }
function database_connection_url { echo "mysql+pymysql://root@127.0.0.1/$1"; }
function get_python_exec_prefix { echo /opt/stack/data/venv/bin; }
NOVA_SCHED_CONF_DIR=$1/etc
NOVA_SCHED_AGENTS=2
source devstack/settings
shift
source devstack/plugin.sh "$@"
"""


def plugin(tmp_path: Path, *phase: str) -> list[str]:
    """Lines that the plugin's phase made DevStack's functions say."""
    done = subprocess.run(
        ["bash", "-c", DEVSTACK, "stack.sh", str(tmp_path), *phase],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "define_plugin nova-sched"
    return lines[1:]


def test_devstack_installs_the_checkout(tmp_path: Path) -> None:
    """The install phase puts the plugin's own repository into DevStack's environment."""
    assert f"setup_develop {tmp_path}/nova-sched" in plugin(tmp_path, "stack", "install")


def test_devstack_configures_before_it_makes_the_schema(tmp_path: Path) -> None:
    """post-config writes bus and database of its own, then the tables; nothing is started yet."""
    lines = plugin(tmp_path, "stack", "post-config")
    conf = f"{tmp_path}/etc/nova-sched.conf"
    assert f"iniset {conf} database connection mysql+pymysql://root@127.0.0.1/nova_sched" in lines
    assert f"iniset_rpc_backend nova-sched {conf} DEFAULT nova_sched" in lines
    assert "rpc_backend_add_vhost nova_sched" in lines
    assert sum("agent vcpus 16" in line for line in lines) == 2
    assert lines.index("recreate_database nova_sched") < lines.index(
        f"nova-sched-manage --config-file {conf} db sync"
    )
    assert not any(line.startswith("run_process") for line in lines)


def test_devstack_starts_and_stops_the_same_services(tmp_path: Path) -> None:
    """extra starts the scheduler and one process per simulated host; unstack stops exactly those."""
    started = [
        line.split()[1] for line in plugin(tmp_path, "stack", "extra") if line.startswith("run_process")
    ]
    stopped = [line.split()[1] for line in plugin(tmp_path, "unstack") if line.startswith("stop_process")]
    assert started == ["nova-sched-scheduler", "nova-sched-compute-1", "nova-sched-compute-2"]
    assert stopped == started


def test_devstack_clean_removes_what_it_made(tmp_path: Path) -> None:
    """clean takes the configuration and the virtual host away."""
    lines = plugin(tmp_path, "clean")
    assert lines == [f"sudo rm -rf {tmp_path}/etc", "sudo rabbitmqctl delete_vhost nova_sched"]


@pytest.mark.parametrize("phase", [("stack", "pre-install"), ("source",)])
def test_devstack_other_phases_do_nothing(tmp_path: Path, phase: tuple[str, ...]) -> None:
    """Phases that the plugin has no part in pass silently."""
    assert plugin(tmp_path, *phase) == []


def test_install_servers_says_what_is_missing(tmp_path: Path) -> None:
    """Somebody who is not root is told the packages and the command, and the exit status is not 0."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    for name in ("ls",):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    (tmp_path / "id").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "tools/install-servers.sh"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "not installed:" in done.stderr
    assert "apt-get install --no-install-recommends" in done.stderr
    assert "chromium shellcheck" in done.stderr
