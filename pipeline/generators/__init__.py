"""Generators: each turns one repository in its image into task candidates. Admission is not here."""
