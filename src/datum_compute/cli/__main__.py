"""``python -m datum_compute.cli``."""

import sys

from datum_compute.cli.main import run

sys.exit(run())
