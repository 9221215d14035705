#!/usr/bin/python3
"""The site of `make docs`: it builds without a warning, its links and anchors lead somewhere, its search finds, and its
first page has every language."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
os.chdir(TOP)
sys.dont_write_bytecode = True
builder = SourceFileLoader("build_docs", "scripts/build-docs").load_module()
count = 0


def ok(good: bool, what: str, notes: str = "") -> None:
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)
    if not good:
        print("\n".join("# " + line for line in notes.splitlines()), flush=True)


environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
made = subprocess.run(["make", "-s", "docs"], capture_output=True, text=True, env=environment)
ok(made.returncode == 0, "make docs builds the site, and finds no broken link", made.stdout + made.stderr)
site = TOP / "build/docs"
first = (site / "index.html").read_text()
for heading in ("Install", "SQL: an illegal change is rejected", "C++", "Python", "TypeScript"):
    ok(re.search(rf"<h2>{re.escape(heading)}<", first) is not None, f"the first page has a section {heading}")
left_out = [page.name for page in TOP.glob("docs/**/*.md")
            if not (site / builder.name_of(str(page.relative_to(TOP)))).with_suffix(".html").exists()]
ok(left_out == [], "every page of docs/ is on the site", str(left_out))
foreign = {link for page in site.rglob("*.html")
           for link in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())}
ok(foreign == set(), "no page loads anything from another machine", str(foreign))

# The checker finds what is broken.
with tempfile.TemporaryDirectory() as there:
    copy = pathlib.Path(there) / "site"
    shutil.copytree(site, copy)
    page = copy / "guide.html"
    links = "".join(f'<a href="{to}">x</a>' for to in ("nowhere.html", "reference.html#nothing", "reference.html"))
    page.write_text(page.read_text().replace("</article>", f"{links}</article>", 1))
    ok(builder.broken_links(copy) == ["guide.html: nowhere.html: no such page",
                                      "guide.html: reference.html#nothing: no such anchor"],
       "a link to a missing page and one to a missing anchor are found", "\n".join(builder.broken_links(copy)))

browser = shutil.which("chromium")
if browser:
    with tempfile.TemporaryDirectory() as profile:
        def dom(address: str) -> str:
            return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                   "--virtual-time-budget=10000", "--dump-dom", address],
                                  capture_output=True, text=True, timeout=120).stdout

        ok('class="no-js"' not in dom((site / "index.html").as_uri()), "the theme's script runs")
        found = dom(f"{(site / 'search.html').as_uri()}?q=fencing")
        ok('href="reference.html' in re.sub(r".*id=\"search-results\"", "", found, flags=re.S),
           "the search finds a page by a word", found[-2000:])
        found = dom(f"{(site / 'search.html').as_uri()}?q=xyzzyplugh")
        ok("did not match any documents" in found, "and nothing for a word that no page has", found[-2000:])
else:
    print("# no browser: the search is not tried")
print(f"1..{count}")
