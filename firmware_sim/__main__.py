"""``python -m firmware_sim``."""

import sys

from firmware_sim.command_line import main

if __name__ == "__main__":
    sys.exit(main())
