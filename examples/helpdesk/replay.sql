-- Run by the clerk: every event becomes one plain UPDATE, or one plain INSERT for a new
-- ticket, in a transaction of its own.
insert into replay.stopwatch values (clock_timestamp());

do $$
declare
    e record;
    was text;
    message text;
    detail text;
    hint text;
    total integer := (select count(*) from replay.event);
begin
    for e in select line, ticket, occurred_at, agent, a.state from replay.event
        join replay.activity a on a.name = activity order by line loop
        perform set_config('pawl.processor', e.agent, true),
                set_config('pawl.metadata', jsonb_build_object('occurred_at', e.occurred_at)::text, true);
        select state into was from ticket where id = e.ticket;
        begin
            if was is null then
                insert into ticket values (e.ticket, e.state, e.agent, e.occurred_at);
            else
                update ticket set state = e.state, agent = e.agent, updated = e.occurred_at where id = e.ticket;
            end if;
            insert into replay.outcome values (e.line, case was when e.state then 'unchanged' else 'accepted' end);
        exception when sqlstate 'PW001' or sqlstate 'PW002' then
            get stacked diagnostics message = message_text, detail = pg_exception_detail, hint = pg_exception_hint;
            insert into replay.outcome values (e.line, 'rejected');
            insert into replay.rejection values (e.line, was, e.state, sqlstate, message, detail, hint);
        end;
        commit;
        if e.line % 5000 = 0 then
            raise notice '% of % events', to_char(e.line, '99G999'), to_char(total, '99G999');
        end if;
    end loop;
end
$$;

update replay.stopwatch set finished = clock_timestamp();
