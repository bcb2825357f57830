"""Tests of what the image holds: image/rootfs.sh and the Dockerfile. No root, no Docker; the cluster's run starts the image."""
import re
import shutil
import subprocess

import options

ROOT = options.ROOT
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def lay_out(tmp_path, program):
    subprocess.run([ROOT / "image/rootfs.sh", program, tmp_path / "root"], check=True)
    return {str(f.relative_to(tmp_path / "root")) for f in (tmp_path / "root").rglob("*") if not f.is_dir()}


def libraries(program):
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {path.lstrip("/") for path in re.findall(r"(/\S+) \(0x", found)}


def test_the_image_holds_the_program_its_libraries_and_nothing_to_run_beside(tmp_path):
    program = shutil.which("curl")
    files = lay_out(tmp_path, program)
    rest = {f for f in files if not f.startswith("usr/share/doc/")} - libraries(program)
    gcc = {f for f in rest if f.endswith("/libgcc_s.so.1")}
    assert rest - gcc == {"usr/bin/spoor", "etc/nsswitch.conf", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}
    assert libraries(program) <= files and len(gcc) == 1
    assert all(f.endswith("/copyright") for f in files if f.startswith("usr/share/doc/"))
    assert not [f for f in (tmp_path / "root").rglob("*") if f.stat().st_mode & 0o6000], "a program with rights of its own"


def test_each_librarys_licence_comes_along(tmp_path):
    files = lay_out(tmp_path, shutil.which("curl"))
    assert {f"usr/share/doc/{p}/copyright" for p in ("libc6", "zlib1g")} <= files


def test_a_program_with_a_missing_library_is_no_image(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int f(void); int main(void) { return f(); }")
    (tmp_path / "f.c").write_text("int f(void) { return 0; }")
    run = lambda *args: subprocess.run(args, cwd=tmp_path, check=True)
    run("gcc", "-shared", "-fPIC", "-o", "libnowhere.so", "f.c")
    run("gcc", "-o", "a", "a.c", "-L.", "-lnowhere")
    done = subprocess.run([ROOT / "image/rootfs.sh", tmp_path / "a", tmp_path / "root"], capture_output=True, text=True)
    assert done.returncode != 0 and "libnowhere.so" in done.stderr


def test_the_last_stage_starts_from_nothing_and_runs_the_agent():
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM "):]
    assert last.startswith("\nFROM scratch\n")
    assert re.findall(r"(?m)^(COPY|ADD|RUN) .*", last) == ["COPY"]
    assert 'ENTRYPOINT ["/usr/bin/spoor"]' in last and 'CMD ["agent"]' in last


def test_the_context_holds_what_is_copied_and_no_more():
    lines = (ROOT / ".dockerignore").read_text().split()
    copied = {name for line in re.findall(r"(?m)^COPY (?!--from)(.*)", DOCKERFILE) for name in line.split()[:-1]}
    assert lines[0] == "*" and {line[1:] for line in lines[1:]} == copied


def test_the_image_is_built_with_the_packages_that_run_installs():
    installed = set(re.search(r"install --yes --no-install-recommends (.*?) && rm", re.sub(r"\\\n", " ", DOCKERFILE))[1].split())
    build = set(re.search(r'BUILD_PACKAGES="([^"]*)"', (ROOT / "run").read_text())[1].split())
    assert installed <= build | {"linux-libc-dev"}, "run does not know these"
    assert build - installed <= {"git", "llvm"}, "the Dockerfile lacks these"
