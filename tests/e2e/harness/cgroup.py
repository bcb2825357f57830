"""Puts a process into a control group that is named as a container runtime names it: that is all a pod is to the agent.

Works on a machine with cgroup v1, v2 or both. Every group lies under one folder of its own (as in a node that is itself a
container) and is removed by close()."""
import os
import secrets
from pathlib import Path

from .wait import until

LAYOUTS = {
    # runtime and driver -> path under the root of the hierarchy
    "cgroupfs": "kubepods/{qos}/pod{uid}/{id}",
    "cgroupfs_guaranteed": "kubepods/pod{uid}/{id}",
    "containerd_systemd": "kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid_}.slice/cri-containerd-{id}.scope",
    "crio_systemd": "kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid_}.slice/crio-{id}.scope",
    "crio_crun": "kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid_}.slice/crio-{id}.scope/container",
    "docker_systemd": "kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid_}.slice/docker-{id}.scope",
    "docker_plain": "docker/{id}",
    "containerd_namespace": "k8s.io/{id}",
    "kubelet_root": "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-{qos}.slice/kubelet-kubepods-{qos}-pod{uid_}.slice/"
                    "cri-containerd-{id}.scope",
    "containerd_colon": "system.slice/containerd.service/kubepods-{qos}-pod{uid_}.slice:cri-containerd:{id}",
    "kind": "docker/{outer}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-{qos}-pod{uid_}.slice/cri-containerd-{id}.scope",
    "nested_cgroupfs": "docker/{outer}/kubepods/{qos}/pod{uid}/{id}",
    "below_container": "kubepods/{qos}/pod{uid}/{id}/init.scope",
    "deep_below_container": "kubepods/{qos}/pod{uid}/{id}/system.slice/app.service",
}


def _mounts():
    """Hierarchies that we may write: of v1 those without limits to care for, and v2."""
    v1, v2 = {}, None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        where, (kind, _, options) = Path(left.split()[4]), right.split()[:3]
        if kind == "cgroup2":
            v2 = v2 or where
        elif kind == "cgroup":
            for name in ("pids", "systemd", "freezer"):
                if name in options or f"name={name}" in options:
                    v1.setdefault(name, where)
    return v1, v2


class Cgroups:
    """A folder of control groups in each hierarchy of this machine."""

    def __init__(self, versions=(1, 2)):
        v1, v2 = _mounts()
        roots = ([v1[n] for n in ("pids", "systemd") if n in v1] if 1 in versions else []) + ([v2] if v2 and 2 in versions else [])
        if not roots:
            raise RuntimeError(f"no cgroup hierarchy of versions {versions} is mounted here")
        self.has_v1, self.has_v2 = bool(v1), bool(v2)
        self.name = f"spoor-test-{os.getpid()}-{secrets.token_hex(3)}"
        self.roots = [root / self.name for root in roots]
        for root in self.roots:
            root.mkdir()

    def make(self, pod, container, layout="cgroupfs"):
        """Folders (one in each hierarchy) for that container of that pod."""
        uid = pod.static_hash or pod.uid
        path = LAYOUTS[layout].format(qos=pod.qos, uid=uid, uid_=uid.replace("-", "_"), id=container.id, outer="c0" * 32)
        folders = [root / path for root in self.roots]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        return folders

    @staticmethod
    def move(pid, folders):
        for folder in folders:
            (folder / "cgroup.procs").write_text(str(pid))

    @staticmethod
    def command(folders, argv):
        """argv, run inside the groups from its first instruction on, as a runtime does it."""
        enter = "".join(f"echo 0 >'{folder}/cgroup.procs' && " for folder in folders)
        return ["/bin/sh", "-c", enter + 'exec "$@"', "sh", *map(str, argv)]

    def close(self):
        """Removes all groups; a process that is left in one is an error of the test."""
        for root in self.roots:
            until(lambda: self._remove(root), 5, f"removing {root}: processes are left in it")

    @staticmethod
    def _remove(root):
        for folder, _, _ in os.walk(root, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                return False
        return not root.exists()
