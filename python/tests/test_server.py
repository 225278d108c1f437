"""A service, with the calls that a store has."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import unittest

from common import Case, evotune


class Service(Case):
    def serve(self) -> "evotune.Server":
        p = subprocess.Popen(
            [sys.executable, "-m", "evotune", "serve", "--listen", "127.0.0.1:0", "--token-file", "admin.token", "--store", "service.db"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def end() -> None:
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=60)
        self.addCleanup(end)
        assert p.stdout is not None
        said = ""
        for line in p.stdout:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+", said)
            if found and os.path.exists("admin.token"):
                with open("admin.token", encoding="utf-8") as f:
                    self.token = f.read().strip()
                self.url = found.group(0)
                return evotune.connect(self.url, self.token)
        self.fail(said)

    def test_a_campaign_in_a_service(self) -> None:
        server = self.serve()
        self.assertEqual(server.campaigns(), [])
        k = self.kernel()
        best = server.tune(k, evaluations=3)
        self.assertEqual((best.verdict, best.measured), ("correct", "finals"))
        self.assertEqual(len(best.candidates), 3)
        campaign = server.campaign(best.campaign.id)
        self.assertEqual(campaign.best.id, best.id)
        self.assertIn("progress", campaign.plot())
        self.assertEqual(best.lineage()["candidate"], best.id)
        self.assertEqual(best.verify(tolerance=10)["again"]["verdict"], "correct")
        if best.significant:
            self.assertTrue((best.export("library") / "manifest.json").exists())
        self.write("bad.c", "void run_silumul(int64_t T, int64_t D, const float *x, float *o) { for (int64_t i = 0; i < T*D; i++) o[i] = x[i]; }\n")
        self.assertEqual(best.judge("bad.c")["verdict"], "parity")
        with self.refused("test_server.py:", "evidence() reads a store"):
            best.evidence("evidence")

    def test_who_is_refused(self) -> None:
        self.serve()
        with self.refused("test_server.py:"):
            evotune.connect(self.url, "wrong")
        with self.refused("test_server.py:"):
            evotune.connect("http://127.0.0.1:1", self.token)


if __name__ == "__main__":
    unittest.main()
