"""How the Debian package is put together; ``packaging/build`` runs it."""
