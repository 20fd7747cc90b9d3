"""``secrets list|set|unset``: Secrets of the project, whose values are never shown."""

from datum_compute.cli.commands.data.command import commands_of
from datum_compute.cli.commands.data.kinds import SECRETS

configure, run = commands_of(SECRETS)
