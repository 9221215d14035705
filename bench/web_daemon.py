"""pawld with its API for the part `http`: started, asked, looked at."""

import http.client
import json
import os
import re
import subprocess
import time
from pathlib import Path

from server import query

DATABASE = "web"
PROGRAMS = Path(os.environ["PAWL_TOP"]) / "build/programs/client"


class Daemon:
    """One pawld, with its duties, whose API logs in as the authenticator. Ends with the block."""

    def __init__(self, *options):
        self.log = Path(os.environ["PAWL_RUN"]) / "pawld.log"
        environment = {**os.environ, "PGDATABASE": DATABASE}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAMS / "pawld",
                    "--http",
                    "127.0.0.1:0",
                    "--api",
                    "127.0.0.1:0",
                    "--api-database",
                    "user=pawl_authenticator dbname=" + DATABASE,
                    *options,
                ],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.port, self.metrics_port = self.port_of("serving the API"), self.port_of("listening")
        self.token = query("select pawl_api.create_token('pawl_operator', 'bench', '{read,operate}')", DATABASE)

    def port_of(self, words):
        for _ in range(200):
            if found := re.search(words + r".* port=(\d+)", self.log.read_text()):
                return int(found[1])
            time.sleep(0.05)
        raise SystemExit(f"bench: pawld does not begin: {self.log.read_text()[-500:]}")

    def get(self, path, port=None):
        """The answer of a GET as bytes; an error status ends the benchmark."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=120)
        connection.request("GET", path, headers={"Authorization": "Bearer " + self.token})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"bench: GET {path}: {answer.status} {body[:300]}")
        return body

    def json(self, path):
        return json.loads(self.get(path))

    def milliseconds(self, path, times):
        took = []
        for _ in range(times):
            began = time.perf_counter()
            self.get(path)
            took.append((time.perf_counter() - began) * 1000)
        return took

    def memory(self, what="RssAnon"):
        """MB; VmHWM: the most so far"""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(what + r":\s+(\d+)", status)[1]) / 1024

    def metric(self, family):
        """the values of a family, by duty"""
        text = self.get("/metrics", self.metrics_port).decode()
        return {duty: float(value) for duty, value in re.findall(family + r'\{duty="([^"]+)"\} (\S+)', text)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        if self.process.wait() != 0:
            raise SystemExit(f"bench: pawld ended badly: {self.log.read_text()[-500:]}")
