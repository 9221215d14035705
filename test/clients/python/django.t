#!/usr/bin/python3
# Django: a model, and a validation error made of a rejected state change as docs/drivers.md shows.
import django
from django.conf import settings
from django.core.exceptions import ValidationError

from tap import DATABASE, DOC, end, equal, example, fixture, ok, raised, sqlstate

settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": DATABASE,
    "OPTIONS": {"options": "-c search_path=django,public"}}}, USE_TZ=True)
django.setup()
from django.db import DatabaseError, IntegrityError, connection, models, transaction


class Order(models.Model):
    id = models.BigAutoField(primary_key=True)
    state = models.TextField()
    note = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False


def ask(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()[0]


fixture("django")
order = Order.objects.get(pk=1)
order.state = "paid"
order.save()
equal(Order.objects.get(pk=1).state, "paid", "a model changes its state")
equal(ask("select pawl.fire('orders', %s, %s)", 1, "send"), "sent", "fire takes an integer key")
equal(ask("select pawl.fire('docs', %s, 'pay')", DOC), "paid", "fire takes the text of a UUID")
equal(ask("select pawl.fire('orders', %s, events => %s)", 2, ["pay", "send"]), "sent", "fire takes a list of events")
equal(ask("select count(*) from pawl.history('orders', %s)", 2), 3, "history takes a key")
order = Order.objects.get(pk=3)
order.state = "sent"
error = raised(IntegrityError, order.save, "a rejected state change is an IntegrityError")
equal((sqlstate(error.__cause__), error.__cause__.diag.constraint_name), ("23514", "orders_state_machine"),
      "its SQLSTATE and constraint")
set_state = example("Django", transaction=transaction, IntegrityError=IntegrityError, ValidationError=ValidationError)
error = raised(ValidationError, lambda: set_state(order, "sent"),
               "which the example of the page makes a validation error")
equal(list(error.message_dict), ["state"], "of the state column")
ok("pay" in error.message_dict["state"][1], "with the HINT of what is possible", error.message_dict)
with transaction.atomic():
    raised(ValidationError, lambda: set_state(order, "sent"), "also in a transaction")
    set_state(Order.objects.get(pk=8), "paid")
equal(Order.objects.get(pk=8).state, "paid", "which goes on")
raised(IntegrityError, lambda: set_state(Order.objects.get(pk=9), "paid"), "other constraints are left alone")
error = raised(DatabaseError, lambda: ask("select pawl.fire('docs', %s, 'pay')", DOC), "other tables keep the codes")
equal((sqlstate(error.__cause__), "send" in error.__cause__.diag.message_hint), ("PW001", True),
      "of class PW, with a HINT")
with transaction.atomic():
    ask("select pawl.set_context(processor => %s)", "web")
    Order.objects.filter(pk=4).update(state="paid")
equal(ask("select processor from pawl.history('orders', %s) order by sort_key desc", 4), "web",
      "the context of a transaction is recorded")
end()
