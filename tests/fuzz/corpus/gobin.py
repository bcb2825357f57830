#!/usr/bin/env python3
"""Writes the corpora of fuzz_gobin_elf (the smallest files that look like Go programs to the agent, one for each layout, and files
that lie about themselves), fuzz_gobin_buildinfo and fuzz_gobin_insn.   gobin.py FOLDER   (the same bytes each time)"""
import os
import struct
import sys
import zlib

BASE = 0x400000
PTR, STRING, SLICE, MAP, STRUCT, ARRAY, INT = 22, 24, 23, 21, 25, 17, 2
CODE = {  # stack checks: small, large, huge, none
    "small": bytes.fromhex("493b66107606554889e55dc3"),
    "large": bytes.fromhex("4c8d642480" "4d3b6610" "0f8600000000" "55c3"),
    "huge": bytes.fromhex("4989e4" "4981ec00100000" "7210" "4d3b6610" "7604" "55c3"),
    "none": bytes.fromhex("31c0c3"),
}


class Section:
    """Items get addresses first, then their bytes: they may point anywhere."""

    def __init__(self, addr):
        self.addr, self.end, self.items = addr, addr, []

    def add(self, size, fill, align=8):
        self.end = (self.end + align - 1) // align * align
        at = self.end
        self.items.append((at, fill))
        self.end += size
        return at

    def bytes(self):
        out = bytearray(self.end - self.addr)
        for at, fill in self.items:
            b = fill() if callable(fill) else fill
            out[at - self.addr:at - self.addr + len(b)] = b
        return bytes(out)


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


class Types:
    def __init__(self, sec, layout):
        self.sec, self.layout, self.at = sec, layout, {}
        self.map_size = {"row": 136, "swiss": 112, "old": 88}[layout]
        self.start = sec.add(8, b"\0" * 8, 64)

    def name(self, s):
        b = b"\1" + varint(len(s)) + s.encode()
        return self.sec.add(len(b), b, 1)

    def head(self, size, kind, string, tflag=0, align=8):
        at = self.strings[string]
        return struct.pack("<QQIBBBBQQII", size, 0, 0, tflag, align, align, kind, 0, 0, at - self.start, 0)

    def build(self):
        """*runtime.g, *net/http.Request, map[string][]string and what they need."""
        group = "topbits" if self.layout == "old" else "ctrl"
        slot = {"old": "keys", "swiss": "slots", "row": "slots"}[self.layout]
        structs = {
            "runtime.g": ("runtime", 32, [("stack", "int", 0), ("_panic", "int", 8), ("goid", "int", 16), ("parentGoid", "int", 24)]),
            "http.Request": ("net/http", 64, [("Method", "string", 0), ("URL", "int", 16), ("Header", "http.Header", 24),
                                             ("Host", "string", 32), ("ctx", "string", 48)]),
            "slot": ("", 40, [("key", "string", 0), ("elem", "[]string", 16)]),
            "group": ("", 336 if self.layout == "old" else 328, {
                "keys": [(group, "int", 0), ("keys", "[8]string", 8), ("elems", "[8][]string", 136), ("overflow", "int", 328)],
                "slots": [(group, "int", 0), ("slots", "[8]slot", 8)]}[slot]),
        }
        pointers = ["*http.Request", "*runtime.g"]
        sizes = {}
        for p in pointers:
            sizes[p] = 56
        sizes["map[string][]string"] = self.map_size
        first = sorted(pointers + ["map[string][]string"])
        for n, s in structs.items():
            sizes[n] = 80 + (16 if s[0] else 0) + 24 * len(s[2])
        sizes.update({"int": 48, "string": 48, "[]string": 56, "[8]string": 72, "[8][]string": 72, "[8]slot": 72,
                      "http.Header": self.map_size + 16})
        for n in first + [k for k in sizes if k not in first]:
            self.at[n] = self.sec.add(sizes[n], lambda n=n: self.emit(n, structs))
            if n == first[-1]:
                self.row_end = self.sec.end
        self.links = first
        self.strings = {n: self.name(n) for n in sizes}
        self.paths = {p: self.name(p) for p in ("runtime", "net/http")}
        self.fields = {f: self.name(f) for s in structs.values() for f, _, _ in s[2]}
        self.end = self.sec.end

    def emit(self, n, structs):
        a = self.at
        q = lambda *v: struct.pack("<%dQ" % len(v), *v)
        if n in structs:
            path, size, fields = structs[n]
            at = a[n] + 80 + (16 if path else 0)
            b = self.head(size, STRUCT, n, 5 if path else 0) + q(0, at, len(fields), len(fields))
            if path:
                b += struct.pack("<IHHII", self.paths[path] - self.start, 0, 0, 0, 0)
            return b + b"".join(q(self.fields[f], a[t], o) for f, t, o in fields)
        if n.startswith("*"):
            return self.head(8, PTR, n) + q(a[n[1:]])
        if n.startswith("map") or n == "http.Header":
            b = self.head(8, MAP, n, 5 if n == "http.Header" else 0) + q(a["string"], a["[]string"], a["group"])
            b = b.ljust(self.map_size, b"\0")
            return b + struct.pack("<IHHII", self.paths["net/http"] - self.start, 0, 0, 0, 0) if n == "http.Header" else b
        if n == "[]string":
            return self.head(24, SLICE, n) + q(a["string"])
        if n.startswith("[8]"):
            elem, size = {"[8]string": ("string", 128), "[8][]string": ("[]string", 192), "[8]slot": ("slot", 320)}[n]
            return self.head(size, ARRAY, n) + q(a[elem], 0, 8)
        return self.head(16 if n == "string" else 8, STRING if n == "string" else INT, n, 4)


