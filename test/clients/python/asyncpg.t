#!/usr/bin/python3
# asyncpg: it asks the server for the type of each parameter, which is text for a key.
import asyncio
import asyncpg

from tap import DATABASE, DOC, end, equal, example, fixture, is_validation, ok


async def failure(call):
    try:
        await call
    except Exception as error:
        return error
    return None


async def main():
    fixture("asyncpg")
    connection = await asyncpg.connect(database=DATABASE, server_settings={"search_path": "asyncpg, public"})
    ask = connection.fetchval
    equal(await ask("select pawl.fire('orders', $1, $2)", "1", "pay"), "paid", "fire takes the text of a key")
    equal(
        await ask("select pawl.fire('orders', $1::bigint, $2)", 2, "pay"), "paid", "fire takes an integer with a cast"
    )
    equal(
        await ask("select pawl.fire('orders', $1, events => $2)", "3", ["pay", "send"]),
        "sent",
        "fire takes a list of events",
    )
    equal(
        await ask("select pawl.fire('orders', $1, $2, $3)", "1", "send", '{"by": "hand"}'),
        "sent",
        "fire takes metadata as JSON",
    )
    equal(await ask("select pawl.fire('docs', $1, 'pay')", DOC), "paid", "fire takes the text of a UUID")
    equal(await ask("select pawl.fire('docs', $1::uuid, 'send')", DOC), "sent", "fire takes a UUID with a cast")
    equal(await ask("select pawl.fire('lines', array[$1, $2], 'pay')", "1", "x"), "paid", "an array is a composite key")
    equal(
        await ask("select array_agg(ok) from pawl.fire_many('orders', $1::bigint[], $2)", [4, 5], "pay"),
        [True, True],
        "fire_many takes a list of keys",
    )
    equal(await ask("select event from pawl.available('orders', $1)", "4"), "send", "available takes a key")
    equal(await ask("select count(*) from pawl.history('orders', $1)", "3"), 3, "history takes a key")
    equal(await ask("select pawl.state_at('orders', $1, now())", "3"), "sent", "state_at takes a key")
    error = await failure(connection.execute("update orders set state = 'sent' where id = $1", 6))
    ok(isinstance(error, asyncpg.CheckViolationError), "a rejected state change is a CheckViolationError", error)
    equal(
        (error.sqlstate, error.table_name, error.column_name, error.constraint_name),
        ("23514", "orders", "state", "orders_state_machine"),
        "its SQLSTATE, table, column and constraint",
    )
    equal(error.detail[:7], "PW001: ", "its DETAIL begins with the code of pawl")
    ok("pay" in error.hint, "its HINT lists what is possible", error.hint)
    error = await failure(ask("select pawl.fire('docs', $1, 'pay')", DOC))
    ok(isinstance(error, asyncpg.PostgresError), "other tables keep the codes", error)
    equal((error.sqlstate, "sent" in error.hint), ("PW001", True), "of class PW, with a HINT")
    set_state = example("asyncpg", asyncpg=asyncpg)
    await set_state(connection, 8, "paid")
    equal(await ask("select state from orders where id = 8"), "paid", "the example of the page changes a state")
    error = await failure(set_state(connection, 6, "sent"))
    ok(isinstance(error, ValueError), "it makes a validation error", error)
    is_validation(error, "which")
    error = await failure(set_state(connection, 9, "paid"))
    ok(isinstance(error, asyncpg.CheckViolationError), "and leaves other constraints alone", error)
    async with connection.transaction():
        await connection.execute("select pawl.set_context(processor => $1)", "web")
        await ask("select pawl.fire('orders', $1, 'pay')", "7")
    equal(
        await ask("select processor from pawl.history('orders', $1) order by sort_key desc", "7"),
        "web",
        "the context of a transaction is recorded",
    )
    await connection.close()


asyncio.run(main())
end()
