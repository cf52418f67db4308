"""The commands of ``signet`` that talk to a running server, any that speaks the protocol, through the stock client.

The program finds them as entry points of the group ``signet.commands`` (pyproject.toml), so that the service needs to
know no client, and the server runs where tritonclient is not installed.
"""
