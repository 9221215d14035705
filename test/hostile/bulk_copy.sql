-- Files that come in by COPY: no row is lost, and none is made of what is no row.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;
select pawl_bulk.define('{"name": "copied", "track_row_data": true, "steps": [{"name": "s", "kind": "signal", '
            '"handler": "none", "timeout": "1 day"}]}') is not null as ok;
\set copied 'with (format csv, delimiter e\'\\x02\', quote e\'\\x01\')'
create function rows_of(o uuid) returns text language plpgsql as $$
begin
    perform pawl_bulk.advance() from generate_series(1, 3);
    return (select string_agg(v.row_number || ' '
                || coalesce(pawl_bulk.row_data(o, v.row_number)::text,
                    (select string_agg(e ->> 'code', ' ') from jsonb_array_elements(v.errors) e)), '; '
        order by v.row_number)
              from pawl_bulk.validations v where v.operation = o);
end $$;

-- blank lines, and fields over several lines
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv') \gset
copy pawl_bulk.input (raw) from stdin with (format csv, delimiter e'\x02', quote e'\x01');
a,b

1,one

2,"two

lines, ""and"" a quote
"

3,"x
4,four"

\.
select is(pawl_bulk.seal(:'o', lines => 12), 3::bigint, 'blank lines are no rows, lines of one record are one row');
commit;
select is(rows_of(:'o'), E'2 {"a": "1", "b": "one"}; 4 {"a": "2", "b": "two\\n\\nlines, \\"and\\" a quote\\n"}; 9 '
    '{"a": "3", "b": "x\\n4,four"}', 'none is lost, none is made up');

-- a quote that nothing closes
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv', dialect => '{"quote": "''\\"}') \gset
copy pawl_bulk.input (raw) from stdin with (format csv, delimiter e'\x02', quote e'\x01');
'the
name',b
1,5' long
2,'it\'s
''two'' lines\\'
3,'open
4,four
\.
select is(pawl_bulk.seal(:'o'), 4::bigint, 'a header may span lines');
commit;
select is(rows_of(:'o'), E'2 {"b": "5'' long", "the\\nname": "1"}; 3 {"b": "it''s\\n''two'' lines\\\\", "the\\nname": '
    '"2"}; 5 malformed; 6 {"b": "four", "the\\nname": "4"}', 'an open quote costs one line');

-- a line that ends the COPY
\set QUIET 1
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv') \gset
\copy pawl_bulk.input (raw) from program 'printf "a,b\\n1,x\\n\\\\.\\n2,y\\n"' with (format csv, delimiter e'\x02', quote e'\x01')
savepoint s;
-- until PostgreSQL 17 such a line ends a COPY in CSV
select (:SERVER_VERSION_NUM < 180000)::text as ends_there \gset
\if :ends_there
select throws_ok(format('select pawl_bulk.seal(%L, lines => 4)', :'o'), '22P04', '2 lines came of 4',
    'a COPY that ended early is rejected');
\else
select is(pawl_bulk.seal(:'o', lines => 4), 3::bigint, 'no COPY ends early');
\endif
rollback;
select is_empty(format('select from pawl_bulk.operations where operation = %L', :'o'), 'with its operation');

-- byte order marks, in the header, in a row of a CSV without one, in NDJSON
begin;
select operation as o from pawl_bulk.submit('copied', format => 'ndjson') \gset
\copy pawl_bulk.input (raw) from program 'printf "\\357\\273\\277{\"a\": 1}\\n\\n{\"a\": 2}\\n"' with (format csv, delimiter e'\x02', quote e'\x01')
select is(pawl_bulk.seal(:'o', lines => 3), 2::bigint, 'NDJSON with a byte order mark');
commit;
select is(rows_of(:'o'), '1 {"a": 1}; 3 {"a": 2}', 'is the rows that it has');
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv', columns => '{a,b}') \gset
\copy pawl_bulk.input (raw) from program 'printf "\\357\\273\\2771,x\\n2,y"' with (format csv, delimiter e'\x02', quote e'\x01')
select is(pawl_bulk.seal(:'o', lines => 2), 2::bigint, 'CSV with a byte order mark and without a header');
commit;
select is(rows_of(:'o'), '1 {"a": "1", "b": "x"}; 2 {"a": "2", "b": "y"}', 'too');
select is((select valid || ' ' || row_errors
        from pawl_bulk.precheck('copied', lines => array[e'\ufeff{"a": 1}'], format => 'ndjson')),
    'true []', 'a check beforehand passes it over');

-- a JSON array line by line
begin;
select operation as o from pawl_bulk.submit('copied', format => 'json') \gset
copy pawl_bulk.input (raw) from stdin with (format csv, delimiter e'\x02', quote e'\x01');
[
  {"a": 1},
  {"a": 2}
]
\.
select throws_ok(format('select pawl_bulk.seal(%L)', :'o'), '22P04', 'a JSON array cannot be copied line by line');
rollback;

-- ends of lines
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv') \gset
\copy pawl_bulk.input (raw) from program 'printf "a,b\\r\\n1,\"x\\r\\ny\"\\r\\n\\r\\n2,z\\r\\n"' with (format csv, delimiter e'\x02', quote e'\x01')
select is(pawl_bulk.seal(:'o', lines => 5), 2::bigint, 'lines that end with CR LF');
commit;
select is(rows_of(:'o'), E'1 {"a": "1", "b": "x\\ny"}; 4 {"a": "2", "b": "z"}', 'are read');
begin;
select operation as o from pawl_bulk.submit('copied', format => 'csv') \gset
\copy pawl_bulk.input (raw) from program 'printf "a,b\\r1,x\\r2,y\\r"' with (format csv, delimiter e'\x02', quote e'\x01')
select is(pawl_bulk.seal(:'o'), 2::bigint, 'and with CR');
commit;

-- a row of nothing
begin;
select operation as o from pawl_bulk.submit('copied') \gset
insert into pawl_bulk.input (data, raw) values (null, null), ('{"a": 1}', null), (null, '');
select is(pawl_bulk.seal(:'o'), 1::bigint, 'an empty row is skipped');
commit;
select is(rows_of(:'o'), '2 {"a": 1}', 'and the others are there');
select throws_ok(format('select pawl_bulk.seal(%L)', :'o'), '55000', null, 'what is sealed is not sealed again');
select is(pawl_bulk._complete_lines(:'o')::text, '(,,)', 'nor are its lines');
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong');
select * from finish();
