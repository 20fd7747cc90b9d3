"""``python -m datum_compute.cli``."""

import sys

from datum_compute.cli.start import run

sys.exit(run())
