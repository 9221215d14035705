#!/usr/bin/python3
# Django's migrations on an enforced table: fields that get another type, renames, and the database of its tests.
import os
import sys
import tempfile

import django
from django.conf import settings

from tap import DATABASE, end, equal, ok, raised, sqlstate

PLACE = tempfile.mkdtemp()
FILES = {
    "shop/__init__.py": "",
    "shop/models.py": "",
    "shop/migrations/__init__.py": "",
    "shop/migrations/0001_initial.py": """
from django.db import migrations, models
class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel("Order", [
            ("id", models.AutoField(primary_key=True)),
            ("state", models.CharField(max_length=20, default="new")),
            ("note", models.TextField(default=""))]),
        migrations.RunSQL('''
            select pawl.define('django_order', 'stateDiagram-v2
                [*] --> new
                new --> paid : pay
                paid --> sent : send
                sent --> [*]');
            select pawl.enforce('shop_order', 'state', 'django_order', on_delete => 'terminal',
                                errors => 'check_violation'),
                   pawl.enable_log('shop_order', hash_chain => true)''', "select pawl.release('shop_order')"),
    ]
""",
    "shop/migrations/0002_types.py": """
from django.db import migrations, models
class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AlterField("Order", "state", models.CharField(max_length=30, default="new")),
        migrations.AlterField("Order", "state", models.TextField(default="new")),
        migrations.AlterField("Order", "state", models.CharField(max_length=12, default="new", db_index=True)),
        migrations.AlterField("Order", "id", models.BigAutoField(primary_key=True)),
    ]
""",
    "shop/migrations/0003_names.py": """
from django.db import migrations, models
class Migration(migrations.Migration):
    dependencies = [("shop", "0002_types")]
    operations = [
        migrations.RenameField("Order", "state", "phase"),
        migrations.RenameField("Order", "id", "number"),
        migrations.AlterModelTable("Order", "purchases"),
    ]
""",
    "shop/migrations/0004_other.py": """
from django.db import migrations
class Migration(migrations.Migration):
    dependencies = [("shop", "0003_names")]
    operations = [migrations.RunSQL("alter table purchases alter column phase type text using upper(phase)")]
""",
}
for name, text in FILES.items():
    os.makedirs(os.path.dirname(os.path.join(PLACE, name)), exist_ok=True)
    with open(os.path.join(PLACE, name), "w") as file:
        file.write(text)
sys.path.insert(0, PLACE)
settings.configure(INSTALLED_APPS=["shop"], DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=True, DATABASES={
    "default": {"ENGINE": "django.db.backends.postgresql", "NAME": DATABASE,
                "OPTIONS": {"options": "-c search_path=django_migrations,public"},
                "TEST": {"NAME": "pawl_clients_django"}}})
django.setup()
from django.core.management import call_command
from django.db import DataError, IntegrityError, InternalError, ProgrammingError, connection, transaction


def ask(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else None


def migrate(name):
    call_command("migrate", "shop", name, verbosity=0)


def is_enforced(table, column, key, when):
    def jump():
        with transaction.atomic():
            ask("update %s set %s = 'sent' where %s = 2" % (table, column, key))

    raised(IntegrityError, jump, when + ": an illegal state change is rejected")
    raised(IntegrityError, lambda: ask("delete from %s where %s = 1" % (table, key)), when + ": the policies stay")
    equal(ask("select problem, detail from pawl.verify(%s)", table), [], when + ": rows and log agree")


ask("drop schema if exists django_migrations cascade")
ask("create schema django_migrations")
migrate("0001")
ask("insert into shop_order (state, note) values ('new', ''), ('new', '')")
ask("update shop_order set state = 'paid' where id = 1")
is_enforced("shop_order", "state", "id", "at first")
before = ask("select pawl.definition('shop_order')")

migrate("0002")
is_enforced("shop_order", "state", "id", "AlterField")
equal(ask("select format_type(a.atttypid, a.atttypmod) from pg_attribute a where attrelid = 'shop_order'::regclass "
          "and attname in ('id', 'state') order by 1"), [("bigint",), ("character varying(12)",)],
      "AlterField: the columns have the new types")
equal(ask("select pawl.definition('shop_order')"), before, "AlterField: the definition is what it was")
equal(ask("select count(*), pg_typeof(min(subject_id))::text from shop_order_transitions"), [(3, "bigint")],
      "AlterField: the log has the new type of the key, and its entries")
ask("update shop_order set state = 'paid' where id = 2")
ask("insert into shop_order (id, state, note) values (3000000000, 'new', '')")
equal(ask("select sort_key, to_state from pawl.history('shop_order', 2) order by 1"), [(1, "new"), (2, "paid")],
      "AlterField: the log goes on")

migrate("0003")
ask("update purchases set phase = 'sent' where number = 1")
ask("insert into purchases (number, phase, note) values (4, 'new', '')")
raised(IntegrityError, lambda: ask("update purchases set phase = 'sent' where number = 4"),
       "renames: an illegal state change is rejected")
equal(ask("select sort_key, to_state from pawl.history('purchases', 1) order by 1"),
      [(1, "new"), (2, "paid"), (3, "sent")], "renames: the log goes on")
equal(ask("select problem from pawl.verify('purchases')"), [], "renames: rows and log agree")

error = raised((DataError, InternalError, ProgrammingError, IntegrityError), lambda: migrate("0004"),
               "other texts are rejected")
equal(sqlstate(error.__cause__), "2BP01", "other texts: the SQLSTATE")
ok("pawl.definition" in (error.__cause__.diag.message_hint or ""), "other texts: the HINT",
   error.__cause__.diag.message_hint)

# the database of the tests is made by the migrations again
with connection.cursor() as cursor:
    cursor.execute("select 1")
settings.DATABASES["default"]["OPTIONS"] = {}
connection.settings_dict["OPTIONS"] = {"options": "-c search_path=public"}
os.unlink(os.path.join(PLACE, "shop/migrations/0004_other.py"))
for name in list(sys.modules):
    if name.startswith("shop.migrations"):
        del sys.modules[name]
with open(os.path.join(PLACE, "shop/migrations/0000_extension.py"), "w") as file:
    file.write("from django.db import migrations\nclass Migration(migrations.Migration):\n"
               "    run_before = [('shop', '0001_initial')]\n"
               "    operations = [migrations.RunSQL('create extension pawl', migrations.RunSQL.noop)]\n")
old = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
ask("insert into purchases (phase, note) values ('new', '')")
raised(IntegrityError, lambda: ask("update purchases set phase = 'sent'"), "Django's test database is enforced")
equal(
      ask("select count(*) from pawl.history('purchases', 1)"), [(1,)], "Django's test database has the log")
connection.creation.destroy_test_db(DATABASE, verbosity=0)
end()
