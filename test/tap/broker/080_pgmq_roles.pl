# PGMQ where pawld and workers are roles of their own and neither owns it: what
# docs/providers.md has an operator grant is enough, and needed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Messages;
use Pgmq;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);
workflows($node);
install_pgmq($node);
my %settings = (PAWL_PROVIDER => 'pgmq');
$node->safe_psql('postgres',
	q{create role the_worker login in role pawl_worker; create role the_publisher login in role pawl_worker});
my $queue = 'pawl_pawl_dag_steps_defaul_d86a9830f408bb29';
sub messages { return one($node, "select count(*) from pgmq.q_$queue") }

# Without any right to PGMQ: both say it, the work is done.
my $daemon = publisher($node, \%settings, as => 'the_publisher', alone => 1);
log_has($daemon, qr/consumer created/);
begin_tasks($node, 5);
log_has($daemon, qr/nothing is published.*permission denied for schema pgmq/);
my $worker = told_worker($node, \%settings, as => 'the_worker', alone => 1);
log_has($worker, qr/no messages, polling for work instead: .*permission denied for schema pgmq/);
all_done($node, 'without rights');

# A worker that may not make the queue tells its name, and an operator makes it.
$node->safe_psql('postgres', q{grant usage on schema pgmq to pawl_worker; grant select on pgmq.meta to pawl_worker});
log_has($worker, qr/queue $queue cannot be created: .*permission denied/);
my @grants = ("grant select, insert, update, delete on pgmq.q_$queue to pawl_worker",
	"grant select, insert on pgmq.a_$queue to pawl_worker");
$node->safe_psql('postgres', "begin; select pgmq.create('$queue'); $grants[0]; $grants[1]; commit");
log_has($worker, qr/messages come from pgmq/);
begin_tasks($node, 20);
all_done($node, 'a queue that an operator made');
once($node, 'a queue that an operator made');
$node->safe_psql('postgres', qq{select pgmq.send('$queue', '"hello"')});
is($node->poll_query_until('postgres', "select count(*) = 1 from pgmq.a_$queue"), 1,
	'an unreadable message is archived');
is($node->poll_query_until('postgres', "select count(*) = 0 from pgmq.q_$queue"), 1, 'all is acknowledged');

# The queue is emptied, and dropped, while a worker listens.
$node->safe_psql('postgres', "truncate pgmq.q_$queue");
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
my ($told) = $worker->{out} =~ /, (\d+) by message$/m;
cmp_ok($told, '>=', 60, 'it got a message for each step');
$node->safe_psql('postgres', "select pgmq.drop_queue('$queue')");

# A worker that may make queues makes them for the others as well. Older PGMQ (seen in 1.5.2) keeps queues as members of
# the extension, whose owner alone makes them.
$node->safe_psql('postgres', q{grant create on schema pgmq to pawl_worker; grant insert on pgmq.meta to pawl_worker});
$worker = told_worker($node, \%settings, as => 'the_worker', alone => 1);
if (one($node, q{select prosrc ~ 'ALTER EXTENSION' from pg_proc
		where oid = to_regprocedure('pgmq.create_non_partitioned(text)')}) eq 't')
{
	log_has($worker, qr/queue $queue cannot be created: .*must be owner of extension pgmq/);
	$node->safe_psql('postgres', "begin; select pgmq.create('$queue'); $grants[0]; $grants[1]; commit");
}
log_has($worker, qr/messages come from pgmq/);
begin_tasks($node, 20);
all_done($node, 'a queue that a worker made');
once($node, 'a queue that a worker made');
is($node->poll_query_until('postgres', "select count(*) = 0 from pgmq.q_$queue"), 1, 'all is acknowledged');
$node->safe_psql('postgres', q{create role another_worker login in role pawl_worker});
my $another = told_worker($node, \%settings, as => 'another_worker');
begin_tasks($node, 20);
all_done($node, 'workers of two roles');
once($node, 'workers of two roles');
is(end_program($_, 'TERM'), 0, 'a worker ends well') for $worker, $another;
($told) = ($worker->{out} . $another->{out}) =~ /, (\d+) by message$/m;
cmp_ok($told, '>', 0, 'the worker learned of work by messages');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});

sound($node, 'after all of it');
no_crash($node);
done_testing();
