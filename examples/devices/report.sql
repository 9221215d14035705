-- What the fourth act of the demo asks the database. `part` is one of the names below.
select :'part' = 'checks' as checks, :'part' = 'totals' as totals \gset

\if :checks
-- What must hold: what|got|wanted. Wanted is counted from the file as PostgreSQL's own COPY reads it.
with rows as (
    select *, "Organization Address" = '' or "Organization Address" is null as no_address,
    length("Organization Address") > 150 as too_long, "Organization Name" = 'Private' as private
    from oui
), counted as (
    select *, coalesce(no_address, false) or coalesce(too_long, false) or coalesce(private, false)
        or "Organization Name" is null as bad from rows
), wanted as (
    select count(*) as total, count(*) filter (where bad) as bad, count(*) filter (where private) as private,
    count(*) filter (where too_long) as too_long,
           count(*) filter (where not bad and "Assignment" like '%00') as unknown,
           count(*) filter (where not bad and "Assignment" like '%7F') as rejected,
           count(*) filter (where not bad and "Assignment" like '%F') as busy from counted
), s as (select * from pawl_bulk.status)
select 'rows of the file', s.total_rows, w.total from s, wanted w
union all select 'rows that break a rule', (select count(*) from pawl_bulk.validations where state = 'Failed'), w.bad
from wanted w
union all select '  of private owners',
    (select count(distinct row_number) from pawl_bulk.errors where code = 'no_owner'), w.private from wanted w
union all select '  with an address too long', (select count(*) from pawl_bulk.errors where code = 'length'), w.too_long
from wanted w
union all select 'rows tried twice, the registry was busy', (select count(*) from pawl_bulk.records
    where step_index = 0 and tries = 2 and retry_attempt = 0), w.busy from wanted w
union all select 'failed at first: the registry did not know them',
    (select count(*) from pawl_bulk.retry_history where error_type = 'StepFailure'), w.unknown from wanted w
union all select 'failed at first: the carrier rejected them',
    (select count(*) from pawl_bulk.retry_history where error_type = 'SignalFailure'), w.rejected from wanted w
union all select 'successful after the retry', s.successful_rows, w.total - w.bad from s, wanted w
union all select 'filed, each once', (select count(*) from filed), w.total - w.bad from wanted w
union all select 'labels as the file has them, quotes, commas, accents', (select count(*) from filed f
    join oui o on o.line = f.row_number and f.label = o."Assignment" || ' ' || o."Organization Name"), w.total - w.bad
from wanted w
union all select 'lines of the exported report', :exported, w.bad from wanted w
union all select 'rows in flight of the killed worker, filed all the same',
    (select count(*) from held join filed using (row_number)), :killed_held
union all select 'terminal events', (select count(*) from pawl_bulk.events where type = 'CompletedWithErrors'), 2
union all select 'findings of pawl_bulk.verify()', (select count(*) from pawl_bulk.verify()), 0
union all select 'findings of pawl.verify()', (select count(*) from pawl.verify()), 0;
\endif

\if :totals
-- rows|transitions
select (select total_rows from pawl_bulk.status), (select count(*) from pawl_bulk.record_transitions);
\endif
