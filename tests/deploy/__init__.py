"""The files of deploy/, and those that scripts/build makes."""
