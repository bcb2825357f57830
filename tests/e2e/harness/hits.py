"""Probe hits, as the kernel counts them while the fixture `statistics` has it count."""
import os
from pathlib import Path

SWITCH = Path("/proc/sys/kernel/bpf_stats_enabled")


def hits(agent):
    """How often the agent's BPF programs for uprobes have run."""
    total, pid = 0, agent.real_pid
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            info = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if info.get("prog_type") == "2" and "run_cnt" in info:  # BPF_PROG_TYPE_KPROBE: what uprobes are to BPF
            total += int(info["run_cnt"])
    return total
