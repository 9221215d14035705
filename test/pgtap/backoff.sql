-- pawl.backoff: the policy as JSON, its defaults, its limits, its errors. The arithmetic itself is tested in test/unit.
\set QUIET 1
select no_plan();

select is((select array_agg(pawl.backoff(k, '{"jitter": "none"}')::text order by k) from generate_series(1, 8) k),
    '{00:00:01,00:00:02,00:00:04,00:00:08,00:00:16,00:00:32,00:01:00,00:01:00}',
    'an empty policy is exponential, from 1 s to 60 s');
select is((select array_agg(extract(epoch from pawl.backoff(k, '{"strategy": "fibonacci", "base": "500 ms", '
        '"jitter": 0}'))::float8 order by k)
             from generate_series(1, 6) k), '{0.5,0.5,1,1.5,2.5,4}',
    'the fibonacci strategy adds the two delays before');
select is((select array_agg(extract(epoch from pawl.backoff(k, '{"strategy": "linear", "base": "00:00:02", "cap": "5 '
        's", "jitter": "none"}'))::float8 order by k)
             from generate_series(1, 4) k), '{2,4,5,5}', 'linear, under a cap');
select is(pawl.backoff(7, '{"strategy": "none"}'), interval '0', 'none waits for nothing');
select is(pawl.backoff(4, '{"base": "1 s", "multiplier": 1.5, "jitter": "none"}'), interval '3.375 s',
    'a multiplier of its own');
select is(pawl.backoff(2147483647, '{"cap": "1 h", "jitter": "none"}'), interval '1 hour', 'any number of attempts');
select is(pawl.backoff(1, '{"base": "1 mon", "cap": "100 days", "jitter": "none"}'), interval '720 hours',
    'a month is 30 days');

select ok(bool_and(d between interval '0.9 s' and interval '1.1 s')
    and count(distinct d) > 50, 'by default a tenth of jitter')
  from (select pawl.backoff(1, '{}') d from generate_series(1, 200)) x;
select ok(bool_and(d between interval '0' and interval '10 s')
    and min(d) < interval '5 s', 'full jitter spreads a delay from 0 to its length')
  from (select pawl.backoff(1, '{"base": "10 s", "jitter": "full"}') d from generate_series(1, 200)) x;
select ok(bool_and(d between interval '5 s' and interval '10 s')
    and count(distinct d) > 50, 'equal jitter spreads a delay from half to its length')
  from (select pawl.backoff(1, '{"base": "10 s", "jitter": "equal"}') d from generate_series(1, 200)) x;
select ok(bool_and(d <= interval '60 s'), 'the cap holds over jitter')
    from (select pawl.backoff(30, '{"jitter": 1}') d from generate_series(1, 200)) x;

select is(pawl.backoff(30, '{}', interval '5 s'), interval '5 s',
    'a delay asked for replaces the formula and its jitter');
select is(pawl.backoff(1, '{}', interval '2 hours'), interval '60 s', 'under the same cap');
select is(pawl.backoff(1, '{}', interval '-1 s'), interval '0', 'and is nothing when it is past');

select throws_ok('select pawl.backoff(null, ''{}'')', '22004', 'attempts must not be null');
select throws_ok('select pawl.backoff(1, null)', '22004', 'policy must not be null');
select throws_ok('select pawl.backoff(0, ''{}'')', '22023', 'attempts must be 1 or more');
select throws_ok(format('select pawl.backoff(1, %L)', policy), '22023', message, policy)
  from (values ('[]', 'a backoff policy must be a JSON object'),
               ('"exponential"', 'a backoff policy must be a JSON object'),
               ('{"strategy": "quadratic"}', 'unknown backoff strategy "quadratic"'),
               ('{"strategy": 2}', '"strategy" of a backoff policy must be a name'),
               ('{"base": 5}', '"base" of a backoff policy must be an interval text'),
               ('{"base": ["1 s"]}', '"base" of a backoff policy must be an interval text'),
               ('{"base": "-1 s"}', 'base must not be negative in a backoff policy'),
               ('{"cap": "-1 us"}', 'cap must not be negative in a backoff policy'),
               ('{"cap": "1000 years"}', 'base and cap must not be longer than 100 years in a backoff policy'),
               ('{"multiplier": 0.5}', 'multiplier must be at least 1 in a backoff policy'),
               ('{"multiplier": 1e400}', 'multiplier must be at least 1 in a backoff policy'),
               ('{"multiplier": "2"}', '"multiplier" of a backoff policy must be a number'),
               ('{"jitter": -0.1}', 'jitter must be from 0 to 1 in a backoff policy'),
               ('{"jitter": 1.1}', 'jitter must be from 0 to 1 in a backoff policy'),
               ('{"jitter": "much"}', '"jitter" of a backoff policy must be a known name or a fraction'),
               ('{"jitter": true}', '"jitter" of a backoff policy must be a known name or a fraction'),
               ('{"jitter": null}', '"jitter" of a backoff policy must be omitted or not null'),
               ('{"max_attempts": 0}', '"max_attempts" of a backoff policy must be a positive integer'),
               ('{"max_attempts": 2.5}', '"max_attempts" of a backoff policy must be a positive integer'),
               ('{"max_attempts": 1e300}', '"max_attempts" of a backoff policy must be a positive integer'),
               ('{"delay": "1 s"}', 'unknown key "delay" in a backoff policy')) v(policy, message);
select throws_ok('select pawl.backoff(1, ''{"base": "soon"}'')', '22007',
    'invalid input syntax for type interval: "soon"');
select throws_ok('select pawl.backoff(1, ''{}'', interval ''178000000 years'')', '22015', 'asked is too long');

create role backoff_stranger;
set role backoff_stranger;
select lives_ok('select pawl.backoff(1, ''{}'')', 'any role may call it');
reset role;
drop role backoff_stranger;
select * from finish();
