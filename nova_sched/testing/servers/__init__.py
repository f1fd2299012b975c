"""Real servers for tests and benchmarks, private to the run that starts them.

Each is a context manager on free ports of 127.0.0.1 with its folders under a temporary one; a system service on the standard ports is
neither needed nor touched. As root the servers run under their packages' accounts, otherwise under the caller's.
"""

from nova_sched.testing.servers.process import MissingServer, ServerFailed, free_port
from nova_sched.testing.servers.rabbit import RabbitNode, RabbitServer, TlsFiles
from nova_sched.testing.servers.sql import MariaDbServer, PostgresServer, SqlServer

__all__ = [
    "MariaDbServer", "MissingServer", "PostgresServer", "RabbitNode", "RabbitServer", "ServerFailed", "SqlServer", "TlsFiles", "free_port",
]  # fmt: skip
