"""The queue's own certificate is renewed while it serves, and nothing half-done ends it (SPEC H5)."""

import os
import shutil
import ssl
from pathlib import Path

import pytest

from edgeagent.errors import ConfigurationError
from edgeagent.issuer.tls import ServerTls
from tests.support.certificates import Authority

pytestmark = pytest.mark.requirement("H5", "R8")


def serving(certificate: Path, key: Path) -> ServerTls:
    """A queue whose files have been there for long: what is written now is seen to be newer."""
    for file in (certificate, key):
        os.utime(file, (0, 0))
    return ServerTls(certificate, key, None)


def shown(tls: ServerTls, authority: Authority) -> str:
    """The number of the certificate that whoever trusts the authority is shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cafile=authority.certificate)
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = client.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_a_certificate_that_comes_before_its_key_leaves_the_earlier_one_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issues("server", "localhost")
    tls = serving(certificate, key)
    earlier = shown(tls, authority)
    renewed = authority.issues("renewed", "localhost")
    shutil.copy(renewed[0], certificate)

    for _ in range(3):
        with pytest.raises(ConfigurationError, match="not usable"):
            tls.look_again()
        assert shown(tls, authority) == earlier

    assert caplog.messages == ["the earlier certificate goes on"]
    shutil.copy(renewed[1], key)
    tls.look_again()
    assert shown(tls, authority) not in {earlier, ""}


def test_each_way_of_being_half_done_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issues("server", "localhost")
    tls = serving(certificate, key)
    whole = certificate.read_bytes()

    for half in (certificate.unlink, lambda: certificate.write_bytes(whole[:100])):
        half()
        for _ in range(2):
            with pytest.raises(ConfigurationError):
                tls.look_again()
    certificate.write_bytes(whole)
    tls.look_again()
    certificate.unlink()
    with pytest.raises(ConfigurationError):
        tls.look_again()

    assert caplog.messages == ["the earlier certificate goes on"] * 3
    assert shown(tls, authority)
