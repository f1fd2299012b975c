"""A fast door into private RabbitMQ nodes: one Erlang process that evaluates expressions on them.

`rabbitmqctl` starts a virtual machine for every word (1 to 3 s each on a busy machine); this one stays, connects to a node as a
hidden node when asked, and answers in milliseconds. It sees nodes that share its cookie and its epmd only.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from typing import Any

from nova_sched.testing.servers.process import Home, ServerFailed, find_program

# Reads lines "node base64(expression)", answers "ok base64(text)" or "error base64(text)"; ends when its input does.
_LOOP = r"""
Text = fun(V) when is_binary(V) -> V; (V) -> unicode:characters_to_binary(io_lib:format("~0tp", [V])) end,
Ask = fun(Node, Code) ->
  {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(base64:decode(Code))),
  {ok, Forms} = erl_parse:parse_exprs(Tokens),
  case rpc:call(list_to_atom(Node), erl_eval, exprs, [Forms, []], 60000) of
    {value, Value, _} -> {"ok ", Text(Value)};
    Other -> {"error ", Text(Other)}
  end end,
Loop = fun Loop() -> case io:get_line("") of
  eof -> halt(0);
  Line ->
    [Node, Code] = string:lexemes(string:trim(Line), " "),
    {Word, Answer} = try Ask(Node, Code) catch Kind:Reason -> {"error ", Text({Kind, Reason})} end,
    io:put_chars([Word, base64:encode(Answer), "\n"]),
    Loop()
  end end,
Loop().
"""


def binary(text: str) -> str:
    """Write a Python text as an Erlang binary literal, byte by byte, so that no character needs quoting."""
    return "<<" + ",".join(str(byte) for byte in text.encode()) + ">>"


class ErlangControl:
    """Evaluates Erlang expressions on the nodes of one home.

    :param cookie: the nodes' shared secret.
    :param epmd_port: where the home's own port mapper listens.
    """

    def __init__(self, home: Home, cookie: str, epmd_port: int) -> None:
        self._home = home
        self._command = [
            find_program("erl", "rabbitmq-server"), "-noshell", "-hidden", "-sname", "control@localhost", "-setcookie", cookie,
            "-start_epmd", "false", "-kernel", "inet_dist_use_interface", "{127,0,0,1}",
            "-kernel", "logger_level", "none", "-eval", _LOOP,
        ]  # fmt: skip
        self._env = home.environment(ERL_EPMD_PORT=str(epmd_port), ERL_CRASH_DUMP_SECONDS="0")
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[str] | None = None

    def eval(self, node: str, expression: str) -> str:
        """Evaluate an expression on a node; the value as Erlang prints it, a binary as its text.

        :raises ServerFailed: when the node is away or the expression fails.
        """
        with self._lock:
            popen = self._running()
            assert popen.stdin is not None
            assert popen.stdout is not None
            code = base64.b64encode(f"{expression}.".encode()).decode()
            popen.stdin.write(f"{node} {code}\n")
            popen.stdin.flush()
            answer = popen.stdout.readline()
        if not answer:
            raise ServerFailed("the Erlang control process ended")
        word, _, text = answer.strip().partition(" ")
        decoded = base64.b64decode(text).decode()
        if word != "ok":
            raise ServerFailed(f"{node}: {decoded}")
        return decoded

    def json(self, node: str, expression: str) -> Any:
        """Evaluate an expression whose value is made of maps, lists, binaries and numbers, and decode it."""
        return json.loads(self.eval(node, f"rabbit_json:encode({expression})"))

    def close(self) -> None:
        """End the control process; a later call starts a new one."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.communicate()
            self._popen = None

    def _running(self) -> subprocess.Popen[str]:
        if self._popen is None or self._popen.poll() is not None:
            self._popen = subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self._home.path,
                text=True,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **self._home.identity(),
            )
        return self._popen
