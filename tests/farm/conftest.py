"""Databases of both kinds, for what a farm does with them."""

from tests.autotune.database.conftest import postgresql, server, url

__all__ = ["postgresql", "server", "url"]
