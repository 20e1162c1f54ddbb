"""One embedded server per test run, loopback sockets only, async tests on Django's thread.

The first process of a run makes a folder, names it in CITABLE_VAR, and removes it at the end;
pytest-xdist's workers and commands under test inherit it. DATABASE_URL chooses another server; its
role needs CREATEDB and, unless it is a superuser, template1 the extension vector.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.db import connection, transaction
from django.test import TransactionTestCase
from django.utils import translation
from hypothesis import settings as hypothesis_settings

from project.postgres import server as postgres
from project.postgres.paths import install_dir, socket_dir
from rag.conf import conf
from rag.providers.remote.retry import RetryPolicy

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
}
# Not TMPDIR: the account that runs the server may be kept out of a private one.
ROOT = Path("/tmp").resolve()
PREFIX = "citable-test-"
POOL_SIZE = 30
# Begun last, one process would work while the others are done.
LONGEST = ("test_kill", "test_accessibility", "test_external_postgres", "test_house_paths")
run_folder = pytest.StashKey[Path]()

# A call that fails is tried again after milliseconds; how long it waits in earnest has tests of its own.
_ATTEMPTS, _, *_LIMITS = RetryPolicy.__init__.__defaults__ or ()
RetryPolicy.__init__.__defaults__ = (_ATTEMPTS, 0.01, *_LIMITS)

hypothesis_settings.register_profile("suite", deadline=None, database=None)
hypothesis_settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Point Django at the run's own folder and keep sockets at home."""
    if hasattr(config.option, "allow_hosts"):
        config.option.allow_hosts = config.option.allow_hosts or "127.0.0.1,::1,localhost"
        config.option.allow_unix_socket = True
    if ENVIRONMENT_VARIABLE not in os.environ:
        return
    # Each of some two hundred commands under test would compile our modules anew: 0.5 s of CPU.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    is_worker = hasattr(config, "workerinput")
    if is_worker:
        folder = Path(os.environ["CITABLE_VAR"])
        # Each worker has a database of its own: stores of equal numbers must not share a folder.
        os.environ["MEDIA_ROOT"] = str(folder / f"media-{os.environ['PYTEST_XDIST_WORKER']}")
    else:
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=ROOT))
        folder.chmod(0o711)
        _share_models(folder)
        config.stash[run_folder] = folder
        os.environ["CITABLE_VAR"] = str(folder)
    _use(folder)
    _list_static_files_once()
    TransactionTestCase._fixture_teardown = _remove_rows


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is imported and collected out of the garbage collector's sight.

    It stays to the end; looking for cycles in it while it grows takes a sixth of the collection's time.
    """
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1000)
    yield
    gc.set_threshold(*usual)
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest modules."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server and remove the run's folder; pytest-xdist's workers have ended by now."""
    folder = config.stash.get(run_folder, None)
    if folder is not None:
        _remove(folder)


@pytest.fixture
def fresh_wiring() -> Iterator[None]:
    """Let providers be made anew from the settings of this test, and again after it."""
    # What imports Django's models may be imported only when Django is set up.
    from rag.services.wiring import registry as wiring

    makers = [made for made in vars(wiring).values() if hasattr(made, "cache_clear")]
    for maker in makers:
        maker.cache_clear()
    yield
    for maker in makers:
        maker.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Forget the language of a test's last request, and take back what its threads hold.

    Such threads wait for locks or for a server that was frozen; they end by themselves, but their
    connections would be missing until then.
    """
    yield
    translation.deactivate()
    pool = connection._connection_pools.get(connection.alias)
    if pool is None or connection.in_atomic_block:
        return
    stats, options = pool.get_stats(), connection.settings_dict["OPTIONS"]["pool"]
    if options["max_size"] != POOL_SIZE:
        # A test of a small pool; the pool remembers the size that it was made with.
        options["max_size"] = POOL_SIZE
        connection.close()
        connection.close_pool()
        return
    if stats.get("pool_size", 0) - stats.get("pool_available", 0) > 1:
        connection.close()
        connection.close_pool()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test on the thread of its transaction; other ways leak rows."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    async_to_sync(pyfuncitem.obj)(**arguments)
    return True


def _list_static_files_once() -> None:
    """Every test's client makes its middleware anew, which would look at two hundred files again."""
    # It reads the settings, which pytest-django has just named.
    from whitenoise.middleware import WhiteNoiseMiddleware

    look, found = WhiteNoiseMiddleware.add_files_from_finders, {}

    def add_files(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    WhiteNoiseMiddleware.add_files_from_finders = add_files


_KEPT = ("django_migrations", "django_content_type", "auth_permission")
_TABLES = """
SELECT quote_ident(c.relname), c.relispartition, current_setting('is_superuser') = 'on'
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> ALL(%s)
"""


def _remove_rows(case: TransactionTestCase) -> None:
    """Remove what a test committed, also from the tables that no model describes.

    Partitions go too: each test makes some, and emptying those of all tests before takes longer
    with each. Where the role may, nothing is checked or triggered, which takes a tenth of a
    TRUNCATE's time.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_TABLES, [list(_KEPT)])
        found = cursor.fetchall()
        for name in (name for name, is_partition, _ in found if is_partition):
            cursor.execute(f"DROP TABLE {name}")
        names = [name for name, is_partition, _ in found if not is_partition]
        if found[0][2]:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {name}" for name in names))
        else:
            cursor.execute(f"TRUNCATE {', '.join(names)}")


def _use(folder: Path) -> None:
    # Settings were read before this file; connections read these dictionaries when first used.
    settings.VAR_DIR = folder
    settings.MEDIA_ROOT = Path(os.environ.get("MEDIA_ROOT", folder / "media"))
    # Of each worker too: the upkeep under test removes unfinished uploads, whoever writes them.
    settings.FILE_UPLOAD_TEMP_DIR = folder / f"incoming-{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    settings.FILE_UPLOAD_TEMP_DIR.mkdir(exist_ok=True)
    settings.RAG = settings.RAG | {"CONNECTIONS_DIR": settings.FILE_UPLOAD_TEMP_DIR / "connections"}
    # What was imported meanwhile may have read them.
    conf.cache_clear()
    # The middleware that serves static files warns about a folder that is not there.
    settings.STATIC_ROOT = folder / "static"
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    # Tests of races use many connections at once, and threads that a test leaves hold theirs.
    settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"] = POOL_SIZE
    if settings.POSTGRES_DATA_DIR is not None:
        settings.POSTGRES_DATA_DIR = folder / "postgres"
        settings.POSTGRES_OPTIONS = FAST
        settings.DATABASES["default"]["HOST"] = str(socket_dir(folder / "postgres"))


def _share_models(folder: Path) -> None:
    # Prepared model files cost seconds and never differ between runs.
    models: Path = settings.RAG["MODELS_DIR"]
    models.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(models)


def _sweep() -> None:
    """Remove what a killed run left: its server and its folder."""
    for folder in ROOT.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        is_ours = folder.lstat().st_uid == os.geteuid()
        if pid.isdigit() and is_ours and not Path("/proc", pid).exists():
            _remove(folder)


def _remove(folder: Path) -> None:
    postgres.stop_postgres(install_dir(), folder / "postgres")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
