-- Every path by which a row can be written, on one :kind of table. An area of paths runs on a freshly built table for
-- each of its cells; a cell is a state type and a way of keeping the log. With PAWL_FULL=1 these are all fifteen.
-- Otherwise they are three, one a way of keeping the log, and the types rotate with the area and the kind, so that
-- every type meets every way of keeping the log on every kind of table, and in every area on some kind.
\set full ''
\getenv full PAWL_FULL
CREATE TABLE mx.cell AS
SELECT row_number() OVER (ORDER BY a.area, m.n, t.n) AS n, :'kind'::text AS kind, 'paths_' || a.name || '.sql' AS file,
t.type, m.mode
  FROM (VALUES (0, 'triggers', 0), (1, 'moving', 0), (2, 'statements', 0), (3, 'transactions', 0), (4, 'members', 0),
      (5, 'policies', 0),
               (6, 'foreign_keys', 0), (7, 'statements_17', 170000), (8, 'statements_18', 180000)) a(area, name, since)
  JOIN (VALUES (0, 'plain'), (1, 'several'), (2, 'range'), (3, 'list'), (4, 'two_level'), (5, 'inherited')) k(n, kind)
  ON k.kind = :'kind'
 CROSS JOIN (VALUES (0, 'stored'), (1, 'derived'), (2, 'off')) m(n, mode)
 -- PostgreSQL knows no foreign key on a domain over an enum
 CROSS JOIN LATERAL (SELECT CASE a.name WHEN 'foreign_keys' THEN 4 ELSE 5 END AS types) c
  JOIN LATERAL (VALUES (0, 'text'), (1, 'varchar'), (2, 'enum'), (3, 'text_domain'), (4, 'enum_domain')) t(n, type)
    ON t.n < c.types AND (:'full' <> '' OR t.n = (a.area + 2 * m.n + k.n) % c.types)
 WHERE current_setting('server_version_num')::int >= a.since;
SELECT CASE WHEN :'full' <> ''
    THEN is((SELECT count(*) FROM mx.cell c WHERE c.file = 'paths_triggers.sql'), 15::bigint, 'all cells of an area')
            ELSE is((SELECT count(DISTINCT (c.type, c.mode)) FROM mx.cell c), 15::bigint,
                'every type meets every way of keeping the log') END;
SELECT (:'kind' IN ('range', 'two_level'))::text AS moves, (:'kind' IN ('list', 'two_level'))::text AS splits_state,
    (:'kind' = 'two_level')::text AS two_level,
       (:'kind' IN ('range', 'list', 'two_level'))::text AS partitioned, (:'kind' = 'list')::text AS by_state,
       (:'kind' = 'inherited')::text AS inherits,
       (:'kind' <> 'list')::text AS free_state, (:'kind' <> 'several')::text AS terminal_deletable,
       -- where the state is a partition key PostgreSQL itself rejects some values first
       CASE :'kind' WHEN 'list' THEN '23514' WHEN 'two_level' THEN '23502' ELSE 'PW001' END AS null_rejected,
       CASE :'kind' WHEN 'list' THEN '23514' ELSE 'PW001' END AS unknown_rejected \gset
\set cell 0
\ir cells.sql
SELECT is(:cell - 1::bigint, (SELECT max(c.n) FROM mx.cell c), 'every cell had its turn');
