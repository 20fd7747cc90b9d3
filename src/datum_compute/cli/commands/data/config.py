"""``config list|show|set|unset``: ConfigMaps of the project."""

from datum_compute.cli.commands.data.command import commands_of
from datum_compute.cli.commands.data.kinds import CONFIG

configure, run = commands_of(CONFIG)
