-- Settings of definitions that are out of range are named, with what they may be.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;
create function said(step jsonb, definition jsonb default '{}') returns text language plpgsql as $$
declare state text; said text; detail text; hint text;
begin
    perform pawl_bulk.define('{"name": "x"}' || definition
        || jsonb_build_object('steps',
            jsonb_build_array('{"name": "s", "kind": "poll", "timeout": "1 h", "poll_interval": "1 s"}' || step)));
    return 'fine';
exception when others then
    get stacked diagnostics state = returned_sqlstate, said = message_text, detail = pg_exception_detail,
        hint = pg_exception_hint;
    return concat_ws('|', state, said, detail, hint);
end $$;
select is(said('{}'), 'fine', 'a definition');
select is(said('{"max_retries": 32001}'), '22023|"max_retries" of step "s" is out of range|It is 32001.|an integer '
    'from 0 to 32000', 'more retries than tries can hold');
select is(said('{"max_retries": 32000}'), 'fine', 'as many as they can hold');
select is(said(jsonb_build_object(split_part(s, ' ', 1),
            substr(s, strpos(s, ' ') + 1)::jsonb)) ^@ format('22023|"%s" of step "s" is out of range|',
        split_part(s, ' ', 1)), true, s)
  from unnest(array['max_retries -1', 'max_retries "soon"', 'max_retries 1.5', 'max_retries 1e30',
      'poll_interval "0 s"', 'poll_interval "soon"', 'poll_interval "-1 s"', 'poll_interval 5', 'timeout "0"',
      'timeout "200 years"', 'run_timeout "0"',
    'run_timeout "9999999 years"', 'poll_jitter -1', 'poll_jitter "NaN"', 'poll_jitter "Infinity"',
    'allow_operation_retry "perhaps"', 'handler ""', 'check ""', 'signal_key ""']) s;
select is(said(jsonb_build_object('backoff', b)) ^@ '22023|"backoff.', true, b::text)
    from unnest(array['{"base": "-1 s"}', '{"base": "2 years"}', '{"cap": "x"}', '{"jitter": -1}',
        '{"jitter": "NaN"}']::jsonb[]) b;
select is(said('{}', d) ^@ '22023|"', true, d::text)
    from unnest(array['{"max_retry_attempts": -1}', '{"max_retry_attempts": 40000}', '{"max_takeovers": -1}',
        '{"max_input_bytes": -1}', '{"is_retryable": "x"}', '{"track_row_data": 7}']::jsonb[]) d;
select alike(said(jsonb_build_object('handler', repeat('h', 201))), '22023|"handler" of step "s" is out of range|%',
    'a queue that no index holds');
select * from finish();
