"""Runs `headroom serve` with one model and asks it through the public endpoint."""

import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request


class Failed(Exception):
    """The server did not start or refused a request."""


class Server:
    """A server with a model in a folder. It computes in float32 and stores nothing on disk.

    Its own process runs the model, and its home is a temporary folder: it neither reads nor
    writes the user's settings."""

    def __init__(self, headroom, folder, context, flags=()):
        self.home = tempfile.TemporaryDirectory()
        home = self.home.name
        env = {"PATH": os.environ.get("PATH", ""), "HOME": home, "XDG_CONFIG_HOME": home,
               "XDG_DATA_HOME": home, "XDG_CACHE_HOME": home}
        self.log = open(os.path.join(home, "log"), "w+")
        self.process = subprocess.Popen(
            [headroom, "serve", "--model", str(folder), "--port", "0", "--in-process", "--float32",
             "--kv-format", "f32", "--no-ssd-cache", "--context", str(context), *flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        self.url = ""

    def __enter__(self):
        for line in self.process.stdout:
            if line.startswith("endpoint: "):
                self.url = line.split()[1]
                return self
        self.process.wait()
        said = self.said()
        self.__exit__()
        raise Failed("headroom serve ended: " + said)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.home.cleanup()

    def said(self):
        """The last lines of the log."""
        self.log.seek(0)
        return " ".join(self.log.read().split("\n")[-4:]).strip()

    def complete(self, body):
        """Posts a completion and returns the answer."""
        return self.post("/completions", body)

    def post(self, path, body):
        """Posts a body to a path below /v1 and returns the answer."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as err:
            raise Failed(f"status {err.code}: {err.read().decode()[:500]}") from err
        except OSError as err:
            raise Failed(f"no answer: {err}; {self.said()}") from err
