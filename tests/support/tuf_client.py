"""The commands that a conformance runner of The Update Framework drives, on the agent's own client.

    init      --metadata-dir DIR ROOT_FILE
    refresh   --metadata-dir DIR --metadata-url URL
    download  --metadata-dir DIR --metadata-url URL --target-name NAME --target-base-url URL --target-dir DIR

Exit 1 on refusal. What is trusted lies in the metadata folder, as the runner wants it; the agent itself keeps
it in its database. The present is the system's: a runner lets it be another with libfaketime.
"""

import argparse
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tuf.api.exceptions import DownloadError, RepositoryError

from edgeagent.adapters.metadata.reading import WebReader
from edgeagent.adapters.metadata.verifying import Client


def main() -> int:
    """Run one command.

    Returns:
        The exit status.
    """
    arguments = _parser().parse_args()
    folder: Path = arguments.metadata_dir
    try:
        if arguments.command == "init":
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(arguments.root, folder / "root.json")
        else:
            _refresh(arguments, folder)
    except (RepositoryError, DownloadError, OSError, ValueError) as why:
        print(f"refused: {why}", file=sys.stderr)  # noqa: T201 - a program
        return 1
    return 0


def _refresh(arguments: argparse.Namespace, folder: Path) -> None:
    places = (arguments.metadata_url, arguments.target_base_url or arguments.metadata_url)
    bootstrap = (folder / "root.json").read_bytes()
    client = Client(folder, WebReader(""), datetime.now(UTC), bootstrap, places)
    client.refresh()
    if arguments.command == "refresh":
        return
    target = client.get_targetinfo(arguments.target_name)
    if target is None:
        raise RepositoryError("there is no such target")
    path = str(arguments.target_dir / quote(arguments.target_name, ""))
    if client.find_cached_target(target, path) is None:
        client.download_target(target, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--metadata-dir", type=Path, required=True)
    parser.add_argument("--metadata-url")
    parser.add_argument("--target-name")
    parser.add_argument("--target-dir", type=Path)
    parser.add_argument("--target-base-url")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init").add_argument("root")
    commands.add_parser("refresh")
    commands.add_parser("download")
    return parser


if __name__ == "__main__":
    sys.exit(main())
