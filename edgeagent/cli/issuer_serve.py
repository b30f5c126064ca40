"""``edgeagent issuer serve``: the reference queue server."""

import argparse
from pathlib import Path

from edgeagent.cli.arguments import length_of_time
from edgeagent.cli.issuer_asking import clock
from edgeagent.cli.words import Nouns
from edgeagent.errors import ConfigurationError


def add_serve(verbs: Nouns) -> None:
    """Add the word that runs the queue server."""
    serve = verbs.add_parser("serve", help="run the reference queue server until it is told to stop")
    serve.add_argument("--listen", default="127.0.0.1:8443", metavar="HOST:PORT")
    serve.add_argument("--database", type=Path, required=True)
    serve.add_argument("--tokens", type=Path, required=True, help="logins; see edgeagent issuer token new")
    serve.add_argument("--time-key", type=Path, help="the key that signs the time")
    serve.add_argument("--policy", type=Path, help="the signed policy, to refuse early what hubs would")
    serve.add_argument(
        "--repository", type=Path, help="the policy's repository, served to hubs; in place of --policy"
    )
    serve.add_argument(
        "--ca",
        type=Path,
        metavar="FOLDER",
        help="the authority that enrols hubs, of edgeagent issuer ca; has the server's certificate too",
    )
    serve.add_argument(
        "--certificate-lifetime",
        type=length_of_time,
        default=length_of_time("90d"),
        metavar="90d",
        help="of hubs; they renew at two thirds",
    )
    serve.add_argument(
        "--renewal-grace",
        type=length_of_time,
        default=length_of_time("90d"),
        metavar="90d",
        help="for how long after its end a hub's certificate still renews itself",
    )
    serve.add_argument("--tls-cert", type=Path, help="certificate chain; none is for loopback only")
    serve.add_argument("--tls-key", type=Path, help="its key")
    serve.set_defaults(handler=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from edgeagent import logs
    from edgeagent.issuer.server import run
    from edgeagent.issuer.settings import Limits, ServerSettings

    logs.set_up("info")
    host, _, port = arguments.listen.rpartition(":")
    if not port.isdigit():
        raise ConfigurationError(f"--listen {arguments.listen}: not HOST:PORT")
    settings = ServerSettings(
        host=host.strip("[]"),
        port=int(port),
        database=arguments.database,
        tokens=arguments.tokens,
        certificate=arguments.tls_cert,
        key=arguments.tls_key,
        time_key=arguments.time_key,
        policy=arguments.policy,
        repository=arguments.repository,
        authority=arguments.ca,
        limits=Limits(
            certificate_lifetime=arguments.certificate_lifetime, renewal_grace=arguments.renewal_grace
        ),
    )
    run(settings, clock(), listening=lambda number: print(f"listening on {host}:{number}", flush=True))
    return 0
