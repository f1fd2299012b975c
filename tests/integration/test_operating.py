"""What an operator does to a running service, over a real broker: look, ask, reload, shadow, mend."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched.bootstrap.connections import Connections
from nova_sched.rpc.tap import open_tap
from nova_sched.testing.servers import RabbitServer
from tests.integration.operating.bed import HOSTS, Cloud, open_cloud, until

OUT = Path(__file__).parents[1] / "out" / "operating"
CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def cloud(rabbit: RabbitServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    rabbit.repair()
    folder = tmp_path_factory.mktemp("cloud")
    os.environ["HANG_FILE"] = str(folder / "hang")
    with rabbit.vhost() as vhost, open_cloud(folder, rabbit.transport_url(vhost)) as made:
        yield made


def boot(cloud: Cloud, *words: str) -> list[str]:
    """Ids of the instances that were asked for, once they have ended."""
    said = cloud.run(["nova-sched", "boot", "vm", *words, "--wait", "30", "-f", "json"])
    assert said.code in (0, 1), said.err
    return [row["ID"] for row in json.loads(said.out)]


def test_a_service_that_can_place_is_alive_and_ready(cloud: Cloud):
    assert cloud.get("/livez")[0] == 200
    status, body = cloud.get("/readyz")
    assert (status, body.splitlines()[-1]) == (200, "ok")
    assert "2 of 2 connected and up to date" in body


def test_all_workers_are_counted_in_one_endpoint(cloud: Cloud):
    before = cloud.metrics()
    boot(cloud, "--ram", "64", "--count", "3")
    after = cloud.metrics()
    placed = 'nova_sched_schedule_attempts_total{result="scheduled"}'
    assert after[placed] - before.get(placed, 0) == 3
    assert sum(name.startswith("nova_sched_loop_monotonic_seconds") for name in after) == 2
    assert after['nova_sched_hosts{state="up"}'] == len(HOSTS)
    for stage in ("prior", "refresh", "decide", "commit", "publish", "shadow"):
        assert after[f'nova_sched_stage_seconds_count{{stage="{stage}"}}'] >= 1
    assert after["nova_sched_confirm_latency_seconds_count"] >= 1
    assert any(name.startswith("nova_sched_build_info{") for name in after)


def test_a_worker_that_is_killed_comes_back_and_its_gauges_go(cloud: Cloud):
    victim = next(pid for pid in cloud.workers() if f'pid="{pid}"' in cloud.get("/metrics")[1])
    requests = 'nova_sched_requests_total{method="run_instance"}'
    before = cloud.metrics().get(requests, 0)
    os.kill(victim, signal.SIGKILL)
    until(
        lambda: (
            f'pid="{victim}"' not in cloud.get("/metrics")[1]
            and cloud.get("/metrics")[1].count("nova_sched_loop_monotonic_seconds{") == 2
        ),
        20,
        "a new worker",
    )
    assert cloud.metrics().get(requests, 0) >= before


def test_a_refusal_says_why_in_fault_notification_and_log_and_names_hosts_in_the_record_only(cloud: Cloud):
    connections = Connections(cfg.ConfigOpts(), ["--config-file", str(cloud.config)])
    tap = open_tap(connections.notifications, ["notifications"])
    try:
        (uuid,) = boot(cloud, "--ram", "200000")
        event = until(
            lambda: next(
                (
                    e
                    for e in tap.events(0.2)
                    if e["event_type"] == "scheduler.run_instance" and uuid in str(e)
                ),
                None,
            ),
            10,
            "the ERROR event",
        )
    finally:
        tap.close()
        connections.close()
    shown = json.loads(cloud.run(f"nova-sched instance show {uuid} -f json").out)
    sentence = shown["faults"][0]["message"]
    assert re.fullmatch(
        r"3 hosts: 3 RamFilter \(not enough RAM, most usable \d+ MB of 200000 MB asked\)", sentence
    )
    assert sentence in str(event["payload"])
    assert sentence in cloud.log
    record = cloud.run(f"nova-sched decision show --instance {uuid}")
    assert record.code == 0
    for host in HOSTS:
        assert host not in sentence
        assert host in record.out
    assert "not enough RAM" in record.out


def test_a_forced_placement_is_audited_and_the_record_says_by_whom(cloud: Cloud):
    (uuid,) = boot(cloud, "--force-host", "alder", "--user", "ann", "--ram", "64")
    assert re.search(
        rf"audit: forced placement by user ann of project demo \(req-[-0-9a-f]+\): {uuid} on alder/",
        cloud.log,
    )
    assert (
        "user ann of project demo, who forced the host"
        in cloud.run(f"nova-sched decision show --instance {uuid}").out
    )


def test_decisions_are_listed_by_instance_and_request_and_page_by_page(cloud: Cloud):
    first, second = boot(cloud, "--ram", "64"), boot(cloud, "--ram", "64")
    mine = json.loads(cloud.run(f"nova-sched decision list --instance {first[0]} -f json").out)
    assert len(mine) == 1
    same = json.loads(cloud.run(f"nova-sched decision list --request {mine[0]['Request']} -f json").out)
    assert same == mine
    newest = json.loads(cloud.run("nova-sched decision list --limit 1 -f json").out)
    assert newest == json.loads(cloud.run(f"nova-sched decision list --instance {second[0]} -f json").out)
    older = json.loads(
        cloud.run(f"nova-sched decision list --limit 1 --marker {newest[0]['ID']} -f json").out
    )
    assert older == mine


def test_top_prints_one_frame_into_a_pipe_from_sql_and_from_the_health_port(cloud: Cloud):
    (uuid,) = boot(cloud, "--ram", "64")
    for words in ("", f" --url http://127.0.0.1:{cloud.port}", " --once --by vcpu"):
        if "--url" in words:
            time.sleep(1.1)
        said = cloud.run(f"nova-sched top{words}")
        assert said.code == 0, said.err
        assert "3 hosts up" in said.out
        assert uuid in said.out
        for host in HOSTS:
            assert host in said.out
    assert cloud.run("nova-sched top --once --url http://127.0.0.1:1").code == 3


def test_the_page_shows_the_same_in_a_browser(cloud: Cloud):
    (uuid,) = boot(cloud, "--ram", "64")
    boot(cloud, "--ram", "200000")
    time.sleep(1.1)
    OUT.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{cloud.port}/"
    shot = OUT / "page.png"
    shot.unlink(missing_ok=True)
    common = (
        *CHROMIUM,
        f"--user-data-dir={cloud.folder}/browser",
        "--virtual-time-budget=4000",
        "--window-size=1400,900",
    )
    page = subprocess.run(
        [*common, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    subprocess.run([*common, f"--screenshot={shot}", url], capture_output=True, timeout=60, check=True)
    print(f"screenshot: {shot}")
    assert uuid in page
    assert page.count('aria-label="') >= len(HOSTS)
    assert re.search(r">alder \d+ % free<", page)
    assert "n hosts: n RamFilter" in page
    assert "<dt>hosts up</dt><dd>3</dd>" in page
    assert 'class="stale"' not in page
    assert shot.stat().st_size > 10_000


def test_the_shadow_says_where_it_would_differ(cloud: Cloud):
    (uuid,) = boot(cloud, "--ram", "512")
    said = cloud.run("nova-sched-manage shadow report -f json")
    assert said.code == 0
    rows = json.loads(said.out)
    assert rows[0]["Kind"] == "elsewhere"
    assert "instead of cedar" in rows[0]["Shadow says"]
    assert re.search(r"\d+ of \d+ decisions of the last 24 hours differ: \d+ elsewhere", said.err)
    assert "Shadow" in cloud.run(f"nova-sched decision show --instance {uuid}").out
    assert cloud.metrics()['nova_sched_shadow_decisions_total{result="differs"}'] >= 1


def reload(cloud: Cloud, done: str, times: int = 1) -> str:
    """Send SIGHUP and return what was logged until ``done`` was said so often."""
    before = len(cloud.log)
    cloud.hang_up()
    return until(
        lambda: (text := cloud.log[before:]).count(done) >= times and text, 20, f"{done!r} in the log"
    )


def test_a_reload_takes_ratios_and_log_levels_and_says_what_needs_a_restart(cloud: Cloud):
    (refused,) = boot(cloud, "--ram", "30000")
    assert json.loads(cloud.run(f"nova-sched instance show {refused} -f json").out)["vm_state"] == "error"
    cloud.write(
        ram_allocation_ratio=2.0, debug="true", workers=3, scheduler_default_filters="ComputeFilter,RamFilter"
    )
    try:
        said = reload(cloud, "deciding with the new settings", 2)
        assert "ram_allocation_ratio: 1.0 -> 2.0" in said
        assert "needs restart: workers" in said
        assert "filter_scheduler (ComputeFilter, RamFilter," in said
        boot(cloud, "--ram", "64")
        (record,) = json.loads(cloud.run("nova-sched decision list --limit 1 -f json").out)
        told = json.loads(cloud.run(f"nova-sched decision show {record['ID']} -f json").out)
        assert [step[0] for step in told["explanation"]["rounds"][0]["steps"]] == [
            "ComputeFilter",
            "RamFilter",
        ]
        cloud.get("/livez")
        assert " DEBUG nova_sched.health.server " in cloud.log
    finally:
        cloud.write()
        reload(cloud, "deciding with the new settings", 2)


def test_a_wrong_file_keeps_the_old_set_and_says_so(cloud: Cloud):
    try:
        for wrong in ({"ram_allocation_ratio": "much"}, {"scheduler_default_filters": "NoSuchFilter"}):
            cloud.write(**wrong)
            said = reload(cloud, "the configuration stays as it is", 2)
            assert next(iter(wrong)) in said
            boot(cloud, "--ram", "64")
            assert cloud.get("/readyz")[0] == 200
        assert cloud.metrics()['nova_sched_reloads_total{result="refused"}'] >= 2
    finally:
        cloud.write()
        reload(cloud, "nothing that may change has changed", 2)


def test_a_wrong_or_hanging_shadow_never_touches_the_live_service(cloud: Cloud):
    shadow = cloud.shadow.read_text()
    hang = Path(os.environ["HANG_FILE"])
    try:
        cloud.shadow.write_text("[DEFAULT]\nram_allocation_ratio = much\n")
        assert "shadow" in reload(cloud, "the configuration stays as it is", 2)
        hang.touch()
        cloud.shadow.write_text(
            "[DEFAULT]\nscheduler_available_filters = nova.scheduler.filters.all_filters\n"
            "scheduler_available_filters = tests.integration.operating.hanging.HangingFilter\n"
            "scheduler_default_filters = HangingFilter\n"
        )
        reload(cloud, "deciding with the new settings", 2)
        uuids = boot(cloud, "--ram", "64")
        assert "the shadow configuration hangs; no worker asks it any more until the next reload" in cloud.log
        uuids += boot(cloud, "--ram", "64")
        states = [
            json.loads(cloud.run(f"nova-sched instance show {u} -f json").out)["vm_state"] for u in uuids
        ]
        assert states == ["active", "active"]
    finally:
        hang.unlink(missing_ok=True)
        cloud.shadow.write_text(shadow)
        reload(cloud, "the shadow decides with new settings", 2)


def test_the_doctor_finds_nothing_wrong_with_a_healthy_service_and_names_what_is(cloud: Cloud):
    healthy = cloud.run("nova-sched-manage doctor -f json")
    found = {row["Check"]: row for row in json.loads(healthy.out)}
    assert healthy.code == 0, healthy.out
    for check in (
        "exchange nova",
        "queue scheduler",
        "scheduler consumers",
        "scheduler",
        "health port",
        "schema",
        "clocks",
        "agents",
    ):
        assert found[check]["State"] == "ok", found[check]
    cloud.run("nova-sched-manage service disable " + " ".join(HOSTS))
    try:
        ill = cloud.run("nova-sched-manage doctor --only-findings -f json")
        assert ill.code == 1
        rows = {row["Check"]: row for row in json.loads(ill.out)}
        assert rows["agents"]["Remedy"] == "nova-sched-manage service enable HOST"
        assert "looks found something wrong" in ill.err
    finally:
        cloud.run("nova-sched-manage service enable " + " ".join(HOSTS))


def test_claims_are_listed_and_ended_by_hand_and_history_is_purged(cloud: Cloud):
    (uuid,) = boot(cloud, "--ram", "64")
    (claim,) = json.loads(cloud.run(f"nova-sched claim list --instance {uuid} -f json").out)
    assert claim["State"] in ("building", "held")
    assert cloud.run(f"nova-sched-manage claim end {uuid}").code == 0
    assert json.loads(cloud.run(f"nova-sched claim list --instance {uuid} -f json").out) == []
    (ended,) = json.loads(cloud.run(f"nova-sched claim list --ended --instance {uuid} -f json").out)
    assert ended["Ended"] == "operator"
    assert cloud.run(f"nova-sched-manage claim end {uuid}").code == 1
    assert cloud.run("nova-sched-manage db purge").code == 0
