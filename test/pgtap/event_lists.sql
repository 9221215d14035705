-- Several transitions in one write: pawl.fire(events => ...) and the setting pawl.events.
\set QUIET 1
set client_min_messages to error;
select no_plan();
create extension if not exists pawl;

select pawl.define('review', $$stateDiagram-v2
    [*] --> draft
    draft --> written : write
    written --> reviewed : review [fits] / count_review
    written --> rejected : review
    reviewed --> printed : print / count_print
    rejected --> draft : reopen
    reviewed --> draft : reopen
    printed --> [*]$$, unbound => 'note') as version \gset
create table document (id int primary key, state text not null default 'draft',
    pages int not null default 1, note text);
create table seen (n serial, what text);
create function fits(old document, new document) returns boolean language plpgsql as $$
begin
    insert into seen (what) values (format('guard %s %s %s, stored %s', old.state, new.state, new.pages,
        (select d.state from document d where d.id = new.id)));
    return new.pages < 10;
end $$;
create function count_review(old document, new document) returns void language sql as $$
    insert into seen (what) select format('effect %s %s, stored %s', old.state, new.state, d.state)
        from document d where d.id = new.id $$;
create function count_print(old document, new document) returns void language sql as $$
    insert into seen (what) values (format('effect %s %s', old.state, new.state)) $$;
select pawl.define('review', pawl.diagram('review')) as version \gset
select pawl.enforce('document', 'state', 'review'), pawl.enable_log('document', 'state', hash_chain => true),
    pawl.enable_events('document', 'state') \g /dev/null
insert into document (id) select generate_series(1, 40);

create function steps_of(id int) returns text language sql as $$
    select string_agg(format('%s:%s>%s:%s', sort_key, from_state, to_state, event), ' ' order by sort_key)
      from document_transitions where subject_id = steps_of.id and from_state is not null $$;
create function rejects(statement text, code text, message text, description text) returns setof text
    language plpgsql as $$
declare said text; detail text;
begin
    execute statement;
    return next fail(description);
exception when others then
    get stacked diagnostics said = message_text, detail = pg_exception_detail;
    return next is(sqlstate || ' ' || said || ' | ' || detail, code || ' ' || message, description);
end $$;

-- One function call, one UPDATE -----------------------------------------------------------------------------------
select is(pawl.fire('document', 1, events => array['write', 'review', 'print']), 'printed',
    'fire returns the last state');
select is(steps_of(1), '2:draft>written:write 3:written>reviewed:review 4:reviewed>printed:print',
    'each transition has its log entry');
select is((select count(distinct ctid) from document where id = 1 and state = 'printed'), 1::bigint,
    'a list of events writes one version of the row');
select results_eq($$select what from seen order by n$$, $$values ('guard written reviewed 1, stored draft'),
    ('guard written reviewed 1, stored draft'), ('effect written reviewed, stored printed'),
    ('effect reviewed printed')$$,
    'guards see the states between and the stored row as it was; effects run afterwards, in order');
set pawl.events = '{write,"review", print}';
update document set state = 'printed', note = 'by hand' where id in (2, 3);
select is(steps_of(2) || steps_of(3),
    replace('2:draft>written:write 3:written>reviewed:review 4:reviewed>printed:printX',
    'X', '') || '2:draft>written:write 3:written>reviewed:review 4:reviewed>printed:print',
    'a plain UPDATE of two rows');
merge into document d using (values (4)) v(id) on d.id = v.id when matched then update set state = 'printed';
insert into document (id) values (5) on conflict (id) do update set state = 'printed';
create view documents as select * from document;
update documents set state = 'printed' where id = 6;
with moved as (update document set state = 'printed' where id = 7 returning id) select count(*) from moved \g /dev/null
select is(count(*), 4::bigint, 'MERGE, ON CONFLICT, a view and a WITH query') from generate_series(4, 7) id
    where steps_of(id) = '2:draft>written:write 3:written>reviewed:review 4:reviewed>printed:print';
reset pawl.events;
select results_eq($$select key, ok, to_state, sqlstate from pawl.fire_many('document', array[8, 9, 1, 99],
    events => array['write', 'review'])$$, $$values ('8', true, 'reviewed', null), ('9', true, 'reviewed', null),
    ('1', false, null, 'PW001'), ('99', false, null, 'P0002')$$, 'many rows, each by itself');
update document set pages = 12 where id = 10;
select is(pawl.fire('document', 10, events => array['write', 'review']), 'rejected',
    'a guard that rejects leaves the next transition of the event');
