-- The trigger functions are PUBLIC's, so the owner of a table may use them in any way that CREATE TRIGGER accepts. No
-- such trigger may do more than fail.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table t (id int primary key, state text not null);
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state') \g /dev/null
create table stranger (id int primary key, state text not null);
insert into t values (0, 'a');
insert into stranger values (0, 'a');

-- Every moment, level and operation, on an enforced table, on its log and on a table that is neither.
create function every_way(of_function text, of_table text) returns setof text language plpgsql as $$
declare
    moment text; level text; operation text; made boolean;
begin
    foreach moment in array array['before', 'after'] loop
        foreach level in array array['row', 'statement'] loop
            foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
                begin
                    execute format('create trigger wrong %s %s on %s for each %s execute function pawl.%s()', moment,
                        operation, of_table, level, of_function);
                exception when feature_not_supported then
                    continue;  -- TRUNCATE has no rows
                end;
                begin
                    case operation
                        when 'insert' then execute case when of_table = 't_transitions_log'
                            then 'insert into t_transitions (subject_id, event) values (0, ''go'')'
                                                        else format('insert into %s values (1, ''a'')', of_table) end;
                        when 'update' then execute case
                            when of_table = 't_transitions_log' then 'update t_transitions set actor = ''me'''
                                                        else format('update %s set state = ''b''', of_table) end;
                        when 'delete' then execute format('delete from %s', of_table);
                        else execute format('truncate %s', of_table);
                    end case;
                    raise exception 'nothing happened' using errcode = 'P0099';
                exception when others then
                    return next format('%s %s %s: %s', moment, operation, level, sqlstate);
                end;
                execute format('drop trigger wrong on %s', of_table);
            end loop;
        end loop;
    end loop;
end $$;

-- P0099: the statement was accepted. 39P01: used as it is not meant to be. PW006, 42704: rejected because of the kind
-- of table. PW001: a second statement finds the state changed by the first.
select set_eq(format('select distinct right(w, 5) from every_way(%L, %L) w', f, r),
    case f when 'protect_log' then array['39P01', 'PW006'] when 'invalidate' then array['39P01'] else codes end,
              format('pawl.%s() in every place of %s', f, r))
  from (values ('validate', 't', array['39P01', 'P0099']), ('record', 't', array['39P01', 'P0099']),
      ('record_truncate', 't', array['39P01', 'P0099']),
               ('log_insert', 't', array['39P01', 'PW006']), ('protect_log', 't', null), ('invalidate', 't', null),
               ('invalidate', 'stranger', null),
               ('validate', 'stranger', array['39P01', '42704']), ('record', 'stranger', array['39P01', '42704']),
               ('record_truncate', 'stranger', array['39P01', '42704']),
               ('log_insert', 'stranger', array['39P01', 'PW006']),
               ('protect_log', 'stranger', null),
               ('validate', 't_transitions_log', array['39P01', 'PW006']),
               ('record', 't_transitions_log', array['39P01', 'PW006', '42704']),
               ('record_truncate', 't_transitions_log', array['39P01', 'PW006']),
               ('log_insert', 't_transitions_log', array['39P01', 'PW001', 'PW006'])) c(f, r, codes);

-- Called by hand.
select throws_ok(format('select pawl.%I()', p.proname), '0A000', null,
    format('pawl.%s() is no function to call', p.proname))
  from pg_proc p where p.pronamespace = 'pawl'::regnamespace and p.prorettype = 'trigger'::regtype
      and p.prolang = (select oid from pg_language where lanname = 'plpgsql');
select throws_ok(format('select pawl.%I()', p.proname), '39P01', format('pawl.%s() is a trigger function', p.proname),
    format('pawl.%s() says what it is', p.proname))
  from pg_proc p where p.pronamespace = 'pawl'::regnamespace and p.prorettype = 'trigger'::regtype
      and p.prolang = (select oid from pg_language where lanname = 'c');

select results_eq('select id, state from t', $$values (0, 'a')$$, 'and the row is where it was');
select is_empty('select * from pawl.verify()', 'nothing is wrong with the log');
select * from finish();
