"""pytest plugin with the kit's one option; pytest reads options before it looks into packages, hence a plugin."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--agent package.module:factory``."""
    parser.addoption("--agent", help="factory of the compute agent under test, as package.module:callable")
