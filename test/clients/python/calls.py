# The same calls by psycopg 2 and psycopg 3, whose interfaces agree.
import json
import uuid

from tap import DATABASE, DOC, end, equal, example, fixture, is_validation, ok, raised


def calls(module, client, title, sqlstate):
    errors = module.errors
    fixture(client)
    connection = module.connect(dbname=DATABASE, options="-c search_path=%s,public" % client)
    connection.autocommit = True

    def ask(statement, *values):
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            row = cursor.fetchone()
            return row[0] if row and len(row) == 1 else row

    equal(ask("select pawl.fire('orders', %s, %s)", 1, "pay"), "paid", "fire takes an integer key")
    equal(ask("select pawl.fire('orders', %s, %s)", "2", "pay"), "paid", "fire takes the text of an integer key")
    equal(ask("select pawl.fire(%s, %s, events => %s)", "orders", 3, ["pay", "send"]), "sent",
          "fire takes a list of events")
    equal(ask("select pawl.fire('orders', %s, %s, %s)", 1, "send", json.dumps({"by": "hand"})), "sent",
          "fire takes metadata as JSON")
    equal(ask("select pawl.fire('docs', %s, 'pay')", DOC), "paid", "fire takes the text of a UUID")
    if module.__name__ == "psycopg":
        equal(ask("select pawl.fire('docs', %s, 'send')", uuid.UUID(DOC)), "sent", "fire takes a UUID")
    equal(ask("select pawl.fire('lines', %s, 'pay')", (1, "with, comma")), "paid", "a tuple is a composite key")
    equal(ask("select pawl.fire('lines', %s, 'pay')", ["1", "x"]), "paid", "a list of texts is a composite key")
    equal(ask("select array_agg(ok) from pawl.fire_many('orders', %s, %s)", [4, 5], "pay"), [True, True],
          "fire_many takes a list of keys")
    equal(ask("select event from pawl.available('orders', %s)", 4), "send", "available takes a key")
    equal(ask("select count(*) from pawl.history('orders', %s)", 3), 3, "history takes a key")
    equal(ask("select pawl.state_at('orders', %s, now())", 3), "sent", "state_at takes a key")

    error = raised(errors.CheckViolation, lambda: ask("update orders set state = 'sent' where id = %s", 6),
                   "a rejected state change is a CheckViolation")
    diag = error.diag
    equal((sqlstate(error), diag.table_name, diag.column_name, diag.constraint_name),
          ("23514", "orders", "state", "orders_state_machine"), "its SQLSTATE, table, column and constraint")
    equal(diag.message_detail[:7], "PW001: ", "its DETAIL begins with the code of pawl")
    ok("pay" in diag.message_hint, "its HINT lists what is possible", diag.message_hint)
    equal(diag.context, None, "it has no CONTEXT")
    ok(isinstance(error, module.IntegrityError), "it is an IntegrityError", error)
    error = raised(module.DatabaseError, lambda: ask("select pawl.fire('docs', %s, 'pay')", DOC),
                   "other tables keep the codes")
    equal((sqlstate(error), "sent" in error.diag.message_hint), ("PW001", True), "of class PW, with a HINT")
    error = raised(module.Error, lambda: ask("select pawl.fire('orders', %s, 'pay')", 999), "a row that is missing")
    equal(sqlstate(error), "P0002", "has a SQLSTATE of its own")

    set_state = example(title, **{module.__name__: module})
    set_state(connection, 8, "paid")
    equal(ask("select state from orders where id = %s", 8), "paid", "the example of the page changes a state")
    is_validation(raised(ValueError, lambda: set_state(connection, 6, "sent"), "it makes a validation error"), "which")
    raised(errors.CheckViolation, lambda: set_state(connection, 9, "paid"), "and leaves other constraints alone")
    connection.autocommit = False
    ask("select pawl.set_context(processor => %s, correlation_id => %s)", "web", "request 17")
    ask("select pawl.fire('orders', %s, 'pay')", 7)
    connection.commit()
    equal(ask("select processor, correlation_id from pawl.history('orders', %s) order by sort_key desc", 7),
          ("web", "request 17"), "the context of a transaction is recorded")
    connection.close()
    end()
