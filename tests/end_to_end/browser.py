"""A headless Chromium, driven by the WebDriver protocol: no more of it than the tests of the status page need."""

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

WAIT_MS = 30_000
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to an element
_STARTED = re.compile(r"started successfully on port (\d+)")


def what_is_missing():
    """Return why there can be no browser, None when there can."""
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


class Browser:
    """One window. Every method returns when what it does is done."""

    def __init__(self, profile):
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        try:
            port = next(match[1] for line in self._driver.stdout if (match := _STARTED.search(line)))
            self._url = f"http://127.0.0.1:{port}/session"
            # The sandbox wants another user than root, which containers run tests as.
            arguments = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
            options = {"args": arguments, "binary": shutil.which("chromium")}
            session = self._send("POST", "", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
            self._url += f"/{session['sessionId']}"
            self._send("POST", "/timeouts", {"script": WAIT_MS})
        except BaseException:
            self._end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._send("DELETE", "")
        finally:
            self._end()

    def open(self, url):
        self._send("POST", "/url", {"url": url})

    def resize(self, width, height):
        self._send("POST", "/window/rect", {"width": width, "height": height})

    def evaluate(self, expression):
        """Return what an expression of JavaScript gives."""
        return self._send("POST", "/execute/sync", {"script": f"return {expression}", "args": []})

    def wait_for(self, expression):
        """Return what an expression gives as soon as that counts as true."""
        script = f"""
            const done = arguments[0];
            const look = () => {{ const value = {expression}; value ? done(value) : setTimeout(look, 20); }};
            look();"""
        return self._send("POST", "/execute/async", {"script": script, "args": []})

    def type(self, selector, text):
        """Type into an element; into one for files, the path of one."""
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        self._send("POST", f"/element/{found[_ELEMENT]}/value", {"text": text})

    def screenshot(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, method=method)  # noqa: S310 - made here
        try:
            with urllib.request.urlopen(request, timeout=2 * WAIT_MS / 1000) as answer:  # noqa: S310 - likewise
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(error.read().decode()) from None

    def _end(self):
        self._driver.kill()
        self._driver.communicate()
