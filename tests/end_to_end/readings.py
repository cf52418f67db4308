"""What the HTTP port of a running server tells."""

import threading
import time
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

WAIT_S = 30


def fetch(server, path):
    """Return the status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://{server.http_address}/{path}", timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def readings(server, model="kit"):
    """Return the samples of a model by name and the values of its further labels."""
    status, text = fetch(server, "metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.pop("model", None) == model and labels.pop("version") == "1":
                found[sample.name.removesuffix("_total"), *(labels[name] for name in sorted(labels))] = sample.value
    return found


def gauge(server, name):
    """Return the value of a family that has no model."""
    _, text = fetch(server, "metrics")
    (family,) = (family for family in text_string_to_metric_families(text) if family.name == name)
    return family.samples[0].value


def wait_until(holds):
    """Return when something holds of which nobody tells."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def keep_busy(server, send_slow):
    """Give both workers something to run, so that what comes next waits; return the threads that send."""
    threads = [threading.Thread(target=send_slow) for _ in range(2)]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        wait_until(lambda: readings(server)["signet_running_requests", "slow"] == number)  # noqa: B023 - called at once
    return threads
