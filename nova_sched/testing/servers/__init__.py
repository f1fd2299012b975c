"""Real servers for tests and benchmarks, private to the run that starts them.

Each is a context manager on free ports of 127.0.0.1 with its folders under a temporary one; a system service on the standard ports is
neither needed nor touched. As root the servers run under their packages' accounts, otherwise under the caller's.
"""

from nova_sched.testing.servers.process import MissingServer, ServerFailed, free_port
from nova_sched.testing.servers.rabbit import RabbitServer
from nova_sched.testing.servers.rabbit_node import RabbitNode
from nova_sched.testing.servers.sql import MariaDbServer, PostgresServer, SqlServer
from nova_sched.testing.servers.tls import TlsFiles, make_tls_files

__all__ = [
    "MariaDbServer",
    "MissingServer",
    "PostgresServer",
    "RabbitNode",
    "RabbitServer",
    "ServerFailed",
    "SqlServer",
    "TlsFiles",
    "free_port",
    "make_tls_files",
]
