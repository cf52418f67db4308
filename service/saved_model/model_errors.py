"""What TensorFlow says when a run or a load fails, cut to what helps the reader."""

import re

_LIMIT = 600
"""Characters; an error's text travels in a header of bounded size."""

_NOISE = re.compile(
    r"\s*Detected at node [^\n]*\n(\s*File [^\n]*\n)*Node: [^\n]*\n"  # where the exporting program made the node
    r"|\s*\[\[\{\{.*$"  # the node's name in the graph, and what hangs on it
    r"|\s*Original stack trace for .*$"
    r"|\s*(Detected at node|Defined at|Errors may have originated|Stack trace for op definition) .*$"
    r"|^Graph execution error:"
    r"|\s*\d+ (root error\(s\) found|successful operations|derived errors ignored)\.?"
    r"|\s*\(\d+\) (?=[A-Z_]+: )",
    re.DOTALL,
)


def shorten(message: str) -> str:
    """Return a message of TensorFlow as one line, without node names and stack traces of the exporting machine."""
    text = " ".join(_NOISE.sub("", message).split())
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 3]}..."
