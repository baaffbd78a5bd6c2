"""A Spark session that just starts: Java found, the settings that matter set, in half the plain time.

Job: turn a master's address into a session, alike for local, standalone (spark://) and Connect (sc://). Must not know what is done with it. A
Spark that somebody else has set up (spark-submit, SPARK_HOME, PYSPARK_SUBMIT_ARGS, a context that is there) is taken as it is.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Final

from barnabas.pipelines.java import find_java
from barnabas.pipelines.jvm import CannotStart, Jvm, start_gateway, stop
from barnabas.pipelines.master import check_master, default_master, is_local
from barnabas.pipelines.start_archive import Archive, make_at_exit

# pyspark is imported when it is needed, not above: while a JVM starts there is time for that.
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from barnabas.pipelines.jvm import Gateway

#: What a session may set on any Spark, a running Connect server included.
RUNTIME_SETTINGS: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
#: What is settled when a driver starts: no pages, no bars between a program's own lines.
DRIVER_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
#: Somebody set Spark up, and pyspark knows how to follow that.
_SET_UP_BY: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR")
#: The better of the JVM's two compilers waits for code that is hot by this measure, 15 times Java's own: else it is busy with what only a start runs, and takes
#: a third of a start's CPU. What records go through is that hot within a moment.
_HOT: Final = 15
_PATIENT: Final = (
    f"-XX:Tier4InvocationThreshold={_HOT * 5_000}",
    f"-XX:Tier4MinInvocationThreshold={_HOT * 600}",
    f"-XX:Tier4CompileThreshold={_HOT * 15_000}",
    f"-XX:Tier4BackEdgeThreshold={_HOT * 40_000}",
    "-XX:Tier3DelayOn=0",
)
#: Compiles quickly and not well: right for work of seconds, a third of the throughput for more.
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def session(
    app: str = "barnabas",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """Start a session, or give the one that runs.

    `master`: local[*] (the default, or what BARNABAS_SPARK_MASTER says), local[N], spark://HOST:PORT or sc://HOST:PORT. `config`: settings of Spark, which win over
    ours. `quick`: for work of seconds, such as a short command or a test: starts sooner still, and computes slower.
    """
    return make_session(app, master or default_master(), config or {}, QUICK if quick else _PATIENT)


def make_session(
    app: str, master: str, config: Mapping[str, str], options: Sequence[str]
) -> SparkSession:
    """Start a session with these options of the JVM, if one of our own is to be started."""
    if master.startswith("sc://"):
        spark = _connect(app, master, config)
    else:
        spark = _classic(settings_of(app, master, config), options)
    from barnabas.pipelines.watching import record

    record(spark)
    return spark


def _connect(app: str, master: str, config: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    wanted = {**RUNTIME_SETTINGS, **config}
    builder = SparkSession.builder.remote(master).appName(app)
    return builder.config(map=dict(wanted)).getOrCreate()


def _classic(settings: dict[str, str], options: Sequence[str]) -> SparkSession:
    _name_python()
    if _runs_already() or any(name in os.environ for name in _SET_UP_BY):
        return _get_or_create(settings)
    return _on_our_jvm(settings, options)


def _name_python() -> None:
    """Workers run the Python of this program, which has what it has installed."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _runs_already() -> bool:
    """Tell whether this program has started a JVM before, by us or without us."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def _get_or_create(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _on_our_jvm(settings: Mapping[str, str], options: Sequence[str]) -> SparkSession:
    master = settings["spark.master"]
    check_master(master)
    java = find_java()
    archive = Archive(java)
    environment = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(master) else {}
    jvm = Jvm(java, settings, [*archive.options(), *options], environment)
    gateway = start_gateway(jvm, meanwhile=_import_pyspark)
    told = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    os.environ.update(told)
    try:
        spark = _created(settings, gateway)
    finally:
        # Programs that this one starts must not take its JVM for theirs.
        for name in told:
            del os.environ[name]
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    SparkContext._gateway.proc = gateway.process
    make_at_exit(archive)
    return spark


def _created(settings: Mapping[str, str], gateway: Gateway) -> SparkSession:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        return _get_or_create(settings)
    except Py4JJavaError as problem:
        stop(gateway.process)
        # A master that did not take the application has stopped it by now, and pyspark asked it for something else.
        why = str(problem.java_exception).partition("\n")[0]
        raise CannotStart(f"Spark did not start with the master {settings['spark.master']}: {why}") from None  # fmt: skip


def _import_pyspark() -> None:
    """Import what a session needs at once, for a second or so."""
    importlib.import_module("pyspark.sql")
    importlib.import_module("barnabas.pipelines.watching")


def settings_of(app: str, master: str, config: Mapping[str, str]) -> dict[str, str]:
    """Give every setting of a driver for this master."""
    settings = {
        "spark.app.name": app,
        "spark.master": master,
        **DRIVER_SETTINGS,
        **RUNTIME_SETTINGS,
    }
    if master.startswith("local"):
        # The usual 200 are for clusters; a query that is started again keeps what its checkpoint says.
        settings["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    if is_local(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings | dict(config)
