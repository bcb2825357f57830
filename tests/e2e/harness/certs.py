"""Certificates made by openssl: a CA, what it signs, self-signed ones, expired ones, ones for another name."""
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .paths import tool


@dataclass
class Pair:
    cert: Path
    key: Path


def _openssl(*args):
    done = subprocess.run([tool("openssl"), *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"openssl {args[0]}: {done.stderr}")


class Certs:
    """One authority in a folder, and the certificates that it signs."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ca = self.self_signed("ca", "/CN=test-ca", ["basicConstraints=critical,CA:TRUE"])

    def _key(self, name):
        key = self.folder / f"{name}.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        return key

    def self_signed(self, name, subject="/CN=node@1", extensions=("subjectAltName=DNS:node-1",)):
        """What a kubelet makes for itself by default: its name only as DNS, signed by nobody."""
        pair = Pair(self.folder / f"{name}.crt", self._key(name))
        _openssl("req", "-x509", "-new", "-key", pair.key, "-subj", subject, "-days", 2, "-out", pair.cert,
                 *(word for ext in extensions for word in ("-addext", ext)))
        return pair

    def signed(self, name, names="DNS:node-1,IP:127.0.0.1", expired=False):
        """A server certificate of the authority for these names."""
        pair = Pair(self.folder / f"{name}.crt", self._key(name))
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
        _openssl("req", "-new", "-key", pair.key, "-subj", f"/O=system:nodes/CN=system:node:{name}", "-out", request)
        if expired:
            self._sign_expired(request, extensions, pair)
        else:
            _openssl("x509", "-req", "-in", request, "-CA", self.ca.cert, "-CAkey", self.ca.key, "-CAcreateserial",
                     "-days", 2, "-extfile", extensions, "-out", pair.cert)
        return pair

    def _sign_expired(self, request, extensions, pair):
        """`openssl x509` cannot choose dates before version 3.4; `openssl ca` always could."""
        db = self.folder / "db"
        db.mkdir(exist_ok=True)
        (db / "index").write_text("")
        (db / "serial").write_text("04D2\n")
        config = db / "ca.cnf"
        config.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={db}/index\nserial={db}/serial\nnew_certs_dir={db}\n"
                          "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\nCN=supplied\nO=optional\n")
        _openssl("ca", "-batch", "-config", config, "-cert", self.ca.cert, "-keyfile", self.ca.key, "-in", request,
                 "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-extfile", extensions,
                 "-out", pair.cert, "-notext")
