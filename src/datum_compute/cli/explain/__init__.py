"""What states, reasons and errors mean to a person, in words."""
