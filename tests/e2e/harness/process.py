"""A process that a test has started: its output as lines, its truth as records, its end by its own id."""
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

from .cgroup import Cgroups
from .wait import until


class Process:
    """Runs argv (in these control groups), reads its stdout line by line; lines of JSON become `records`."""

    def __init__(self, argv, folders=(), env=None, cwd=None, stderr=None, on_line=None):
        self.argv = [str(word) for word in argv]
        self.lines, self.records = [], []
        self._on_line = on_line
        command = Cgroups.command(folders, self.argv) if folders else self.argv
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.PIPE, cwd=cwd,
                                      env={**os.environ, **(env or {})}, start_new_session=True)
        self.pid = self.popen.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.popen.stdout as stdout:
            self._lines(stdout)

    def _lines(self, stdout):
        for raw in stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self.lines.append(line)
            if line.startswith("{"):
                try:
                    self.records.append(json.loads(line))
                except ValueError:
                    pass
            if self._on_line:
                self._on_line(line)

    def record(self, key, timeout=15):
        """The first record that has this key."""
        def find():
            if self.popen.poll() is not None and not self._reader.is_alive() and not any(key in r for r in self.records):
                raise AssertionError(f"{self.argv[0]} ended with {self.popen.returncode} before it said {key!r}: {self.lines[-5:]}")
            return next((r for r in self.records if key in r), None)
        return until(find, timeout, f"{self.argv[0]} says {key!r}")[key]

    @property
    def running(self):
        return self.popen.poll() is None

    def wait(self, timeout=30):
        """Its exit code, after all of its output was read."""
        code = self.popen.wait(timeout)
        self.popen.stdin.close()  # open until now: some programs end with their input
        self._reader.join(5)
        return code

    def stop(self, how=signal.SIGTERM, timeout=10):
        """Ends it and its group; its exit code."""
        if self.running:
            os.killpg(self.pid, how)
            try:
                return self.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        return self.wait(5)


def rss(pid):
    """Resident bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu(pid):
    """Seconds of CPU used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def listening(pid):
    """Ports on which that process listens."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.append(int(words[1].rsplit(":", 1)[1], 16))
    return ports


