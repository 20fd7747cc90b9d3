"""``python -m datum_compute.cli``."""

import sys

from datum_compute.cli.quick.start import run

sys.exit(run())
