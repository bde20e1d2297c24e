"""What stands on the table in each scene, and where, as a function of a random generator."""
