"""Certificates for the tests of TLS, made once, in folders of their own."""

from __future__ import annotations

import pytest
from certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="session")
def other_certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of a CA that nobody here trusts."""
    return Certificates.make(tmp_path_factory.mktemp("tls") / "others")
