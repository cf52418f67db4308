"""One idea a file, on stock clients alone, against the demo's model.

python -m clients.digits /tmp/digits
signet serve /tmp/digits
python -m clients.examples.synchronous --url 127.0.0.1:8001
"""
