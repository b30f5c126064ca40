"""``python -m firmware_sim.venue``."""

import sys

from firmware_sim.venue.command_line import main

if __name__ == "__main__":
    sys.exit(main())