select is(pawl.fire('document', 10, events => array['reopen']), 'draft', 'a list of one');
select pawl.create_consumer('reader', 'beginning') \g /dev/null
select is((select array_agg(e.event || ' ' || e.to_state) from pawl.read_events('reader', 1000) e
            where e.key = '{1}' and e.from_state is not null),
    '{"write written","review reviewed","print printed"}', 'each transition has its event, in order');

-- Rejections: all or nothing ----------------------------------------------------------------------------------------
select rejects($$select pawl.fire('document', 11, events => array['write', 'print', 'review'])$$, 'PW001',
    'event "print" is not possible in state "written" of machine "review" | Row (id)=(11) of public.document would be '
    'in state "written" by then. Event 2 of 3: "write", "print", "review".', 'a rejection names the event');
select is(coalesce(steps_of(11), 'none'), 'none', 'and nothing is written');
select rejects($$set local pawl.events = '{write,review}'; update document set state = 'printed'
        where id = 12$$, 'PW001',
    'event "review" does not lead from "written" to "printed" in machine "review" | Row (id)=(12) of public.document '
    'would be in state "written" by then. Event 2 of 2: "write", "review".', 'a list that ends in another state');
select rejects($$set local pawl.events = '{write}'; update document set state = 'reviewed' where id = 12$$, 'PW001',
    'event "write" does not lead from "draft" to "reviewed" in machine "review" | Row (id)=(12) of public.document '
    'is in state "draft".', 'a list of one that ends in another state');
update document set pages = 11 where id = 13;
select rejects($$set local pawl.events = '{write,review}'; update document set state = 'reviewed'
        where id = 13$$, 'PW003',
    'guard public.fits rejects the transition from "written" to "reviewed" in machine "review" | Row (id)=(13) of '
    'public.document: public.fits(old, new) is not true. Event 2 of 2: "write", "review".', 'a guard of the second');
select lives_ok($$set local pawl.events = '{write,review}'; update document set state = 'reviewed', pages = 9
        where id = 13$$,
    'a guard of the second sees what the statement writes');
select rejects($$set local pawl.events = '{write,review}'; update document set state = case id when 14 then 'reviewed'
    else 'printed' end where id in (14, 15)$$, 'PW001', 'event "review" does not lead from "written" to "printed" in '
    'machine "review" | Row (id)=(15) of public.document would be in state "written" by then. Event 2 of 2: "write", '
    '"review".', 'one row of a statement');
select is(coalesce(steps_of(14), 'none'), 'none', 'ends them all');
select rejects($$select pawl.fire('document', 14, events => array['write', 'send'])$$, 'PW008',
    'machine "review" has no event "send" | ', 'an unknown event');
select rejects($$set local pawl.events = '{write,send}'; update document set state = 'written' where id = 14$$, 'PW008',
    'machine "review" has no event "send" | The events are "write", "send"; the machine has others of them.',
    'an unknown event beside a known one');
select lives_ok($$set local pawl.events = '{send,post}'; update document set state = 'written' where id = 14$$,
    'a list of which the machine knows nothing is for another machine');
select throws_ok($$select pawl.fire('document', 15, events => '{}')$$, '22023', 'events must not be empty',
    'an empty list of events is rejected');
select throws_ok($$select pawl.fire('document', 15, events => array['write', null])$$, '22004', null, 'a null event');
select throws_ok($$select pawl.fire('document', 15, events => array[array['write'], array['review']])$$, '22023',
    'events must be a one-dimensional array', 'an array of arrays, as in the setting');
select throws_ok($$select pawl.fire('document', 15, 'write', events => array['review'])$$, '22023', null,
    'fire with an event and a list of events is rejected');
select throws_ok($$select pawl.fire('document', 15)$$, '22004', null,
    'fire without an event and without a list is rejected');
select throws_ok($$select pawl.fire('document', 15, events => array_fill('write'::text, array[17]))$$, '54000', null,
    'a list of 17 events is rejected');
select throws_ok(format('set pawl.events = %L', array_fill('write'::text, array[17])), '54000', null,
    '17 in the setting');