def pclntab(sec, text, funcs, magic, text_start):
    names = b"".join(n.encode() + b"\0" for n, _ in funcs)
    offsets, at = [], 0
    for n, _ in funcs:
        offsets.append(at)
        at += len(n) + 1
    n = len(funcs)
    head = 72
    cutab = head + len(names)
    functab = (cutab + 3 + 7) // 8 * 8
    body, entry = b"", []
    pos = 0
    for i, (_, code) in enumerate(funcs):
        entry.append(pos)
        pos += (len(CODE[code]) + 15) // 16 * 16
    funcdata = n * 8 + 8
    for i in range(n):
        body += struct.pack("<II", entry[i], funcdata + 8 * i)
    body += struct.pack("<II", pos, 0)
    for i in range(n):
        body += struct.pack("<Ii", entry[i], offsets[i])
    b = struct.pack("<IBBBB8Q", magic, 0, 0, 1, 8, n, 1, text_start, head, cutab, cutab + 1, cutab + 2, functab) + names
    b = b.ljust(functab, b"\0") + body
    return sec.add(len(b), b, 32), (head, cutab, cutab + 1, cutab + 2, functab, n, pos)


FUNCS = [("runtime.goexit1", "none"), ("runtime.goexit1", "small"), ("net/http.serverHandler.ServeHTTP", "small"),
         ("net/http.(*response).finishRequest", "large"), ("net/http.(*conn).serve.func1", "huge"), ("main.main", "none"), ("runtime.(*absent).read", "small")]


def modinfo(text):
    return b"0w\xaf\x0c\x92t\x08\x02A\xe1\xc1\x07\xe6\xd6\x18\xe6" + text + b"\xf92C1\x86\x18 r\x00\x82B\x10A\x16\xd8\xf2"


