"""Bulk operations: rows come in and are validated, go through a step by SQL and by workers, fail and are retried; what
is asked meanwhile; bytes on disk."""

import json
import os
import threading
import time
from pathlib import Path

import bulk_floor
import report_text
from bulk_report import BATCH, LANES, LOOKS, RECORDS, RETRIED, ROUNDS, SIZES, WORKED, WORKERS, Bulk, percentile
from server import Session, query, server_cpu

SQL_ROWS = "call pawl_bulk.work_sql_rows(5000)"
FILE = Path(os.environ["PAWL_RUN"]) / "devices.csv"
IMEI = "'^[0-9]{15}$'"
TABLES = ("input", "validations", "records", "record_transitions_log")

FUNCTIONS = f"""
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, code text, message text) language sql as
$$ select n, 'imei', 'an IMEI has 15 digits' from unnest(row_numbers, rows) u(n, r) where r ->> 'imei' !~ {IMEI} $$;
create function nothing(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, message text) language sql as
$$ select n, 'never' from unnest(row_numbers) n where false $$;
create function rejected(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, message text) language sql as
$$ select n, 'no network' from unnest(row_numbers) n $$;
"""
# What a worker of the client library sends.
WORK = f"""select {report_text.array(report_text.ROW)} as got
    from pawl_bulk.claim('worker %s', 'external', {BATCH}) c \\gset
select count(*) filter (where ok) from pawl_bulk.report(:'got'::jsonb, 'worker %s')"""


def define(name, steps, **more):
    text = json.dumps({"name": name, "steps": steps, "max_input_bytes": 0, **more})
    query(f"select pawl_bulk.define($json${text}$json$)")


def define_all():
    query("create extension pawl_bulk")
    query(FUNCTIONS)
    define("checked", [{"name": "activate", "handler": "sql:public.nothing"}], validators=["public.checked"])
    define(
        "tracked",
        [{"name": "activate", "handler": "sql:public.nothing"}],
        validators=["public.checked"],
        track_row_data=True,
    )
    define("plain", [{"name": "activate", "handler": "sql:public.nothing"}])
    define("worked", [{"name": "activate", "handler": "external"}])
    define("rejected", [{"name": "activate", "handler": "sql:public.rejected"}], is_retryable=True, track_row_data=True)
    define("awaited", [{"name": "approval", "kind": "signal", "handler": "none", "timeout": "1 day"}])


def tidy():
    session = Session()
    session.run("vacuum analyze")
    session.run("checkpoint")
    session.close()


def write_file(rows, data=0):
    """IMEIs and plans; with so many bytes of data in each row."""
    with FILE.open("w") as file:
        file.write("imei,plan\n")
        for n in range(rows):
            file.write(f"{n:015},{'p' * max(data - 32, 1)}\n")
    FILE.chmod(0o644)


def bare(rows):
    """seconds of a COPY of the file into a table of two columns, and of one UPDATE that validates"""
    session = Session()
    session.run("create table bare (imei text, plan text)")
    began = time.time()
    session.run(f"\\copy bare from '{FILE}' with (format csv, header)\nselect 1")
    copied = time.time() - began
    took = session.seconds(f"update bare set plan = case when imei ~ {IMEI} then plan end")
    session.run("drop table bare")
    session.close()
    return copied + took


def drive(session, until):
    while (
        session.run(
            "select status from pawl_bulk.operations where operation = current_setting('bench.operation')::uuid"
        )[0]
        in until
    ):
        if session.run("select done from pawl_bulk.advance()") == ["0"]:
            time.sleep(0.01)


def submit(definition):
    """An operation with the file as its input; its id, and the seconds that took."""
    session = Session()
    began = time.time()
    session.run("begin")
    operation = session.run(f"select operation from pawl_bulk.submit('{definition}', format => 'csv')")[0]
    session.run(
        f"\\copy pawl_bulk.input (raw) from '{FILE}' with (format csv, delimiter e'\\x02', quote e'\\x01')\nselect 1"
    )
    session.run(f"select pawl_bulk.seal('{operation}')")
    session.run("commit")
    took = time.time() - began
    session.close()
    return operation, took


def generate(definition, rows):
    """An operation whose rows are made here."""
    session = Session()
    session.run("begin")
    operation = session.run(f"select operation from pawl_bulk.submit('{definition}')")[0]
    session.run(
        f"insert into pawl_bulk.input (operation, row_number, data) select '{operation}', g, "
        f"jsonb_build_object('imei', g) from generate_series(1, {rows}) g"
    )
    session.run(f"select pawl_bulk.seal('{operation}')")
    session.run("commit")
    session.close()
    return operation


