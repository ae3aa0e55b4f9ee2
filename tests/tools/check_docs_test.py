#!/usr/bin/env python3
"""The docs point only to pages and functions that exist, and docs/errors.md lists every code of src/base/result.h."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")


class Docs(unittest.TestCase):
    def pages(self):
        return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

    def test_links_lead_somewhere(self):
        for page in self.pages():
            for target in LINK.findall(page.read_text(encoding="utf-8")):
                if "://" not in target:
                    with self.subTest(page=page.name, target=target):
                        self.assertTrue((page.parent / target).exists())

    def test_every_error_code_is_documented(self):
        header = (ROOT / "src/base/result.h").read_text(encoding="utf-8")
        names = (ROOT / "src/base/result.cc").read_text(encoding="utf-8")
        codes = re.findall(r"^  (k\w+),", header, re.MULTILINE)
        spelled = dict(re.findall(r'Code::(k\w+):\s*return "([\w-]+)"', names))
        table = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
        self.assertGreaterEqual(len(codes), 10)
        for code in codes:
            with self.subTest(code):
                self.assertIn(f"| `{code}` | {spelled[code]} |", table)

    def test_the_trace_of_a_token_names_functions_that_exist(self):
        page = (ROOT / "docs/trace-of-a-token.md").read_text(encoding="utf-8")
        places = re.findall(r"`(src/[\w/.]+):(\w+)`", page)
        self.assertGreaterEqual(len(places), 20)
        for path, function in places:
            with self.subTest(path=path, function=function):
                code = (ROOT / path).read_text(encoding="utf-8")
                self.assertRegex(code, rf"\b{function}\(")


if __name__ == "__main__":
    unittest.main()
