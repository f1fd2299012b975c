"""``nova-sched-status upgrade check``: is this deployment ready for the version that is installed here?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps

from oslo_config import cfg
from oslo_upgradecheck.upgradecheck import Code, Result, UpgradeCommands, register_cli_options
from oslo_upgradecheck.upgradecheck import run as run_command

from nova_sched.bootstrap import transports
from nova_sched.cmd import exits
from nova_sched.conf import build, check
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.errors import SchedulerError
from nova_sched.model.symptom import State
from nova_sched.plugins.registry import load_driver
from nova_sched.rpc.checkup import check_bus

_OTHER_PROPERTIES = "other properties"


def _answered(check: Callable[[Checks], Result]) -> Callable[[Checks], Result]:
    """A check whose errors are its answer."""

    @wraps(check)
    def answered(self: Checks) -> Result:
        try:
            return check(self)
        except SchedulerError as error:
            return Result(Code.FAILURE, exits.one_line(error))

    return answered


class Checks(UpgradeCommands):
    """What an upgrade may trip over; each check answers with its remedy and never raises."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf
        self._said: list[str] = []

    def heard(self, line: str) -> None:
        """Take a remark on a legacy option."""
        self._said.append(line)

    @_answered
    def _check_configuration(self) -> Result:
        remarks = check.findings(self._conf, build.settings_from(self._conf))
        if not remarks:
            return Result(Code.SUCCESS)
        return Result(Code.WARNING, "; ".join(f"{found.option}: {found.remark}" for found in remarks))

    @_answered
    def _check_plugins(self) -> Result:
        load_driver(build.settings_from(self._conf).scheduler)
        return Result(Code.SUCCESS)

    @_answered
    def _check_legacy(self) -> Result:
        return Result(Code.WARNING, "; ".join(self._said)) if self._said else Result(Code.SUCCESS)

    @_answered
    def _check_schema(self) -> Result:
        database = Database(build.settings_from(self._conf).database)
        try:
            found, newest = schema.version(database), schema.newest()
        finally:
            database.close()
        if found == newest:
            return Result(Code.SUCCESS)
        return Result(
            Code.FAILURE, f"schema {found or 'empty'}, wanted {newest}: run nova-sched-manage db sync"
        )

    @_answered
    def _check_broker(self) -> Result:
        """Exchanges and queues that exist must have the properties wanted, or the start is refused."""
        settings = build.settings_from(self._conf)
        transport = transports.rpc_transport(self._conf, settings)
        try:
            found = check_bus(transport, settings.bus)
        finally:
            transport.cleanup()
        away = [one for one in found if one.check == "broker" and one.state is State.WRONG]
        if away:
            return Result(Code.WARNING, f"not looked at: {away[0].found}")
        other = [one for one in found if one.state is State.WRONG and _OTHER_PROPERTIES in one.found]
        if other:
            return Result(Code.FAILURE, "; ".join(f"{one.found}: {one.remedy}" for one in other))
        return Result(Code.SUCCESS)

    _upgrade_checks = (
        ("Configuration", _check_configuration),
        ("Plugins", _check_plugins),
        ("Legacy options", _check_legacy),
        ("Database schema", _check_schema),
        ("Broker", _check_broker),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``upgrade check``: 0 all well, 1 warnings, 2 failures or usage, as oslo.upgradecheck has it."""
    conf = cfg.ConfigOpts()
    checks = Checks(conf)
    register_cli_options(conf, checks)
    try:
        build.parse(conf, sys.argv[1:] if argv is None else argv, say=checks.heard, prog="nova-sched-status")
    except SchedulerError as error:
        print(f"nova-sched-status: {exits.one_line(error)}", file=sys.stderr)
        return exits.USAGE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else exits.USAGE
    return int(run_command(conf))
