-- Exports change nothing: values that look like formulas, names that are long, many, or
-- taken, rows that could not be read.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;
create function fine(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as $$ select null::bigint, null::text where false $$;
select pawl_bulk.define('{"name": "d", "track_row_data": true, "handler": "sql:public.fine"}') is not null as ok;
create function done(o uuid) returns void language plpgsql
    as $$ begin for i in 1 .. 8 loop perform pawl_bulk.advance(); perform pawl_bulk.run_sql_rows(); end loop; end $$;
-- what the command sends, a line a row
create function exported(command text) returns text language plpgsql as $$
declare said text;
begin
    create temporary table if not exists lines (n int generated always as identity, line text);
    truncate lines restart identity;
    execute replace(command, 'TO STDOUT', format('TO %L', current_setting('data_directory') || '/exported'));
    execute format($c$copy lines (line) from %L with (format csv, delimiter e'\x02', quote e'\x01')$c$,
        current_setting('data_directory') || '/exported');
    return (select string_agg(regexp_replace(line, '\d{4}-\d\d-\d\d [^,]*', 'T', 'g'), '|' order by n) from lines);
end $$;

begin;
select operation as o from pawl_bulk.submit('d', format => 'csv') \gset
copy pawl_bulk.input (raw) from stdin with (format csv, delimiter e'\x02', quote e'\x01');
RowNumber,DataRowNumber,n
=1,-5,"a ""b"""
2,@x
+3,y,z,"more, and"
4,"open,x
\.
select pawl_bulk.seal(:'o') is not null as ok;
commit;
select done(:'o');
select is(exported(pawl_bulk.export_command(:'o', 'data')), 'RowNumber,DataRowNumber,n|=1,-5,"a '
    '""b"""|2,@x,|+3,y,"z,more, and"|"4,""open,x",,', 'data are the data, rows that could not be read too');
select is(exported(pawl_bulk.export_command(:'o', 'data', neutralise => true)),
    exported(pawl_bulk.export_command(:'o', 'data', neutralise => false)), 'whatever is asked of the guard');
select is(exported(pawl_bulk.export_command(:'o', rows => '{1}')),
    'RowNumber,RowId,State,StepName,StepIndex,ErrorType,ErrorMessage,RetryAttempt,CreatedAt,CompletedAt,'
    'DataDataRowNumber,DataRowNumber,n|1,,Completed,process,0,,,0,T,T,''=1,''-5,"a ""b"""',
    'a report neutralises, and no two columns have one name');
select is(exported(pawl_bulk.export_command(:'o', rows => '{1}', neutralise => false)),
    'RowNumber,RowId,State,StepName,StepIndex,ErrorType,ErrorMessage,RetryAttempt,CreatedAt,CompletedAt,'
    'DataDataRowNumber,DataRowNumber,n|1,,Completed,process,0,,,0,T,T,=1,-5,"a ""b"""', 'unless it is not to');

select operation as o
    from pawl_bulk.submit('d', rows => jsonb_build_array(jsonb_build_object(repeat('a', 70) || '1', '-1',
                repeat('a', 70) || '2', '%s', '100%', '', 'x', null), 3)) \gset
select done(:'o');
select is(exported(pawl_bulk.export_command(:'o', 'data')), format('100%%,%s1,%s2,x|"",-1,%%s,|3,,,', repeat('a', 70),
    repeat('a', 70)), 'names are as long as they are, null and empty differ');
select alike(exported(pawl_bulk.export_command(:'o', rows => '{1}')),
    format('%%,100\%%,%s1,%s2,x|1,%%,"",''-1,\%%s,', repeat('a', 70), repeat('a', 70)), 'in a report, too');
select operation as o from pawl_bulk.submit('d',
    rows => jsonb_build_array((select jsonb_object_agg('f' || i, i) from generate_series(1, 1700) i))) \gset
select done(:'o');
select throws_ok(format('select pawl_bulk.export_command(%L, ''data'')', :'o'), '54011', null,
    'too many columns are reported');
select alike(exported(pawl_bulk.export_command(:'o', 'data', 'json')), '[{"f1": 1,%', 'and come as JSON');
select operation as o from pawl_bulk.submit('d', rows => '[]') \gset
select done(:'o');
select is(exported(pawl_bulk.export_command(:'o', 'report')), 'RowNumber,RowId,State,StepName,StepIndex,ErrorType,'
    'ErrorMessage,RetryAttempt,CreatedAt,CompletedAt', 'no rows are a header');
select * from finish();
