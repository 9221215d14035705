#!/usr/bin/python3
# What pawl sql prints for Django and Alembic, run by Django and Alembic: afterwards pawl plan has nothing to do.
import os
import subprocess
import sys
import tempfile

import django
from django.conf import settings

from tap import DATABASE, HERE, end, equal, ok

PAWL = os.path.join(HERE, "..", "..", "..", "build", "programs", "client", "pawl")
DIAGRAM = """---
title: "Orders: 100 %% of them"
pawl:
  machine: %(tool)s_files_order
  %(remap)s
  tables:
    - table: %(tool)s_files.orders
      column: state
      log: {keep: 1 year}
---
stateDiagram-v2
    [*] --> cart
    cart --> %(paid)s :pay
    %(paid)s --> sent : send
    sent : it's "sent" at 5:30 \\\\ with %%s and %%(name)s
    sent --> [*]
"""


def psql(statement):
    return subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", DATABASE, "-c", statement],
                          check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def pawl(*arguments):
    return subprocess.run([PAWL, "--database", "dbname=" + DATABASE, *arguments], stdout=subprocess.PIPE, text=True)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def migrated(tool, folder, path, run, after):
    """Prints migrations for a new table, then for a state that goes, and has the tool run each."""
    psql("drop schema if exists %s_files cascade; create schema %s_files" % (tool, tool))
    psql("create table %s_files.orders (id integer primary key, state text not null)" % tool)
    psql("insert into %s_files.orders values (1, 'cart'), (2, 'paid')" % tool)
    files = os.path.join(folder, "lifecycles")
    for number, (paid, remap) in enumerate([("paid", ""), ("billed", "remap: {paid: billed}")], 1):
        write(os.path.join(files, "order.mmd"), DIAGRAM % {"tool": tool, "paid": paid, "remap": remap})
        printed = pawl("sql", files, "--format", tool, *(["--after", after(number)] if after(number) else []))
        equal(printed.returncode, 0, "%s: migration %d is printed" % (tool, number))
        write(path(number), printed.stdout)
        run()
        equal(pawl("plan", "--exit-code", files).returncode, 0,
              "%s: after migration %d nothing is left" % (tool, number))
    equal(psql("select string_agg(state, ' ' order by id) from %s_files.orders" % tool), "cart billed",
          tool + ": the rows are in the new state")
    diagram = psql("select pawl.diagram('%s_files_order')" % tool).replace("\\\\", "\\")
    ok("it's \"sent\" at 5:30 \\ with %s and %(name)s" in diagram, tool + ": the text of the diagram arrives as it is")


def by_django(folder):
    write(os.path.join(folder, "shop_of_files", "__init__.py"), "")
    write(os.path.join(folder, "shop_of_files", "migrations", "__init__.py"), "")
    sys.path.insert(0, folder)
    settings.configure(INSTALLED_APPS=["shop_of_files"], USE_TZ=True, DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": DATABASE,
        "OPTIONS": {"options": "-c search_path=django_files,public"}}})
    django.setup()
    from django.core.management import call_command
    migrated("django", folder, lambda n: os.path.join(folder, "shop_of_files", "migrations", "%04d_lifecycles.py" % n),
             lambda: call_command("migrate", verbosity=0),
             lambda n: "shop_of_files.%04d_lifecycles" % (n - 1) if n > 1 else None)


def by_alembic(folder):
    from alembic import command
    from alembic.config import Config
    write(os.path.join(folder, "alembic", "env.py"), """
from alembic import context
from sqlalchemy import create_engine, pool
with create_engine("postgresql+psycopg2:///%s", poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection, version_table_schema="alembic_files")
    with context.begin_transaction():
        context.run_migrations()
""" % DATABASE)
    os.makedirs(os.path.join(folder, "alembic", "versions"))
    config = Config()
    config.set_main_option("script_location", os.path.join(folder, "alembic"))

    def revision(number):
        with open(os.path.join(folder, "alembic", "versions", "%d.py" % number), encoding="utf-8") as file:
            return file.read().split('revision = "')[1].split('"')[0]

    migrated("alembic", folder, lambda n: os.path.join(folder, "alembic", "versions", "%d.py" % n),
             lambda: command.upgrade(config, "head"), lambda n: revision(n - 1) if n > 1 else None)


for each in by_django, by_alembic:
    with tempfile.TemporaryDirectory() as temporary:
        each(temporary)
end()