def advance(operation, until):
    """seconds for which the operation is in one of these states, this session calling the duty as pawld does"""
    session = Session()
    session.run(f"set bench.operation = '{operation}'")
    began = time.time()
    drive(session, until)
    took = time.time() - began
    session.close()
    return took


def again_and_again(statement, stop):
    session = Session()
    while not stop.is_set():
        if session.run(statement)[-1].split("|")[0] == "0":
            time.sleep(0.01)
    session.close()


def run(operation, statements, until=("Running", "Retrying")):
    """seconds, and CPU seconds of the server, for which the operation is in one of these states, one session for each
    statement and one that calls the duty"""
    stop = threading.Event()
    lanes = [threading.Thread(target=again_and_again, args=(statement, stop)) for statement in statements]
    before = server_cpu()
    for thread in lanes:
        thread.start()
    took = advance(operation, until)
    stop.set()
    for thread in lanes:
        thread.join()
    return took, server_cpu() - before


def run_sql(operation):
    return run(operation, [SQL_ROWS] * LANES)


def validate(operation):
    """as many sessions as lanes: the one that calls the duty validates too"""
    return run(operation, [SQL_ROWS] * (LANES - 1), ("Pending", "Validating"))[0]


def expect(operation, status):
    """What was measured is worth nothing if it is wrong."""
    found = query(
        "select o.status || case when c.differs then ', with wrong counters' else '' end from pawl_bulk.operations o, "
        f"pawl_bulk.recount('{operation}') c "
        f"where o.operation = '{operation}'"
    )
    if found != status:
        raise SystemExit(f"bench: operation {operation} is {found}, not {status}")


def on_disk():
    """bytes of tables and of indexes"""
    text = query(
        "select sum(pg_table_size(c)), sum(pg_indexes_size(c)) from unnest(array["
        + ", ".join(f"'pawl_bulk.{t}'" for t in TABLES)
        + "]::regclass[]) c"
    )
    return [int(part) for part in text.split("|")]


def measure_sizes():
    """bytes a row, of tables and of indexes, by (rows, whether 200 bytes of data are kept)"""
    sizes = {}
    for definition, kept in (("checked", False), ("tracked", True)):
        for rows in SIZES:
            query(
                "drop extension pawl_bulk cascade; drop function "
                + ", ".join(f"{name}(uuid, jsonb, bigint[], jsonb[])" for name in ("checked", "nothing", "rejected"))
            )
            define_all()
            write_file(rows, 200)
            operation, _ = submit(definition)
            advance(operation, ("Pending", "Validating"))
            run_sql(operation)
            expect(operation, "Completed")
            tidy()
            sizes[rows, kept] = [part / rows for part in on_disk()]
            print(
                f"  {rows:,} rows{' with 200 bytes of data' if kept else ''}: {sizes[rows, kept][0]:.0f} bytes a row "
                f"in tables, {sizes[rows, kept][1]:.0f} in indexes",
                flush=True,
            )
    return sizes


def measure_sql():
    """rounds of (seconds of the baseline, of ingest, of validation, of the step, CPU seconds of the step, seconds of
    what the step writes by hand)"""
    rounds = []
    rows = SIZES[-1]
    write_file(rows)
    for number in range(ROUNDS):
        baseline = bare(rows)
        operation, ingested = submit("checked")
        validated = validate(operation)
        step, cpu = run_sql(operation)
        expect(operation, "Completed")
        floor = bulk_floor.seconds(operation, rows, LANES)
        query(f"delete from pawl_bulk.operations where operation = '{operation}'")
        tidy()
        rounds.append((baseline, ingested, validated, step, cpu, floor))
        print(
            f"  round {number + 1} of {ROUNDS}: COPY and UPDATE {rows / baseline:,.0f} rows a second, COPY into "
            f"pawl_bulk {ingested:.1f} s, validation {validated:.1f} s, "
            f"one SQL step {rows / step:,.0f} rows a second ({cpu / rows * 1e6:.0f} us CPU a row), "
            f"the same rows by hand {rows / floor:,.0f}",
            flush=True,
        )
    return rounds