def program(version="go1.26.8", layout="swiss", pie=False, lld=False, inline=True, dwarf=None, sections=True, edit=None):
    base = 0 if pie else BASE
    ro = Section(base + 0x1000)
    text = ro.addr
    code = b"".join(CODE[c].ljust((len(CODE[c]) + 15) // 16 * 16, b"\xcc") for _, c in FUNCS)
    ro.add(len(code), code)
    rodata = ro.add(16, b"a literal string")
    pcln, (names, cutab, filetab, pctab, functab, nfunc, size) = pclntab(
        ro, text, FUNCS, 0xFFFFFFF0 if version < "go1.20" else 0xFFFFFFF1, 0 if layout == "row" or version >= "go1.26" else text)
    types = Types(ro, layout)
    types.build()
    links = ro.add(4 * len(types.links), lambda: b"".join(struct.pack("<i", types.at[n] - types.start) for n in types.links), 4)
    info = modinfo(b"path\texample.com/tiny\nmod\texample.com/tiny\t(devel)\t\ndep\texample.com/a\tv1.2.3\th1:x=\n"
                   b"dep\texample.com/b\tv0.0.0-20240101000000-0123456789ab\n=>\t./b\t\t\nbuild\t-trimpath=true\n")
    version_at = ro.add(len(version), version.encode(), 1)
    info_at = ro.add(len(info), info, 1)
    rw = Section((ro.end + 0xFFF) // 0x1000 * 0x1000)
    magic = b"\xff Go buildinf:\x08"
    if inline:
        b = (magic + b"\2").ljust(32, b"\0") + varint(len(version)) + version.encode() + varint(len(info)) + info
        rw.add(len(b), b, 16)
    else:
        strings = rw.add(32, struct.pack("<4Q", version_at, len(version), info_at, len(info)))
        rw.add(32, (magic + b"\0") + struct.pack("<2Q", strings, strings + 16), 16)
    s = lambda a, n: [a, n, n]
    w = [pcln] + s(pcln + names, cutab - names) + s(pcln + cutab, 1) + s(pcln + filetab, 1) + s(pcln + pctab, 1)
    w += s(pcln + functab, 8 * nfunc) + s(pcln + functab, nfunc + 1) + [0, text, text + size, text, text + size] + [0] * 13
    if layout == "row":
        length = types.row_end - types.start
        w += [types.start, length, types.end, types.end - types.start - 8, 8, rodata, 0]
    elif layout == "swiss":
        w += [types.start, types.end, rodata, 0, 0, 0, 0, 0] + s(links, len(types.links))
    else:
        w = w[:35] + [types.start, types.end, rodata, 0, 0, 0, 0] + s(links, len(types.links))
    w += [0] * (70 - len(w))
    pointers = {i for i, v in enumerate(w) if base + 0x1000 <= v < rw.addr and i not in (2, 3, 5, 6)} if pie else set()
    md = rw.add(8 * len(w), b"".join(struct.pack("<Q", 0 if lld and i in pointers else v) for i, v in enumerate(w)))
    dyn = 0
    if lld:
        relocs = [(md + 8 * i, w[i]) for i in sorted(pointers)]
        rela = rw.add(24 * len(relocs), b"".join(struct.pack("<QQq", a, 8, v) for a, v in relocs))
        dyn = rw.add(48, struct.pack("<6Q", 7, rela, 8, 24 * len(relocs), 0, 0))
    robytes, rwbytes = ro.bytes(), rw.bytes()
    out = bytearray(0x1000)
    phs = [(1, 5, 0x1000, ro.addr, len(robytes)), (1, 6, 0x1000 + (rw.addr - ro.addr), rw.addr, len(rwbytes))]
    if dyn:
        phs.append((2, 6, 0x1000 + (dyn - ro.addr), dyn, 48))
    out += robytes.ljust(rw.addr - ro.addr, b"\0") + rwbytes
    shoff = 0
    extra = [(n, d) for n, d in (dwarf or [])]
    if sections:
        strtab = b"\0"
        heads = [struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
        rows = [(".text", 1, 6, ro.addr, 0x1000, size), (".gopclntab", 1, 2, pcln, 0x1000 + pcln - ro.addr, 0x100)]
        for n, d in extra:
            rows.append((n, 1, 0x800 if n.endswith("info") else 0, 0, len(out), len(d)))
            out += d
        for n, t, f, a, o, z in rows:
            heads.append(struct.pack("<IIQQQQIIQQ", len(strtab), t, f, a, o, z, 0, 0, 1, 0))
            strtab += n.encode() + b"\0"
        heads.append(struct.pack("<IIQQQQIIQQ", len(strtab), 3, 0, 0, len(out), len(strtab) + 10, 0, 0, 1, 0))
        strtab += b".shstrtab\0"
        out += strtab
        shoff = len(out)
        out += b"".join(heads)
    eh = struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 3 if pie else 2, 62, 1, text, 64, shoff, 0, 64, 56, len(phs),
                     64, len(heads) if sections else 0, len(heads) - 1 if sections else 0)
    out[0:64] = eh
    for i, (t, f, o, a, z) in enumerate(phs):
        out[64 + 56 * i:120 + 56 * i] = struct.pack("<IIQQQQQQ", t, f, o, a, a, z, z, 0x1000)
    if edit:
        edit(out, {"md": 0x1000 + md - ro.addr, "pcln": 0x1000 + pcln - ro.addr, "types": 0x1000 + types.start - ro.addr,
                   "links": 0x1000 + links - ro.addr})
    return bytes(out)


def dwarf_sections():
    """One unit with `struct main.hidden { int a; }` whose offset of a is 8; .debug_info compressed."""
    abbrev = bytes([1, 0x11, 1, 0x03, 0x08, 0, 0, 2, 0x13, 1, 0x03, 0x08, 0x0B, 0x0B, 0, 0, 3, 0x0D, 0, 0x03, 0x08, 0x38, 0x0B, 0, 0, 0])
    dies = b"\x01main\0" + b"\x02runtime.absent\0\x10" + b"\x03a\0\x08" + b"\0" + b"\0"
    unit = struct.pack("<HIB", 4, 0, 8) + dies
    info = struct.pack("<I", len(unit)) + unit
    return [(".debug_abbrev", abbrev), (".debug_info", struct.pack("<IIQQ", 1, 0, len(info), 1) + zlib.compress(info))]


def put(fmt, where, offset, value):
    return lambda out, at: struct.pack_into(fmt, out, (at[where] if where else 0) + offset, value)


FILES = {
    "go119": dict(version="go1.19.8", layout="old"),
    "go123_pie": dict(version="go1.23.5", layout="old", pie=True),
    "go126": dict(),
    "go126_lld": dict(pie=True, lld=True),
    "go127": dict(version="go1.27.3", layout="row"),
    "go127_lld": dict(version="go1.27.3", layout="row", pie=True, lld=True),
    "no_sections": dict(sections=False),
    "dwarf": dict(dwarf=dwarf_sections()),
    "go117": dict(version="go1.17.13", inline=False),
    "no_moduledata": dict(version="go1.25.1", edit=put("<Q", "md", 16, 0)),
    "bits32": dict(edit=put("<B", None, 4, 1)),
    "machine": dict(edit=put("<H", None, 18, 183)),
    "nfunc_huge": dict(edit=put("<Q", "pcln", 8, 1 << 31)),
    "links_huge": dict(edit=put("<Q", "md", 46 * 8, 1 << 40)),
    "types_everywhere": dict(edit=put("<Q", "md", 38 * 8, 0xFFFFFFFFFFFF)),
    "phnum_huge": dict(edit=put("<H", None, 56, 0xFFFF)),
    "segment_huge": dict(edit=put("<Q", None, 64 + 32, 1 << 62)),
    "overlap": dict(edit=put("<Q", None, 64 + 56 + 16, BASE + 0x1000)),
    "self_pointer": dict(layout="swiss", edit=lambda out, at: struct.pack_into("<Q", out, at["types"] + 8 + 48, BASE + at["types"] + 8)),
}


def buildinfo():
    text = modinfo(b"path\tmain\nmod\ta\tv1\nmod\tb\n=>\tc\tv2\n=>\t\n\n\t\tdep\n")
    inline = b"\xff Go buildinf:\x08\2".ljust(32, b"\0")
    return {
        "inline": b"\0" * 160 + inline + varint(8) + b"go1.26.8" + varint(len(text)) + text,
        "no_text": b"\0" * 160 + inline + varint(8) + b"go1.26.8" + varint(0),
        "long": b"\0" * 160 + inline + b"\xff\xff\xff\xff\x7f",
        "version": struct.pack("<QQ", 0x401000 + 176 + 32, 8) + b"\0" * 16 + b"go1.26.8",
    }


def corpora():
    yield "gobin_elf", {**{name: program(**how) for name, how in FILES.items()}, "truncated": program()[:0x1200]}
    yield "gobin_buildinfo", buildinfo()
    yield "gobin_insn", {**CODE, "jump_table": bytes.fromhex("ff24c5000000000f1f4000c3cccc"), "bad": b"\x06\x07" * 8,
                         "arm64": struct.pack("<6I", 0xF9400B90, 0xEB3063FF, 0x54000069, 0xF81E0FFE, 0xD65F03C0, 0)}


def main():
    for folder, files in corpora():
        os.makedirs(os.path.join(sys.argv[1], folder), exist_ok=True)
        for name, data in files.items():
            with open(os.path.join(sys.argv[1], folder, name), "wb") as f:
                f.write(data)


main()