select lives_ok(format('set pawl.events = %L', array_fill('write'::text, array[16])), '16 in the setting');
select throws_ok(format('set pawl.events = %L', wrong), '22023', null, wrong)
  from unnest(array['write', '{write', '{write}}', '{a,,b}', '{null}', '{a,NULL}', '{{a},{b}}', '{"a}', '{a}x', '{,a}',
    '{a,}', '{"a"b}', '{\']) wrong;
set pawl.events = '{}';
select lives_ok($$update document set state = 'written' where id = 15$$, 'an empty list is none');
set pawl.events = '  { " write " , review\,x ,"r\"s" } ';
select is(current_setting('pawl.events'), '  { " write " , review\,x ,"r\"s" } ', 'spaces, quotes and escapes');
reset pawl.events;

-- Rows that come back, and rows that stay
-- ------------------------------------------------------------------------------
select is(pawl.fire('document', 16, events => array['write', 'review', 'reopen']), 'draft', 'a list that leads back');
select is(steps_of(16), '2:draft>written:write 3:written>reviewed:review 4:reviewed>draft:reopen', 'is written, too');
set pawl.events = '{write,review,reopen}';
update document set state = 'draft' where id = 17;
select is(steps_of(17), '2:draft>written:write 3:written>reviewed:review 4:reviewed>draft:reopen',
    'an UPDATE to the same state takes a list that can lead back');
set pawl.events = '{write,review}';
update document set note = 'x' where id = 18;
select is(coalesce(steps_of(18), 'none'), 'none', 'and none that cannot');
reset pawl.events;

-- The statement at the top level only
-- ------------------------------------------------------------------------------------
create table other (id int primary key, state text not null default 'draft', pages int not null default 1, note text);
select pawl.define('plain', $$stateDiagram-v2
    [*] --> draft
    draft --> written : write
    written --> reviewed : review$$) \g /dev/null
select pawl.enforce('other', 'state', 'plain'), pawl.enable_log('other', 'state') \g /dev/null
insert into other values (19), (20), (38);
create function follow() returns trigger language plpgsql as $$
begin
    update other set state = 'written' where id = new.id;
    if new.note = 'far' then update other set state = 'reviewed' where id = new.id + 18; end if;
    return null;
end $$;
create trigger follow after update on document for each row when (new.note is not null) execute function follow();
set pawl.events = '{write,review}';
update document set state = 'reviewed', note = 'x' where id = 19;
select is((select state from other where id = 19), 'written', 'a trigger of the table writes without the list');
select throws_ok($$update document set state = 'reviewed', note = 'far' where id = 20$$, 'PW001', null,
    'and its own UPDATE takes one transition at a time');
reset pawl.events;
drop trigger follow on document;

-- A trigger and an effect that write the same row
-- ---------------------------------------------------------------------------
create function again() returns trigger language plpgsql as $$
begin update document set state = 'draft' where id = new.id; return null; end $$;
create trigger again after update on document for each row when (new.note = 'again' and new.state = 'reviewed')
    execute function again();
select pawl.fire('document', 21, events => array['write', 'review'], metadata => '{"k": 1}') \g /dev/null
set pawl.events = '{write,review}';
update document set state = 'reviewed', note = 'again' where id = 22;
reset pawl.events;
select is(steps_of(22), '2:draft>written:write 3:written>reviewed:review 4:reviewed>draft:reopen',
    'what a trigger does to the row comes after the list');
drop trigger again on document;
create or replace function count_review(old document, new document) returns void language sql as $$
    update document set note = 'counted ' || new.state where id = new.id $$;
select pawl.fire('document', 23, events => array['write', 'review', 'print']) \g /dev/null
select is((select note || ' ' || state from document where id = 23), 'counted reviewed printed',
    'an effect writes the row');
select is((select array_agg(metadata) from document_transitions where subject_id = 21 and from_state is not null),
    array['{"k": 1}', '{"k": 1}']::jsonb[], 'each entry has the metadata');

-- A column that is generated from the state
-- -----------------------------------------------------------------------------------
create table labelled (id int primary key, state text not null default 'draft', pages int not null default 1,
    label text generated always as (upper(state)) stored);
create function looks(old labelled, new labelled) returns boolean language plpgsql as $$
begin insert into seen (what) values ('label ' || old.label || ' ' || new.label); return true; end $$;
select pawl.define('labels', $$stateDiagram-v2
    [*] --> draft
    draft --> written : write [looks]
    written --> reviewed : review [looks]$$) \g /dev/null
select pawl.enforce('labelled', 'state', 'labels'), pawl.enable_log('labelled', 'state') \g /dev/null
insert into labelled values (1);
delete from seen;
set pawl.events = '{write,review}';
update labelled set state = 'reviewed';
reset pawl.events;
select results_eq('select what from seen order by n', $$values ('label DRAFT WRITTEN'), ('label WRITTEN REVIEWED')$$,
    'is right in the rows between');

-- Ownership
-- ---
select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : give_up
    running --> waiting : pause
    waiting --> ready : after 1 h
    waiting --> ready : resume
    done --> [*]
    class running owned$$) \g /dev/null
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, attempts int not null default 0, due timestamptz, limit_of int);
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state'), pawl.enable_queue('job', 'state',
    owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.set_claiming('job', 'state', claim => '{start}'), pawl.enable_timers('job', 'state', due => 'due') \g /dev/null
