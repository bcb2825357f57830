"""A real Prometheus that scrapes one target, and what it answers to PromQL."""
import json
import urllib.parse
import urllib.request

from .paths import tool
from .ports import free_port
from .process import Process
from .wait import until

CONFIG = """global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}
scrape_configs:
- job_name: spoor
  honor_labels: true
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Prometheus:
    def __init__(self, folder, port, interval="250ms"):
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(CONFIG.format(port=port, interval=interval))
        with open(folder / "log", "wb") as log:
            self.process = Process([tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{self.port}", "--enable-feature=exemplar-storage"], stderr=log)
        until(self._up, 30, lambda: f"Prometheus is ready: {(folder / 'log').read_text()[-2000:]}")
        until(lambda: [h for h, _ in self.health()] == ["up"], 30, lambda: f"it scrapes (it takes 5 s to look): {self.health()}")

    def _up(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def get(self, path, **query):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            return json.load(answer)["data"]

    def query(self, promql):
        """[(labels, value)] of an instant query."""
        return [(r["metric"], float(r["value"][1])) for r in self.get("query", query=promql)["result"]]

    def value(self, promql):
        """Of a query with one answer; 0 without any."""
        return sum(v for _, v in self.query(promql))

    def health(self):
        return [(t["health"], t["lastError"]) for t in self.get("targets")["activeTargets"]]

    def stop(self):
        self.process.stop()
