"""How the tests are shared between processes."""


def test_the_tests_of_a_file_stay_together_where_processes_share_the_work(request):
    grouped = getattr(request.config.option, "loadgroup", False)

    assert request.node.nodeid.endswith("@tests/test_collection.py") == grouped
