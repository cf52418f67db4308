"""A small model of handwritten digits with nine signatures: how to train one and export it as one SavedModel.

Read ``model`` first (one set of weights, one method per signature), then ``export`` (the methods become signatures),
then ``training`` and ``pictures``.
"""

import os

# TensorFlow reads these once, when it is first imported. They keep its notes about the machine off the terminal.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
