#!/usr/bin/python3
"""What packagers read is well formed: META.json for PGXN, and debian/, whose lists name all that is installed. The menu
of the site has every page of docs/."""

import copy
import fnmatch
import importlib.machinery
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import jsonschema

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
os.chdir(TOP)
count = 0


def ok(good: bool, what: str, *notes: object) -> None:
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)
    if not good:
        for note in notes:
            print("\n".join("# " + line for line in str(note).splitlines()), flush=True)


def is_equal(got: object, wanted: object, what: str) -> None:
    ok(got == wanted, what, f"got: {got}", f"wanted: {wanted}")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files_below(folder: str) -> list:
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if not path.is_dir())


def in_control(extension: str) -> str:
    text = pathlib.Path(f"extension/{extension}.control").read_text()
    return re.search(r"^default_version = '(.*)'", text, re.M)[1]


# META.json
schema = json.loads(pathlib.Path("test/repository/pgxn-meta.schema.json").read_text())
meta = json.loads(pathlib.Path("META.json").read_text())


def problems(document: dict) -> list:
    return [f"{list(e.absolute_path)}: {e.message}" for e in jsonschema.Draft7Validator(schema).iter_errors(document)]


is_equal(problems(meta), [], "META.json is what PGXN's specification asks for")
DAMAGES = {
    "a required field is missing": lambda m: m.pop("maintainer"),
    "a version has two numbers": lambda m: m.update(version="0.1"),
    "an unknown license": lambda m: m.update(license="PostgreSQL"),
    "an unknown field": lambda m: m.update(author="x"),
    "an extension without a file": lambda m: m["provides"]["pawl"].pop("file"),
    "a tag with a slash": lambda m: m["tags"].append("a/b"),
    "an unknown phase": lambda m: m["prereqs"].update(install={}),
    "a prerequisite without three numbers": lambda m: m["prereqs"]["runtime"]["requires"].update(PostgreSQL="15"),
    "another specification": lambda m: m["meta-spec"].update(version="2.0.0"),
}
for what, damage in DAMAGES.items():
    damaged = copy.deepcopy(meta)
    damage(damaged)
    ok(problems(damaged) != [], f"a META.json is rejected: {what}")
for extension, provided in meta["provides"].items():
    is_equal(provided["version"], in_control(extension), f"{extension} has the version of its control file")
    missing = [provided[key] for key in ("file", "docfile") if not pathlib.Path(provided[key]).is_file()]
    is_equal(missing, [], f"the files that META.json names for {extension} exist")
controls = {path.stem for path in pathlib.Path("extension").glob("*.control")}
is_equal(set(meta["provides"]), controls, "META.json lists every extension")

# debian/
if shutil.which("dpkg-parsechangelog"):
    version = output("dpkg-parsechangelog", "-S", "Version")
else:
    version = re.match(r"pawl \((.*?)\)", pathlib.Path("debian/changelog").read_text())[1]
is_equal(version.split("-")[0], in_control("pawl"), "debian/changelog has the version of the extension")
control, template = (pathlib.Path(f"debian/{name}").read_text() for name in ("control", "control.in"))
is_equal(control, template.replace("PGVERSION", "15"), "debian/control is what debian/control.in gives for Debian 12")
packages = re.findall(r"^Package: (\S+)$", control, re.M)
is_equal(packages, ["postgresql-15-pawl", "pawl", "pawld", "libpawl-dev", "python3-pawl"], "there are five packages")
for suffix in ("install", "docs", "examples", "manpages"):
    strangers = [path.name for path in pathlib.Path("debian").glob(f"*.{suffix}") if path.stem not in packages]
    is_equal(strangers, [], f"each list of {suffix} is that of a package")
named = [line for path in pathlib.Path("debian").glob("*.*") if path.suffix in (".docs", ".examples")
         for line in path.read_text().split()]
is_equal([name for name in named if not pathlib.Path(name).exists()], [], "documents and examples in the lists exist")
installer = pathlib.Path("scripts/install-packages").read_text()
needed = set(re.search(r"^programs=\((.*?)\)", installer, re.M | re.S)[1].split())
depends = set(re.findall(r"^(?:Build-Depends:|  +) *([\w+.-]+)", control.split("\n\n")[0], re.M))
is_equal(sorted(needed - depends), [], "debian/control names the packages that the programs are built with")

# The lists against what is installed.
with tempfile.TemporaryDirectory() as there:
    subprocess.run(["make", "-s", "install", f"DESTDIR={there}"], check=True, stdout=subprocess.DEVNULL,
                   env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")})
    pg_config = os.environ.get("PG_CONFIG") or output("make", "-s", "--eval", "x:;@echo $(PG_CONFIG)", "x").strip()
    library = output(pg_config, "--pkglibdir").strip().lstrip("/")
    share = output(pg_config, "--sharedir").strip().lstrip("/")
    wanted = {f"{library}/pawl.so"}
    for extension in controls:
        wanted |= {f"{share}/extension/{extension}.control",
                   f"{share}/extension/{extension}--{in_control(extension)}.sql"}
    found = {name for name in files_below(there) if not re.search(r"--.*--", name)}
    is_equal(found, wanted, "make install DESTDIR= installs the module and a script for each extension, and no more")

menu = importlib.machinery.SourceFileLoader("build_docs", "scripts/build-docs").load_module().pages()
is_equal(sorted({str(page) for page in pathlib.Path("docs").rglob("*.md")}.difference(*menu.values())), [],
         "every page of docs/ is in the menu of the site")

if not pathlib.Path("build/programs/client/pawld").exists():
    print("# the programs are not built: make programs")
else:
    with tempfile.TemporaryDirectory() as there:
        subprocess.run(["cmake", "--install", "build/programs", "--prefix", "/usr"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "DESTDIR": there})
        found = files_below(there)
    # Made by debian/rules.
    found += ["etc/pawl/pawld.toml", "usr/share/bash-completion/completions/pawl"]
    lists = {path.stem: path.read_text().split() for path in pathlib.Path("debian").glob("*.install")}
    lists["none"] = pathlib.Path("debian/not-installed").read_text().split()

    def takes(pattern: str, name: str) -> bool:
        # outside of Debian's build, libraries are not in a folder of the architecture
        pattern = pattern.replace("usr/lib/*/", "usr/lib*/")
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + "/*")

    takers = {name: [package for package, patterns in lists.items() if any(takes(each, name) for each in patterns)]
              for name in found}
    is_equal({name: taken for name, taken in takers.items() if len(taken) != 1}, {},
             "each installed file is in the list of one package")
    useless = [pattern for package, patterns in lists.items() if package != "none" for pattern in patterns
               if not any(takes(pattern, name) for name in found)]
    is_equal(useless, [], "each line of the lists takes a file")
    for program in ("pawl", "pawld"):
        page = output("scripts/man-page", f"build/programs/client/{program}")
        ok(page.startswith(f".TH {program.upper()} 1") and ".SH OPTIONS" in page, f"{program} has a manual page", page)
print(f"1..{count}")
