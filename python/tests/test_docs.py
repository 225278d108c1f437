"""The examples of the documentation and the notebooks, run as a reader would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from common import Case, have

# The source tree; the tests themselves run from elsewhere.
ROOT = Path(os.environ.get("NOTEBOOKS") or Path(__file__).resolve().parents[2])


@unittest.skipUnless((ROOT / "docs").is_dir(), "not in a source tree")
@unittest.skipUnless(have("torch"), "no PyTorch")
class Examples(Case):
    def test_the_page(self) -> None:
        page = (ROOT / "docs" / "python.md").read_text()
        files = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, re.S)
        self.assertEqual([name for name, _ in files], ["silumul.c", "silumul.py"])
        for name, text in files:
            # The operator is built in test_example.py and in a notebook, and takes long.
            self.write(name, text.replace('"20s"', '"5s"').split("op = ")[0])
        readme = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S))
        Path("examples/python").mkdir(parents=True)
        self.write("examples/python/silumul.c", (ROOT / "examples" / "python" / "silumul.c").read_text())
        self.write("readme.py", readme["readme.py"].replace('"20s"', '"5s"').split("op = ")[0] + "print(best)\n")
        for name in ("silumul.py", "readme.py"):
            with self.subTest(name):
                self.run_example(name)

    def run_example(self, name: str) -> None:
        done = subprocess.run([sys.executable, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"BLOCK=\d+")

    @unittest.skipUnless(have("nbclient") and have("ipykernel"), "no nbclient")
    def test_the_notebooks(self) -> None:
        import nbformat
        from nbclient import NotebookClient
        # A kernel of this Python, for the usual one may be another's.
        spec = Path(self.folder, "jupyter", "kernels", "evotune")
        spec.mkdir(parents=True)
        (spec / "kernel.json").write_text(json.dumps(dict(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], display_name="evotune", language="python")))
        os.environ["JUPYTER_PATH"] = str(spec.parents[1])
        self.addCleanup(os.environ.pop, "JUPYTER_PATH")
        found = sorted((ROOT / "examples" / "python").glob("*.ipynb"))
        self.assertGreaterEqual(len(found), 2)
        for path in found:
            with self.subTest(path.name):
                for cell in json.loads(path.read_text())["cells"]:
                    self.assertFalse(cell.get("outputs"), "a notebook is kept without its outputs")
                notebook = nbformat.read(path, as_version=4)
                client = NotebookClient(notebook, timeout=300, kernel_name="evotune", resources={"metadata": {"path": self.folder}})
                client.execute()
                shown = json.dumps(notebook.cells)
                self.assertIn("text/html", shown)
                if path.name == "silumul.ipynb":
                    self.assertIn("data:image/svg+xml", shown)
                    self.assertIn("finished |", shown)  # the bar


if __name__ == "__main__":
    unittest.main()