insert into job (id) select generate_series(1, 20);
update job set limit_of = id - 9 where id in (10, 11);
create function job_is(id int) returns text language sql as $$
    select concat_ws(' ', state, coalesce(owner, '-'), case when lease is null then '-' else 'leased' end,
        token, attempts,
        coalesce(round(extract(epoch from due - now()) / 60)::text, '-')) from job where job.id = job_is.id $$;
select throws_ok($$select pawl.fire('job', 1, events => '{start,finish}')$$, 'PW004', null,
    'an owned state needs a processor');
select is(pawl.fire('job', 1, events => '{start,finish}', processor => 'w'), 'done',
    'taken and given up within the list');
select is(job_is(1), 'done - - 1 1 -', 'the columns end as if each had been written alone');
select pawl.fire('job', 2, events => '{start,give_up,start}', processor => 'w') \g /dev/null
select is(job_is(2), 'running w leased 2 2 -', 'a row claimed twice has two attempts and its second token');
select throws_ok($$select pawl.fire('job', 2, events => '{pause,resume}', processor => 'v')$$, 'PW004', null,
    'not the owner');
select throws_ok($$select pawl.fire('job', 2, events => '{give_up,start}', processor => 'w', token => 1)$$,
    'PW005', null,
    'a stale token rejects the whole list');
select pawl.fire('job', 2, events => '{give_up,start,pause}', processor => 'w', token => 2) \g /dev/null
select is(job_is(2), 'waiting - - 3 3 60',
    'the token that is shown is compared once; the timer of the last state is set');
select pawl.fire('job', 2, events => '{resume,start}', processor => 'w') \g /dev/null
select is(job_is(2), 'running w leased 4 4 -', 'and cleared again');
set pawl.events = '{start,pause}'; set pawl.processor = 'w';
update job set state = 'waiting', due = now() + interval '5 min' where id = 3;
select is(job_is(3), 'waiting - - 1 1 5', 'what the statement sets itself holds for the last transition');
set pawl.events = '{start,give_up}'; set pawl.processor = '';
update job set state = 'ready', owner = 'v' where id = 4;
select is(job_is(4) || (select string_agg(processor, '') from job_transitions where subject_id = 4),
    'ready - - 1 1 -vv',
    'the statement may name the owner');
set pawl.token = 1;
select throws_ok($$update job set state = 'ready' where id = 5$$, 'PW005', null, 'the setting pawl.token, too');
reset pawl.events; reset pawl.processor; reset pawl.token;
select is((select string_agg(format('%s %s %s %s', key, ok, to_state, sqlstate), ', ') from pawl.fire_many('job',
    array[6, 7, 2], events => '{start,give_up}', processor => 'w', tokens => array[0, 8, null]::bigint[])),
    '6 t ready , 7 f  PW005, 2 f  PW001', 'tokens of fire_many');

-- Attempts ------------------------------------------------------------------------------------------------------
select pawl.enable_queue('job', 'state', max_attempts => 'limit_of'),
    pawl.set_claiming('job', 'state', retry => '{give_up}')
  from (select set_config('pawl.events', '', false)) s \g /dev/null
select throws_ok($$select pawl.fire('job', 10, events => '{start,give_up}', processor => 'w')$$, 'PW003', null,
    'the attempt that the list begins counts for its next event');
select lives_ok($$select pawl.fire('job', 11, events => '{start,give_up}', processor => 'w')$$, 'an attempt is left');

-- An audit of a state between
-- ------------------------------------------------------------------------------------------------------
select pawl.audit('job', '{"running": true}', 'job_audit') \g /dev/null
select pawl.fire('job', 8, events => '{start,finish}', processor => 'w') \g /dev/null
select is((select count(*) from job_audit where subject_id = 8), 1::bigint, 'has its row');

-- A savepoint, a prepared transaction
-- ---------------------------------------------------------------------------------------------
begin;
savepoint a;
select pawl.fire('job', 9, events => '{start,finish}', processor => 'w') \g /dev/null
rollback to a;
select pawl.fire('job', 9, events => '{start,give_up,start}', processor => 'v') \g /dev/null
commit;
select is((select string_agg(sort_key || event || processor, ' ' order by sort_key) from job_transitions
    where subject_id = 9 and event is not null), '2startv 3give_upv 4startv', 'another branch is taken');

select is_empty('select * from pawl.verify()', 'every log fits its table');
select * from finish();
