"""How the tests are shared between processes."""


def test_the_tests_of_a_file_stay_together_where_processes_share_the_work(request):
    assert request.node.nodeid.endswith("@tests/test_collection.py") == getattr(request.config.option, "loadgroup", False)
