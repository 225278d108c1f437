"""A service that ``tune serve`` runs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import _tune
from ._tune import Error

if TYPE_CHECKING:
    from ._campaign import Best, Campaign
    from ._kernel import Kernel


class Server:
    """A service; see :func:`connect`. Campaigns there have the methods of those here."""

    def __init__(self, url: str, token: Optional[str] = None):
        self.url = url.rstrip("/")
        self._token = token
        self.campaigns()

    def __repr__(self) -> str:
        return f"evotune.connect({self.url!r})"

    @property
    def where(self) -> List[str]:
        return ["--server", self.url]

    @property
    def env(self) -> Dict[str, str]:
        return {"EVOTUNE_TOKEN": self._token} if self._token else {}

    def campaigns(self) -> "List[Dict[str, Any]]":
        """All campaigns of the service, as ``tune list --json`` prints them."""
        found: List[Dict[str, Any]] = _tune.ask(["list", *self.where], env=self.env)
        return found

    def campaign(self, id: str) -> Campaign:
        """A campaign by its name, or by a beginning of it."""
        from ._campaign import Campaign
        return Campaign(id, server=self)

    def tune(self, kernel: Kernel, time: Optional[str] = None, **settings: Any) -> Best:
        """:meth:`Kernel.tune` on the service's machine: the kernel is uploaded first."""
        return kernel.tune(time, server=self, **settings)

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """A request to the HTTP API, for what no command of tune asks a service."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        ask = urllib.request.Request(f"{self.url}/v1{path}", None if body is None else json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(ask, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as err:
            try:
                problem = json.loads(err.read())
                message = problem.get("detail") or problem.get("title")
            except ValueError:
                message = err.reason
            raise Error(f"{self.url}: {message}") from None
        except OSError as err:
            raise Error(f"{self.url} does not answer: {getattr(err, 'reason', err)}") from None
        return json.loads(text) if text else None

    def operation(self, path: str, body: Dict[str, Any]) -> Any:
        """A slow action: asks for it, waits until it ends, and gives its result."""
        asked = self.request("POST", path, body)
        while True:
            now = self.request("GET", f"/operations/{asked['id']}")
            if now["state"] == "finished":
                return now.get("result")
            if now["state"] in ("failed", "cancelled"):
                raise Error(f"{self.url}: {now.get('error') or now['state']}")
            time.sleep(0.5)


def connect(url: str, token: Optional[str] = None) -> Server:
    """Connects to a service at ``url``. Without ``token`` it is that of ``EVOTUNE_TOKEN``."""
    return Server(url, token)
