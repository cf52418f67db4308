"""A page for people on the HTTP port: what is served, what it does, and a form to try a signature."""
