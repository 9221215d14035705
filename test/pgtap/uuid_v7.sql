-- pawl.uuid_v7: version, variant, order, limits.
\set QUIET 1
select no_plan();
select is(substr(pawl.uuid_v7()::text, 15, 1), '7', 'the version is 7');
select matches(substr(pawl.uuid_v7()::text, 20, 1), '[89ab]', 'the variant is that of RFC 9562');
select is((select count(distinct pawl.uuid_v7(now())) from generate_series(1, 1000)), 1000::bigint,
    'a thousand of one moment are a thousand');
select is(left(pawl.uuid_v7('2022-02-22 19:22:22+00')::text, 13), '017f22e2-79b0',
    'the time stands in front: the example of RFC 9562');
select ok(pawl.uuid_v7('2024-01-01 00:00:00.001+00') < pawl.uuid_v7('2024-01-01 00:00:00.002+00'),
    'ordered by the millisecond');
select ok(pawl.uuid_v7('2024-01-01 00:00:00.001001+00') < pawl.uuid_v7('2024-01-01 00:00:00.001002+00'),
    'and by the microsecond');
select is(left(pawl.uuid_v7('1970-01-01 00:00:00+00')::text, 13), '00000000-0000',
    'the smallest time of a UUID is in 1970');
select is(left(pawl.uuid_v7('10889-08-02 05:31:50.655+00')::text, 13), 'ffffffff-ffff',
    'the largest time of a UUID is in 10889');
select is(pawl.uuid_v7(null), null, 'of no time none');
select throws_ok(format('select pawl.uuid_v7(%L)', at), '22008', 'timestamp out of range for a version 7 UUID',
    at || ' is out of range')
  from unnest(array['infinity', '-infinity', '1969-12-31 23:59:59.999999+00', '10889-08-02 05:31:50.656+00',
      '4713-01-01 BC']) at;
select * from finish();
