"""A CA and certificates for the tests of TLS."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme

from robopro_eval.transport.security import LinkSecurity


@dataclass(frozen=True)
class Certificates:
    """Files of a CA, and of what it signed."""

    folder: Path
    authority: trustme.CA

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        folder.mkdir()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        return cls(folder, authority)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, not_after: datetime.datetime | None = None) -> tuple[Path, Path]:
        """Certificate and key for the host `name`."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued = self.authority.issue_cert(name, not_after=not_after)
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        key.chmod(0o600)
        return cert, key

    def security(self, name: str | None, *, ca: bool) -> LinkSecurity:
        """With the certificate for `name`, if any, and with this CA to check the peer's against."""
        cert, key = self.issue(name) if name is not None else (None, None)
        return LinkSecurity.from_values(cert=cert, key=key, ca=self.ca if ca else None)
