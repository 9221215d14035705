-- The cells of mx.cell after :cell, one after the other: psql has no loop, so this file includes itself.
SELECT :cell + 1 AS cell \gset
SELECT EXISTS (SELECT FROM mx.cell c WHERE c.n = :cell)::text AS more \gset
\if :more
SELECT c.file, c.type, c.mode, (c.mode <> 'off')::text AS logged, mx.type_name(c.type) AS state_type
  FROM mx.cell c WHERE c.n = :cell \gset
SELECT mx.build(:'kind', :'type', :'mode');
\ir :file
\ir cells.sql
\endif
