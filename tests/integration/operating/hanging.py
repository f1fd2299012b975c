"""A filter that hangs as long as a file is there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nova_sched.plugins.api import HostFilter


class HangingFilter(HostFilter):
    """Waits for the file named in ``HANG_FILE`` to go away."""

    name = "HangingFilter"
    reason = "hangs"

    def mask(self, view, request, facts):
        while Path(os.environ["HANG_FILE"]).exists():
            time.sleep(0.05)
        return view.ids >= 0

    def explain(self, view, row, request, facts):
        return self.reason