def measure_workers():
    """rounds of (rows a second, CPU microseconds a row, rows a second of what they write by hand, the same with the
    rows sent to the workers)"""
    rates = []
    for _ in range(ROUNDS):
        operation = generate("worked", WORKED)
        advance(operation, ("Pending", "Validating"))
        tidy()
        took, cpu = run(operation, [WORK % (n, n) for n in range(WORKERS)])
        expect(operation, "Completed")
        floor = bulk_floor.seconds(operation, WORKED, WORKERS, by_workers=BATCH)
        served = bulk_floor.seconds(operation, WORKED, WORKERS, by_workers=BATCH, served=True)
        rates.append((WORKED / took, cpu / WORKED * 1e6, WORKED / floor, WORKED / served))
        print(
            f"  {WORKERS} workers, batches of {BATCH}: {rates[-1][0]:,.0f} rows a second ({rates[-1][1]:.0f} us CPU a "
            f"row), the same rows by hand {rates[-1][2]:,.0f}, sent to workers {rates[-1][3]:,.0f}",
            flush=True,
        )
    return rates


def look_on(statements, stop, took):
    """milliseconds of each statement, one after the other, until it is enough"""
    session = Session()
    for statement in statements.values():
        session.run(statement.replace("@", "0"))
    number = 0
    while not stop.is_set():
        number += 1
        for name, statement in statements.items():
            took[name].append(session.seconds(statement.replace("@", str(number))) * 1000)
        time.sleep(0.005)
    session.close()


def measure_retry():
    """seconds of the call, milliseconds of signals and of status queries meanwhile"""
    waiting = generate("awaited", 50_000)
    advance(waiting, ("Pending", "Validating"))
    run_some(waiting)
    operation = generate("rejected", RETRIED)
    advance(operation, ("Pending", "Validating"))
    run_sql(operation)
    expect(operation, "CompletedWithErrors")
    tidy()
    meanwhile = {
        "signal": f"select pawl_bulk.signal('{waiting}', 's0-r@')",
        "signal to the operation that is retried": f"select pawl_bulk.signal('{operation}', 'early @')",
        "status": "select status, processed_rows, failed_rows, progress, rate, estimated_end from pawl_bulk.status "
        f"where operation = '{operation}'",
    }
    took, stop = {name: [] for name in meanwhile}, threading.Event()
    looker = threading.Thread(target=look_on, args=(meanwhile, stop, took))
    session = Session()
    looker.start()
    seconds = session.seconds(f"select submitted from pawl_bulk.retry('{operation}')")
    stop.set()
    looker.join()
    session.close()
    if query(f"select count(*) from pawl_bulk.retry_history where operation = '{operation}'") != str(RETRIED):
        raise SystemExit("bench: rows were not retried")
    print(
        f"  retry of {RETRIED:,} rows: {seconds:.1f} s; meanwhile at most "
        + ", ".join(f"{name} {max(ms):.1f} ms" for name, ms in took.items()),
        flush=True,
    )
    query(f"select pawl_bulk.cancel('{operation}'), pawl_bulk.cancel('{waiting}')")
    return seconds, took


def run_some(operation):
    """Its rows are brought to their first step and wait there."""
    session = Session()
    while session.run("select done from pawl_bulk.advance()") != ["0"] or session.run(
        "select done from pawl_bulk.run_sql_rows(5000)"
    ) != ["0"]:
        pass
    session.close()


def measure_status():
    """records, milliseconds of each look"""
    operation = generate("plain", RECORDS // 2)
    advance(operation, ("Pending", "Validating"))
    run_sql(operation)
    expect(operation, "Completed")
    query("select pawl_bulk.fold_counters()")
    tidy()
    records = int(
        query("select (select count(*) from pawl_bulk.records) + (select count(*) from pawl_bulk.validations)")
    )
    session = Session()
    took = [
        session.seconds(
            "select status, processed_rows, failed_rows, progress, rate, estimated_end from pawl_bulk.status where "
            f"operation = '{operation}'"
        )
        * 1000
        for _ in range(LOOKS + 10)
    ][10:]
    session.close()
    print(f"  status among {records:,} records: p99 {percentile(took, 99):.2f} ms", flush=True)
    return records, took


def measure():
    print(f"Bulk operations: {SIZES[-1]:,} rows, {ROUNDS} round(s):", flush=True)
    define_all()
    rounds = measure_sql()
    workers = measure_workers()
    retry = measure_retry()
    status = measure_status()
    return Bulk(rounds, workers, *retry, *status, measure_sizes())
