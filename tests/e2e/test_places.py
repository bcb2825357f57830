"""Where a program's file may lie and who it may run as: overlays, other devices, namespaces, other users; programs that become others."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import truth
from harness.load import Request, send
from harness.node import server
from harness.pods import Pod
from harness.wait import until


@pytest.fixture(scope="module")
def rig(shared):
    sink = shared.sink()
    return shared, sink, shared.agent(sink)


@pytest.fixture
def mounts():
    """mount(type, folder, options...): undone at the end of the test."""
    done = []

    def mount(kind, folder, *options):
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", kind, *(["-o", ",".join(options)] if options else []), kind, folder], check=True)
        done.append(folder)
        return folder
    yield mount
    for folder in reversed(done):
        subprocess.run(["umount", "-l", folder], check=True)


def check_traced(rig, target, routes=True, n=5):
    node, sink, agent = rig
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/items/1") for _ in range(n)])
    rids = {r.rid for r in requests}
    until(lambda: rids <= {s.rid for s in sink.spans}, 10, "its spans arrive")
    mine = [s for s in sink.spans if s.rid in rids]
    truth.check(mine, requests, routes=routes)
    truth.check_pod(mine, target.pod, target.container)


def test_two_files_of_one_inode_number_on_two_devices(rig, mounts):
    """Field case 16: what is kept of a binary is kept by device, inode, time and size."""
    node, _, _ = rig
    programs = []
    for name, version in (("a", "1.26"), ("b", "1.19")):
        folder = mounts("tmpfs", node.folder / f"device-{name}")
        shutil.copy(server(version), folder / "web")
        programs.append(folder / "web")
    assert programs[0].stat().st_ino == programs[1].stat().st_ino, "the point of this test"
    targets = [node.run(p) for p in programs]
    check_traced(rig, targets[0])
    check_traced(rig, targets[1], routes=False)
    for target in targets:
        target.stop(signal.SIGKILL)


def test_one_image_under_two_overlays_only_one_of_them_opted_in(rig, mounts):
    """As containers of one image run: the same lower file, another device each."""
    node, sink, agent = rig
    lower = mounts("tmpfs", node.folder / "image")
    shutil.copy(server(), lower / "web")
    targets = []
    for name, opted_in in (("one", True), ("two", False)):
        work = mounts("tmpfs", node.folder / f"work-{name}")
        (work / "upper").mkdir()
        (work / "work").mkdir()
        root = mounts("overlay", node.folder / f"root-{name}", f"lowerdir={lower}", f"upperdir={work}/upper", f"workdir={work}/work")
        targets.append(node.run(root / "web", pod=Pod.of_deployment(opted_in=opted_in)))
    check_traced(rig, targets[0])
    send(targets[1].port, [Request("/fast") for _ in range(5)])
    time.sleep(0.5)
    assert not [s for s in sink.spans if s.resource["container.id"] == targets[1].container.id] and not agent.traced(targets[1].pid)
    for target in targets:
        target.stop(signal.SIGKILL)


def test_a_file_in_a_mount_namespace_that_nobody_else_sees(rig):
    node, _, _ = rig
    folder = node.folder / "private"
    folder.mkdir()
    target = node.run("unshare", "--mount", "--", "/bin/sh", "-c",
                      f"mount -t tmpfs none {folder} && cp {server()} {folder}/web && exec {folder}/web")
    check_traced(rig, target)
    assert not (folder / "web").exists()


def test_a_user_namespace_of_its_own(rig):
    """hostUsers: false."""
    node, _, _ = rig
    target = node.run("unshare", "--user", "--map-root-user", "--", server())
    check_traced(rig, target)


def test_a_pid_namespace_of_its_own(rig):
    node, _, agent = rig
    target = node.run("unshare", "--pid", "--fork", "--kill-child", "--", server())
    child = until(lambda: open(f"/proc/{target.pid}/task/{target.pid}/children").read().split(), 5, "the program itself")
    agent.wait_traced(int(child[0]))
    requests = send(target.port, [Request("/fast")])
    span = until(lambda: next((s for s in rig[1].spans if s.rid == requests[0].rid), None), 10, "its span")
    assert span.resource["process.pid"] == 1, "as the program sees itself"


def test_another_user_whose_file_only_he_may_run(rig):
    """DAC_READ_SEARCH: nobody but its owner may read it."""
    node, _, _ = rig
    folder = node.folder / "closed"
    folder.mkdir()
    shutil.copy(server(), folder / "web")
    os.chmod(folder / "web", 0o700)
    os.chown(folder / "web", 65534, 65534)
    os.chown(folder, 65534, 65534)
    target = node.run("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", "--", folder / "web") \
        if reachable(folder) else node.run(folder / "web")
    check_traced(rig, target)


def reachable(folder):
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "test", "-x", folder / "web"])
    return done.returncode == 0


def test_a_change_of_the_root_folder(rig, mounts):
    node, _, _ = rig
    root = mounts("tmpfs", node.folder / "jail")
    shutil.copy(server(), root / "web")
    target = node.run("chroot", root, "/web")
    check_traced(rig, target)


def test_a_program_that_executes_itself_again_is_traced_again(rig):
    """The same pid and start time, another image: all probes are gone with the old one."""
    node, _, _ = rig
    target = node.run()
    for i in range(3):
        check_traced(rig, target)
        said = len(target.process.records)
        os.kill(target.pid, signal.SIGHUP)
        until(lambda: len(target.process.records) > said, 10, "it speaks again")
        target.process.records[:] = target.process.records[said:]
        until(lambda: sends_a_span(rig, target), 10, f"traced after {i + 1} times")


def sends_a_span(rig, target):
    request, = send(target.port, [Request("/fast")])
    time.sleep(0.3)
    return request.rid in {s.rid for s in rig[1].spans}


def test_a_program_that_becomes_another_one(rig):
    """First another Go program, then one that is none."""
    node, _, agent = rig
    target = node.run("/bin/sh", "-c", f"trap : HUP; {server('1.19')} & wait; kill $!; exec sleep 60")
    until(lambda: any(p["state"] == "traced" and p.get("container_id") == target.container.id for p in agent.status()["processes"]), 10,
          "the child is traced")
    os.kill(target.pid, signal.SIGHUP)
    until(lambda: agent.process_state(target.pid).get("state") == "not_go", 15, lambda: f"sleep is no Go: {agent.process_state(target.pid)}")
