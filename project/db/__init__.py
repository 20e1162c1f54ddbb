"""The Django database backend: PostgreSQL that starts itself and checks its versions."""
