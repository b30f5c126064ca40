"""What is asked of a broker of our own: read from ``[broker]`` and ``[broker.managed]``."""

from pathlib import Path
from typing import Final

from edgeagent.config import Config
from edgeagent.secret_files import check_private, read_secret, secret_path
from edgeagent.setup.broker.passwords import new_password
from edgeagent.setup.broker.place import BrokerPlace
from edgeagent.values import dataclass

AGENT_PORT: Final = 1884
AGENT_LOGIN: Final = "edgeagent"
PASSWORD_FILE: Final = "broker-password"  # noqa: S105 - the name of its file
LISTEN: Final = "0.0.0.0:1883"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How our broker is to be.

    Attributes:
        place: where mosquitto's configuration lies.
        agent_port: where the agent comes, on loopback.
        agent: the agent's login.
        password: the agent's.
        host: where devices come: an address.
        port: and the port.
        certificate: of the broker, for devices; None for no TLS.
        key: of the certificate.
        password_file: where the password is to be written, since it is a new one; None where it is there.
    """

    place: BrokerPlace
    agent_port: int
    agent: str
    password: str
    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    password_file: Path | None = None


def config_lines(*, listen: str = LISTEN, certificate: Path | None = None, key: Path | None = None) -> str:
    """The part of the hub's configuration that asks for it, as TOML."""
    lines = [
        "[broker]",
        f"port = {AGENT_PORT}",
        f'username = "{AGENT_LOGIN}"',
        f'password_file = "{PASSWORD_FILE}"',
        "",
        "[broker.managed]",
        f'listen = "{listen}"',
        *([] if certificate is None else [f'cert_file = "{certificate}"']),
        *([] if key is None else [f'key_file = "{key}"']),
        "",
    ]
    return "\n".join(lines)


def wish(config: Config, path: Path) -> Wish | None:
    """What the configuration asks for; None where the agent is a guest.

    Raises:
        ConfigurationError: the agent's password or a file of TLS cannot be read, or others may as well.
    """
    broker, managed = config.broker, config.broker.managed
    if managed is None or broker.username is None or broker.password_file is None:
        return None
    host, _, port = managed.listen.rpartition(":")
    if managed.key_file is not None:
        check_private(secret_path(path, managed.key_file))
    password, password_file = _password(path, broker.password_file)
    return Wish(
        place=BrokerPlace(managed.folder),
        agent_port=broker.port,
        agent=broker.username,
        password=password,
        password_file=password_file,
        host=host.strip("[]"),
        port=int(port),
        certificate=None if managed.cert_file is None else secret_path(path, managed.cert_file),
        key=None if managed.key_file is None else secret_path(path, managed.key_file),
    )


def _password(path: Path, name: Path) -> tuple[str, Path | None]:
    """The agent's password, and where to write it if it is a new one.

    systemd lends it to the agent from a folder beside the configuration.
    """
    lent = path.parent / "credentials"
    file = secret_path(path, name)
    if not name.is_absolute() and not file.exists() and lent.is_dir():
        file = lent / name
    return (read_secret(path, file), None) if file.exists() else (new_password(), file)
