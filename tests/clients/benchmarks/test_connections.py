import asyncio

import pytest

from clients.benchmarks.connections import CONNECTIONS, Memory, measure_server, to_markdown


@pytest.mark.end_to_end
def test_connections_take_memory_while_they_are_open_and_are_closed_afterwards(echo_server):
    with echo_server("grpcio echo") as server:
        memory = asyncio.run(measure_server(server, 100))

    assert 0 < memory.alone < memory.idle <= memory.used


def test_the_page_tells_what_connections_take_beside_the_server_alone(conditions):
    taken = {"Signet": [Memory(600, 610, 612, 611), Memory(500, 530, 534, 533), Memory(700, 720, 723, 722)]}
    page = to_markdown(taken, conditions)

    for part in ("a processor, 2 cores", "Python 3.11.7", "3 rounds", f"{CONNECTIONS:,} connections"):
        assert part in page
    row = "| Signet | 600 | 20.00 (10.00..30.00) | 23.00 (12.00..34.00) | 22.00 (11.00..33.00) |"
    assert row in page
