"""Field case 14: hostile files as /proc/PID/exe are refused with one reason each, in bounded time and memory; the agent lives."""
import shutil
import struct
import subprocess
import time

import pytest

from harness.load import Request, send
from harness.node import server
from harness.paths import agent_binary
from harness.pods import ANNOTATION, Pod
from harness.process import cpu, rss
from harness.wait import until


def patched(data, offset, fmt, value):
    struct.pack_into(fmt, data, offset, value)
    return data


def spread(data, change):
    """Every copy of the header is changed."""
    at = 0
    while (at := data.find(b"\xf1\xff\xff\xff\x00\x00\x01\x08", at)) > 0:
        change(at)
        at += 8
    return data


# name -> what is done to a good program. It must still start: the kernel reads program headers only.
FILES = {
    "section_count_65535": lambda d: patched(d, 0x3c, "<H", 0xffff),
    "section_headers_beyond_the_end": lambda d: patched(d, 0x28, "<Q", 1 << 60),
    "section_size_0": lambda d: patched(d, 0x3a, "<H", 0),
    "string_index_beyond": lambda d: patched(d, 0x3e, "<H", 0xfff0),
    "sections_all_ones": lambda d: d.__setitem__(slice(struct.unpack_from("<Q", d, 0x28)[0],
                                                       struct.unpack_from("<Q", d, 0x28)[0] + 64 * 10), b"\xff" * 640) or d,
    "padding_after_the_code": lambda d: d + bytes(1 << 20),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_that_still_runs_is_traced_or_refused_with_a_reason(node, name):
    program = node.folder / name
    program.write_bytes(FILES[name](bytearray(server("1.23").read_bytes())))
    program.chmod(0o755)
    target = node.run(program)
    good = node.run()
    sink = node.sink()
    agent = node.agent(sink)
    agent.wait_traced(good.pid)
    state = until(lambda: (s := agent.process_state(target.pid)).get("state") not in (None, "pending") and s, 10, "it is decided")
    assert state["reason"], state
    if state["state"] == "traced" and target.process.running:
        requests = send(target.port, [Request("/fast")])
        until(lambda: requests[0].rid in {s.rid for s in sink.spans}, 10, "then its spans are true")
    requests = send(good.port, [Request("/fast")])
    until(lambda: requests[0].rid in {s.rid for s in sink.spans}, 10, "the other one is traced all the same")


# Of these no kernel would run most: a process only shows them as its executable.
CHANGES = {
    "truncated_to_nothing": lambda d: d[:0],
    "truncated_to_the_header": lambda d: d[:64],
    "truncated_in_the_middle": lambda d: d[:len(d) // 2],
    "nfunc_2_31": lambda d: spread(d, lambda at: patched(d, at + 8, "<Q", 1 << 31)),
    "overlapping_segments": lambda d: segments(d, lambda at: patched(d, at + 8, "<Q", 0)),
    "segments_of_2_62_bytes": lambda d: segments(d, lambda at: patched(d, at + 0x20, "<Q", 1 << 62)),
    "segments_at_the_end_of_the_address_space": lambda d: segments(d, lambda at: patched(d, at + 0x10, "<Q", (1 << 64) - 4096)),
    "no_segments": lambda d: segments(d, lambda at: patched(d, at, "<I", 4)),
    "bad_magic_in_pclntab": lambda d: spread(d, lambda at: patched(d, at, "<I", 0xdeadbeef)),
    "program_headers_65535": lambda d: patched(d, 0x38, "<H", 0xffff),
    "32_bit": lambda d: patched(d, 4, "<B", 1),
    "foreign_machine": lambda d: patched(d, 0x12, "<H", 0xf3),
    "big_endian": lambda d: patched(d, 5, "<B", 2),
    "all_ones": lambda d: bytearray(b"\xff" * len(d)),
    "text_overwritten": lambda d: segments(d, lambda at: struct.unpack_from("<I", d, at + 4)[0] & 1 and blank(d, at)),
    "data_overwritten": lambda d: d[:len(d) * 3 // 4] + bytearray(b"\xa5" * (len(d) - len(d) * 3 // 4)),
}


def segments(data, change):
    """Every loadable segment's program header is changed."""
    table, count = struct.unpack_from("<Q", data, 0x20)[0], struct.unpack_from("<H", data, 0x38)[0]
    for at in range(table, table + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == 1:
            change(at)
    return data


def blank(data, header):
    """What that segment holds, but for the ELF header's page, becomes zeros."""
    offset, size = struct.unpack_from("<Q", data, header + 8)[0], struct.unpack_from("<Q", data, header + 0x20)[0]
    data[offset + 0x1000:offset + size] = bytes(size - 0x1000)


@pytest.fixture(scope="module")
def rig(shared):
    sink = shared.sink()
    return shared, sink, shared.agent(sink)


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_bytes_are_refused_in_bounded_time_and_memory(rig, pretend, name):
    node, sink, agent = rig
    program = node.folder / f"hostile-{name}"
    program.write_bytes(bytes(CHANGES[name](bytearray(server("1.23").read_bytes()))))
    program.chmod(0o755)
    target = node.run(pretend, program, pod=Pod.of_deployment(opted_in=False))
    assert target.process.record("pretending")
    begin, used, memory = time.monotonic(), cpu(agent.real_pid), rss(agent.real_pid)
    target.pod.annotations[ANNOTATION] = "true"
    state = until(lambda: (s := agent.process_state(target.pid)).get("state") not in (None, "pending", "not_selected") and s, 10,
                  lambda: f"it is decided: {agent.process_state(target.pid)}")
    assert time.monotonic() - begin < 5 and cpu(agent.real_pid) - used < 1, "bounded time"
    assert rss(agent.real_pid) - memory < 8 << 20, "bounded memory"
    # The magic is a fallback only, and zeros are code without a stack check: of these probes may be made, they just never hit.
    harmless = ("traced",) if name in ("bad_magic_in_pclntab", "text_overwritten") else ()
    refused = ("not_go", "unsupported", "failed", *harmless)
    assert state["state"] in refused and len(state["reason"]) > 5, state
    assert agent.get("/healthz")[0] == 200
    done = subprocess.run([agent_binary(), "inspect", program], capture_output=True, text=True, timeout=10)
    assert done.returncode in ((1,) if state["state"] != "traced" else (0,)) and done.stdout + done.stderr, "inspect says the same"
    target.stop()


def test_a_sparse_file_of_4_gigabytes(rig):
    node, sink, agent = rig
    program = node.folder / "sparse"
    shutil.copy(server("1.23"), program)
    with open(program, "r+b") as f:
        f.truncate(4 << 30)
    program.chmod(0o755)
    memory = rss(agent.real_pid)
    target = node.run(program)
    agent.wait_traced(target.pid)
    assert rss(agent.real_pid) - memory < 8 << 20
    requests = send(target.port, [Request("/fast")])
    until(lambda: requests[0].rid in {s.rid for s in sink.spans}, 10)
