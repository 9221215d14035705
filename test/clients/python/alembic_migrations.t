#!/usr/bin/python3
# Alembic's migrations on an enforced table, and an autogenerate that leaves what pawl has made alone (docs/drivers.md).
import os
import subprocess
import tempfile

from tap import DATABASE, end, equal, ok, raised

PLACE = tempfile.mkdtemp()
ENV = '''
from alembic import context
from sqlalchemy import create_engine, text

config = context.config
target_metadata = config.attributes["metadata"]

engine = create_engine("postgresql+psycopg2:///%s?options=-csearch_path%%3Dalembic_migrations,public")
with engine.connect() as connection:
    own = {row[0] for row in connection.execute(text("select name from pawl.own_relations()"))}

    def include_object(object, name, type_, reflected, compare_to):
        return not (type_ in ("table", "index") and reflected and name in own)

    context.configure(connection=connection, target_metadata=target_metadata, include_object=include_object,
                      compare_type=True)
    with context.begin_transaction():
        context.run_migrations()
''' % DATABASE
VERSIONS = {
    "001_initial": (None, '''
    op.create_table("orders", sa.Column("id", sa.Integer, primary_key=True), sa.Column("state", sa.String(20),
        nullable=False, server_default="new"), sa.Column("owner", sa.Text))
    op.execute("""select pawl.define('alembic_order', 'stateDiagram-v2
        [*] --> new
        new --> paid : pay
        paid --> sent : send
        sent --> [*]
        class paid owned')""")
    op.execute("select pawl.enforce('orders', 'state', 'alembic_order'), pawl.enable_log('orders')")
    op.execute("select pawl.enable_queue('orders', owner => 'owner')")
    op.execute("select pawl.set_claiming('orders', claim => '{pay}')")
    '''),
    "002_enum": ("001_initial", '''
    sa.Enum("new", "paid", "sent", name="order_state").create(op.get_bind())
    op.alter_column("orders", "state", server_default=None)
    op.alter_column("orders", "state", type_=sa.Enum("new", "paid", "sent", name="order_state"),
                    postgresql_using="state::order_state")
    op.alter_column("orders", "state", server_default="new")
    op.alter_column("orders", "id", type_=sa.BigInteger)
    '''),
    "003_text": ("002_enum", '''
    op.alter_column("orders", "state", server_default=None)
    op.alter_column("orders", "state", type_=sa.Text, postgresql_using="state::text")
    op.alter_column("orders", "state", server_default="new")
    op.alter_column("orders", "state", new_column_name="phase")
    op.rename_table("orders", "purchases")
    '''),
    "004_other": ("003_text", '''
    op.alter_column("purchases", "phase", type_=sa.String(20), postgresql_using="upper(phase)")
    '''),
}
os.makedirs(os.path.join(PLACE, "versions"))
with open(os.path.join(PLACE, "env.py"), "w") as file:
    file.write(ENV)
with open(os.path.join(PLACE, "script.py.mako"), "w") as file:
    file.write("${upgrades}")
for name, (before, body) in VERSIONS.items():
    with open(os.path.join(PLACE, "versions", name + ".py"), "w") as file:
        file.write("import sqlalchemy as sa\nfrom alembic import op\nrevision = %r\ndown_revision = %r\n"
                   "branch_labels = depends_on = None\ndef upgrade():%s" % (name, before, body))

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

# SQLAlchemy asks for the schema when it first connects
subprocess.run(["psql", "-Xq", "-d", DATABASE, "-c", "drop schema if exists alembic_migrations cascade", "-c",
                "create schema alembic_migrations"], check=True)
engine = sa.create_engine("postgresql+psycopg2:///%s?options=-csearch_path%%3Dalembic_migrations,public" % DATABASE)
config = Config()
config.set_main_option("script_location", PLACE)
config.attributes["metadata"] = sa.MetaData()


def ask(statement):
    with engine.begin() as connection:
        result = connection.execute(sa.text(statement))
        return [tuple(row) for row in result] if result.returns_rows else None


def is_enforced(table, column, when):
    error = raised(sa.exc.DBAPIError, lambda: ask("update %s set %s = 'sent' where id = 2" % (table, column)),
                   when + ": an illegal state change is rejected")
    equal(error.orig.pgcode, "PW001", when + ": with its SQLSTATE")
    equal(ask("select problem, detail from pawl.verify('%s')" % table), [], when + ": rows and log agree")
    equal(ask("select check_name, detail from pawl.health() where relation = '%s'::regclass and status = 'error'"
              % table), [], when + ": health finds no fault")


command.upgrade(config, "001_initial")
ask("insert into orders select n from generate_series(1, 3) n")
is_enforced("orders", "state", "at first")
before = ask("select pawl.definition('orders')")

command.upgrade(config, "002_enum")
is_enforced("orders", "state", "text to enum, integer to bigint")
equal(ask("select pawl.definition('orders')"), before, "text to enum: the definition is what it was")
equal(ask("select id, state::text from pawl.claim(null::orders, processor => 'anna')"), [(1, "paid")],
      "text to enum: rows are claimed")

command.upgrade(config, "003_text")
is_enforced("purchases", "phase", "enum to text, renames")
equal(ask("select id, phase from pawl.claim(null::purchases, processor => 'anna')"), [(2, "paid")],
      "enum to text: rows are claimed")
equal(ask("select sort_key, to_state from pawl.history('purchases', 1) order by 1"),
      [(1, "new"), (2, "paid")], "the log has every state change")

error = raised(sa.exc.DBAPIError, lambda: command.upgrade(config, "004_other"), "other texts are rejected")
equal(error.orig.pgcode, "2BP01", "other texts: the SQLSTATE")
ok("pawl.definition" in error.orig.diag.message_hint, "other texts: the HINT", error.orig.diag.message_hint)

# what autogenerate would do to a database that is as the models say
metadata = sa.MetaData()
sa.Table("purchases", metadata, sa.Column("id", sa.BigInteger, primary_key=True),
         sa.Column("phase", sa.Text, nullable=False, server_default="new"), sa.Column("owner", sa.Text))
sa.Table("alembic_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True))
with engine.connect() as connection:
    own = {row[0] for row in connection.execute(sa.text("select name from pawl.own_relations()"))}
    plain = compare_metadata(MigrationContext.configure(connection), metadata)
    ok(any(change[0] in ("remove_table", "remove_index") for change in plain),
       "without the snippet autogenerate would drop what pawl has made", plain)
    context = MigrationContext.configure(connection, opts={
        "include_object": lambda object, name, type_, reflected, compare_to:
            not (type_ in ("table", "index") and reflected and name in own)})
    equal(compare_metadata(context, metadata), [], "with it autogenerate finds nothing to change")
end()
