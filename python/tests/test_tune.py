"""Campaigns on this machine's CPU, from a source to a winner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest

from common import FAST, SOURCE, Case, evotune, have
from evotune._campaign import Candidate
from evotune._progress import Progress

SLOW = """
import evotune
k = evotune.Kernel("silumul", source=open("k.c").read(), reference="reference.c", inputs=dict(x=evotune.tensor("T", "2*D")), outputs=dict(o=evotune.tensor("T", "D")),
                   genes=dict(BLOCK=list(range(1, 200))), shapes=dict(small=dict(T=64, D=512), odd=dict(T=37, D=203, verify=True)), quiet=True)
print("made", flush=True)
best = k.tune(time="10m", progress=True)
print("kept", best.measured, best.verdict, flush=True)
print("state", best.campaign.summary["state"], flush=True)
"""


class Campaigns(Case):
    def test_from_a_source_to_a_winner(self) -> None:
        k = self.kernel()
        best = k.tune(evaluations=3)
        self.assertEqual((best.verdict, best.measured), ("correct", "finals"))
        self.assertIn(best.genome["BLOCK"], [1, 8, 64])
        self.assertGreater(best.speedup or 0, 0.5)
        self.assertIn(f"BLOCK={best.genome['BLOCK']}", str(best))

        with self.subTest("candidates"):
            all = best.candidates
            self.assertEqual(len(all), 3)
            if have("pandas"):
                self.assertEqual(sorted(all["BLOCK"]), [1, 8, 64])
                self.assertEqual(set(all["verdict"]), {"correct"})
            else:
                self.assertEqual(sorted(row["BLOCK"] for row in all), [1, 8, 64])
            self.assertIn("<table", all._repr_html_())
        with self.subTest("the campaign"):
            assert k.campaign is not None
            self.assertEqual(k.campaign.best.id, best.id)
            self.assertEqual(k.campaign.summary["evaluated"], 3)
            self.assertIn(k.campaign.id, k.campaign._repr_html_())
            self.assertEqual(k.campaign.candidate(best.id).genome, best.genome)
            with self.refused("test_tune.py:", "has no candidate 123"):
                k.campaign.candidate("123")
        with self.subTest("lineage"):
            self.assertEqual(best.lineage()["candidate"], best.id)
        with self.subTest("figures"):
            figures = best.plot()
            self.assertIn("progress", figures)
            self.assertTrue(all_svg(figures.values()))
            figures.save("figures")
            self.assertTrue(os.path.exists("figures/progress.svg"))
        with self.subTest("verify"):
            again = best.verify(tolerance=10)
            self.assertEqual(again["again"]["verdict"], "correct")
        with self.subTest("evidence"):
            text = (best.evidence("evidence") / "README.md").read_text()
            self.assertIn("compute floor small: the definition does not say how many operations a launch takes", text)
        with self.subTest("export"):
            if best.significant:
                self.assertTrue((best.export("library") / "manifest.json").exists())
        with self.subTest("a campaign goes on"):
            more = k.resume(evaluations=4)
            self.assertEqual(more.campaign.id, best.campaign.id)

    def test_ctrl_c_keeps_what_there_is(self) -> None:
        self.write("k.c", SOURCE)
        self.write("slow.py", SLOW)
        p = subprocess.Popen([sys.executable, "slow.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert p.stdout is not None and p.stderr is not None
        self.assertEqual(p.stdout.readline(), "made\n")
        shown = ""
        while "best" not in shown:  # until the bar tells of a correct candidate
            c = p.stderr.read(1)
            self.assertTrue(c, shown)
            shown += c
        os.killpg(p.pid, signal.SIGINT)  # as a terminal does: to Python, and not to tune
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (0, "kept search correct\nstate stopped\n"), err)
        self.assertIn("ending after what is in flight", err)

    def test_a_kernel_that_is_wrong(self) -> None:
        k = evotune.Kernel(**self.arguments(source=SOURCE.replace("d + BLOCK <= D", "d + 2 <= D + 2 && 0").replace("d < D; d++", "d < D - (BLOCK > 1); d++"), genes=dict(BLOCK=[8, 64])))
        with self.refused("test_tune.py:", "baseline"):
            k.tune(evaluations=2)

    def test_only_wrong_candidates(self) -> None:
        source = SOURCE.replace("for (; d < D; d++)", "for (; d < D - (WRONG > 0); d++)")
        k = self.kernel(source=source, genes=dict(BLOCK=[8], WRONG=[0, 1]))
        best = k.tune(evaluations=2)
        self.assertEqual(best.genome["WRONG"], 0)
        verdicts = {c["verdict"]: c["WRONG"] for c in rows(best.candidates)}
        self.assertEqual(verdicts, {"correct": 0, "parity": 1})

    def test_a_file_is_judged(self) -> None:
        k = self.kernel()
        name = "run_silumul"
        self.write("good.c", "#define BLOCK 8\n" + SOURCE.replace("void silumul", "static void silumul") + f"void {name}(int64_t T, int64_t D, const float *x, float *o) {{ silumul(x, o, T, D); }}\n")
        self.write("bad.c", f"void {name}(int64_t T, int64_t D, const float *x, float *o) {{ for (int64_t i = 0; i < T*D; i++) o[i] = x[i]; }}\n")
        self.assertEqual(k.judge("good.c", flags=" ".join(FAST)).get("verdict"), "correct")
        bad = k.judge("bad.c")
        self.assertEqual(bad["verdict"], "parity")
        self.assertIn("parity", repr(bad))
        with self.refused("test_tune.py:", "nowhere.c"):
            k.judge("nowhere.c")

    def test_what_tune_refuses(self) -> None:
        with self.refused("test_tune.py:", "time"):
            self.kernel().tune(time="soon")
        with self.refused("test_tune.py:", "unknown flag: --colour"):
            self.kernel().tune(colour="red")
        with self.refused("test_tune.py:", 'unknown shape "huge"'):
            self.kernel().tune(shape="huge")

    def test_the_store_is_ours_or_given(self) -> None:
        k = self.kernel()
        k.tune(evaluations=1, finalists=0, store="mine.db")
        self.assertTrue(os.path.exists("mine.db"))
        self.assertRegex(str(k.store), "/evotune/silumul-[0-9a-f]+.db$")
        self.assertNotEqual(k.store, self.kernel(genes=dict(BLOCK=[2, 4])).store)


class Bars(unittest.TestCase):
    def test_a_winner_may_not_be_proven(self) -> None:
        row = {"candidate": "c", "genome": {"X": 1}, "verdict": "correct", "speedup": 2.0, "median_ns": 1e3, "baseline_ns": 2e3, "measured": "finals", "significant": True}
        for unproven, told in ("", "significant"), ("not proven: this", "not proven: this"):
            self.assertIn(f"2.000x ({told})", str(Candidate._of(None, {**row, "unproven": unproven})))  # type: ignore[arg-type]

    def test_a_bar_tells_what_preparation_does(self) -> None:
        p = Progress("silu", show=False)
        p.event({"event": "state", "state": "preparing", "progress": {"preparing": {"step": "reference at shape T=8, on the CPU", "since_ns": 41e9}}})
        self.assertRegex(p.text(), r"^silu: preparing \| reference at shape T=8, on the CPU: 4[12] s so far$")
        p.event({"event": "started", "campaign": "silu-1"})
        self.assertRegex(p.text(), r"^silu: searching \| 0 evaluated in \d+ s$")

    def test_a_bar_tells_what_is_known(self) -> None:
        p = Progress("silu", show=False)
        p.event({"event": "started", "campaign": "silu-1", "config": {"budget": {"evaluations": 4}}, "space_size": 12.0, "space_exact": True})
        p.event({"event": "evaluated", "verdict": "correct", "fitness": 0.5})
        p.event({"event": "evaluated", "verdict": "parity"})
        self.assertEqual(p.fraction, 0.5)
        self.assertRegex(p.text(), r"^silu: searching \| 2 evaluated in \d+ s \| 1 parity \| best ~ 2x$")
        p.event({"event": "finished", "best": {"speedup": 1.9, "significant": True}})
        self.assertIn("best 1.9x", p.text())
        p.event({"event": "finished", "sanitized": "all", "best": {"speedup": 1.9, "significant": True, "measured": "finals", "unproven": "not proven: this"}})
        self.assertIn("best ~ 1.9x", p.text())
        p.event({"event": "finished", "sanitized": "all", "best": {"speedup": 0.8, "significant": False, "measured": "search"}})
        self.assertIn("best ~ 0.8x", p.text())
        p.event({"event": "finished", "sanitized": "all", "best": {"speedup": 0.8, "significant": False, "measured": "finals"}})
        self.assertIn("| nothing faster was found: 2 of 12 genomes tried; use the baseline", p.text())
        self.assertEqual(p.fraction, 1.0)


def rows(table: object) -> "list[dict[str, object]]":
    return table.to_dict("records") if hasattr(table, "to_dict") else list(table)  # type: ignore[attr-defined,call-overload]


def all_svg(texts: object) -> bool:
    return all("<svg" in t for t in texts)  # type: ignore[attr-defined]


if __name__ == "__main__":
    unittest.main()
