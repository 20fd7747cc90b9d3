"""Template hashes as earlier versions computed them."""

from __future__ import annotations

import json
from pathlib import Path

GOLDEN = json.loads((Path(__file__).parent / "template_hashes.json").read_text())
