# A conductor whose jobs belong to its session: a cut connection costs it nothing, its death gives them back at once,
# without a lease that has to run out.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
one($node, q(select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "by hand"}]}')));
one($node, q(select count(pawl_saga.post('job ' || g, 'f', board => 'trips')) from generate_series(1, 3) g));
one($node, q(select pawl_saga.post('nonsense', 'no such flow', board => 'trips')));
my $tied = q(select count(*) from pawl_saga.jobs j join pawl_saga._session_locks() l on l.number = j.session_lock
    where j.state = 'CLAIMED' and j.lease_until > now() + interval '1 year');

my $first = begin_program($node, 'example_conductor', 0);
ok($node->poll_query_until('postgres', "select ($tied) = 3"), 'jobs are tied to the session of the conductor');
ok($node->poll_query_until('postgres', q(select trashed_for is not null from pawl_saga.jobs where name = 'nonsense')),
    'one that cannot begin is not');
is(one($node, 'select done from pawl_saga.release_jobs()'), 0, 'the duty leaves them');

# Its connection goes; the program lives, and takes up what it had.
my $sessions = q(select string_agg(pid::text, ',') from pawl_saga._session_locks());
my $before = one($node, $sessions);
is(one($node, "select pg_terminate_backend(pid) from pawl_saga._session_locks()"), 't', 'its session ends');
ok($node->poll_query_until('postgres', "select ($tied) = 3 and ($sessions) <> '$before'"),
    'its next session has all of them');
is(one($node, 'select done from pawl_saga.release_jobs()'), 0, 'so the duty leaves them again');
ok(wait_until(sub { $first->{harness}->pump_nb; 2 == (() = $first->{err} =~ /^conducts board/mg) }, 'its words'),
    'it says that it began again');
unlike($first->{err}, qr/: lost$/m, 'and lost nothing');

# Its flow ends while it has the job.
one($node, q(select count(*) from pawl_saga.claim('w', 'default', 1)));
one($node, q(select count(*) from pawl_saga.tasks t,
    pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token,
    'result', 1)), 'w') where t.worker = 'w'));
ok($node->poll_query_until('postgres', q(select count(*) = 1 from pawl_saga.jobs where state = 'COMPLETE')),
    'a job whose flow has ended is consumed');

# It dies; a session that was cut off meanwhile has lost its jobs, which were released.
kill_program($first);
ok($node->poll_query_until('postgres', 'select not exists (select from pawl_saga._session_locks())'),
    'with the program its session is gone');
is(one($node, 'select done from pawl_saga.release_jobs()'), 2, 'the duty gives its jobs back');
is(one($node, q(select count(*) from pawl_saga.job_transitions where event = 'gone')), 2, 'which the log says');
my $second = begin_program($node, 'example_conductor', 0);
ok($node->poll_query_until('postgres', "select ($tied) = 2"), 'the next conductor has them');
is(one($node, 'select count(*) from pawl_saga.flows'), 3, 'with the flows that there are');
kill('STOP', $second->{pid});
is(one($node, "select pg_terminate_backend(pid) from pawl_saga._session_locks()"), 't',
    'the session of one that stands still ends');
ok($node->poll_query_until('postgres', 'select not exists (select from pawl_saga._session_locks())'), 'it is gone');
is(one($node, 'select done from pawl_saga.release_jobs()'), 2, 'its jobs are on the board');
is(one($node, q(select count(pawl_saga.claim_job(job_uuid, 'another')) from pawl_saga.jobs where state = 'UNCLAIMED'
    and trashed_at is null)), 2, 'and another takes them');
kill('CONT', $second->{pid});
ok(wait_until(sub {
    $second->{harness}->pump_nb;
    ($second->{err} =~ tr/\n//) && 2 == (() = $second->{err} =~ /: lost$/mg)
}, 'the conductor to notice'), 'it tells that they are lost');
is(end_program($second, 'TERM'), 0, 'and ends well') or diag($second->{err});
like($second->{out}, qr/^2 claimed, 0 consumed, 0 given back, 0 trashed, 2 lost$/m, 'with the right count');
is(one($node, q(select string_agg(owner, ',') from pawl_saga.jobs where state = 'CLAIMED')), 'another,another',
    'without having touched them');

sound($node, 'after all of it');
no_crash($node);
done_testing();
