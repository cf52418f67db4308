"""A small model of handwritten digits with nine signatures: how to train one and export it as one SavedModel.

Read ``model`` first (one set of weights, one method per signature), then ``export`` (the methods become signatures),
then ``training`` and ``pictures``.
"""
