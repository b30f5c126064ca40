"""``python -m edgeagent`` is the command line."""

import sys

from edgeagent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
