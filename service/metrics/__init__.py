"""What the server tells Prometheus. Everything is read when it is asked for; a request pays for nothing here."""
