"""thingsboard-gateway as it comes from PyPI, in an environment of its own, and what it takes for a platform.

    venue's broker ──> gateway ──> platform: a mosquitto, and answers to what the gateway asks at its start

The gateway sends nothing before it has been told its limits; here there are none. What it stores goes into
SQLite, as a hub that loses its link needs it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.processes import Watch
from tests.support.brokers import Mosquitto

CACHE: Final = Path(__file__).parents[1] / ".cache" / "thingsboard"
"""The environment."""
PACKAGE: Final = "thingsboard-gateway"

_LIMITS: Final = {
    "maxPayloadSize": 65536,
    "maxInflightMessages": 1000,
    "rateLimits": {"messages": "", "telemetryMessages": "", "telemetryDataPoints": ""},
    "gatewayRateLimits": {"messages": "", "telemetryMessages": "", "telemetryDataPoints": ""},
}
_STORAGE: Final = {
    "type": "sqlite",
    "data_file_path": "./data/",
    "messages_ttl_check_in_hours": 1,
    "messages_ttl_in_days": 7,
    "max_read_records_count": 1000,
    "writing_batch_size": 1000,
    "size_limit": 1024,
}
# What native/load.c sends.
_FIELDS: Final = (
    *(("seq", "integer"), ("t0", "integer"), ("temp", "double"), ("hum", "double"), ("press", "double")),
    *(("batt", "double"), ("rssi", "integer"), ("status", "string"), ("fw", "string"), ("note", "string")),
)


def environment() -> Path:
    """Its Python, fetched the first time.

    Raises:
        RuntimeError: it cannot be fetched; says why.
    """
    python = CACHE / "bin" / "python"
    if not (CACHE / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(CACHE)], check=True)
        words = [str(python), "-m", "pip", "install", "--quiet", PACKAGE]
        fetched = subprocess.run(words, capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            raise RuntimeError(f"{PACKAGE} cannot be fetched: {fetched.stderr.strip()[-300:]}")
        (CACHE / "complete").touch()
    return python


def installed() -> float:
    """MiB that it takes with all that it needs, without pip."""
    [packages] = CACHE.glob("lib/python3*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    others = (path for path in files if path.relative_to(packages).parts[0][:3] not in {"pip", "set"})
    return sum(path.stat().st_size for path in others) / 2**20


class Platform:
    """What the gateway takes for ThingsBoard: as a context manager it answers, and counts what comes."""

    def __init__(self, folder: Path) -> None:
        self._broker = Mosquitto(folder, options=("max_queued_messages 0", "max_inflight_messages 500"))
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="platform")
        self.count = 0

    def __enter__(self) -> Self:
        self._broker.start()
        self._client.on_message = self._heard
        self._client.connect("127.0.0.1", self._broker.port)
        asked = ("v1/devices/me/rpc/request/+", "v1/devices/me/attributes/request/+", "v1/gateway/telemetry")
        self._client.subscribe([(topic, 1) for topic in asked])
        self._client.loop_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._broker.stop()

    @property
    def port(self) -> int:
        """Where it is."""
        return self._broker.port

    def _heard(self, client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:  # noqa: ANN401 - paho's
        if message.topic == "v1/gateway/telemetry":
            self.count += 1
            return
        answer = message.topic.replace("/request/", "/response/")
        limits = {} if "attributes" in message.topic else _LIMITS
        client.publish(answer, json.dumps(limits), 1)


class Gateway:
    """The gateway, in a folder of its own.

    Args:
        folder: for its files.
        broker_port: of the venue's broker.
        platform_port: of its platform.
    """

    def __init__(self, folder: Path, broker_port: int, platform_port: int) -> None:
        self._folder = folder
        self._python = environment()
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("config", "data", "logs"):
            (folder / name).mkdir(parents=True)
        self._configure(folder / "config", broker_port, platform_port)

    def launch(self) -> None:
        """Start it, and return at once."""
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [str(self._python), "-m", "thingsboard_gateway.tb_gateway"],
                cwd=self._folder,
                env={**os.environ, "TB_GW_CONFIG_DIR": str(self._folder / "config"), "PYTHONPATH": ""},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def watch(self) -> Watch:
        """Its process.

        Raises:
            RuntimeError: it has ended.
        """
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the gateway has ended: {(self._folder / 'said').read_text()[-500:]}")
        return Watch(self._process.pid, self._folder / "counts")

    def _configure(self, folder: Path, broker_port: int, platform_port: int) -> None:
        [shipped] = CACHE.glob("lib/python3*/site-packages/thingsboard_gateway/config")
        shutil.copy(shipped / "logs.json", folder)
        whole = json.loads((shipped / "tb_gateway.json").read_text("utf-8"))
        link = whole["thingsboard"]
        link |= {"host": "127.0.0.1", "port": platform_port, "remoteConfiguration": False}
        link["security"] = {"type": "accessToken", "accessToken": "token"}
        link |= {name: "0:0," for name in link if "imits" in name}
        link["statistics"]["enable"] = False
        whole["storage"] = _STORAGE
        whole["connectors"] = [{"type": "mqtt", "name": "venue", "configuration": "mqtt.json"}]
        (folder / "tb_gateway.json").write_text(json.dumps(whole), "utf-8")
        (folder / "mqtt.json").write_text(json.dumps(_connector(broker_port)), "utf-8")


def _connector(port: int) -> dict[str, object]:
    name = {
        "deviceNameExpressionSource": "topic",
        "deviceNameExpression": "(?<=tele/)(.*?)(?=/data)",
        "deviceProfileExpressionSource": "constant",
        "deviceProfileExpression": "default",
    }
    fields = [{"type": kind, "key": key, "value": f"${{{key}}}"} for key, kind in _FIELDS]
    converter = {"type": "json", "deviceInfo": name, "timeout": 60000, "attributes": [], "timeseries": fields}
    return {
        "name": "venue",
        "logLevel": "ERROR",
        "broker": {
            "host": "127.0.0.1",
            "port": port,
            "clientId": "gateway",
            "version": 5,
            "maxMessageNumberPerWorker": 10,
            "maxNumberOfWorkers": 100,
            "cleanSession": False,
            "cleanStart": False,
            "sessionExpiryInterval": 86400,
            "security": {"type": "anonymous"},
        },
        "mapping": [{"topicFilter": "tele/+/data", "subscriptionQos": 1, "converter": converter}],
        "requestsMapping": {},
    }
