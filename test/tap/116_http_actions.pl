# One action on many tasks over HTTP: in bounded requests, each task with an outcome of its own, whatever others do
# meanwhile, and once however often a request is sent.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use KeptSession;
use PawlApi;
use PawlPrograms;
use PawlTest;
use POSIX ();
use Test::More;

my $node = api_cluster('main', qw(pawl_dag pawl_bulk));
define_template($node, '{"name": "many", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": '
	. '"shop.one"}]}');
$node->safe_psql('postgres',
	q{select count(*) from pawl_dag.start_tasks('many', array_fill('{}'::jsonb, array[3000]))});
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $reader = make_token($node, 'pawl_reader', 'rita', '{read,operate}');
my $api = begin_api($node);

sub act
{
	my ($body, %how) = @_;
	my $got = ask('POST', $how{path} // '/v1/tasks/actions', token => $how{token} // $operator, body => $body,
		headers => { $how{key} ? ('Idempotency-Key' => $how{key}) : () });
	diag($got->{content}) if $got->{status} >= 400 && !$how{fails};
	return $how{fails} ? $got : $got->{json};
}

# All requests of an action; how many, the sums, the items that were rejected.
sub whole
{
	my ($body) = @_;
	my ($requests, %sum, @rejected, $cursor) = (0);
	do
	{
		my $part = act({ %$body, defined $cursor ? (cursor => $cursor) : () });
		$requests++;
		$sum{$_} += $part->{$_} for qw(changed unchanged rejected);
		push @rejected, grep { $_->{outcome} eq 'rejected' } @{ $part->{items} };
		$cursor = $part->{next};
	} while (defined $cursor && $requests < 1000);
	return (\%sum, $requests, \@rejected);
}

my $cancel = { action => 'cancel', filter => { name => 'many' } };
my ($sum, $requests) = whole({ %$cancel, dry_run => JSON::PP::true });
is_deeply($sum, { changed => 3000, unchanged => 0, rejected => 0 }, 'a dry run counts 3,000 tasks');
cmp_ok($requests, '<=', 3, 'in a few requests');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}), 0, 'and changes none');
is(act($cancel, token => $reader, fails => 1)->{json}{sqlstate}, '42501',
	'a role without the right is told so at once');

# The same request twice
my $first = act({ %$cancel, limit => 10 }, key => 'k1');
is($first->{changed}, 10, 'ten are cancelled');
is_deeply(act({ %$cancel, limit => 10 }, key => 'k1'), $first, 'a request that is repeated has the same answer');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}), 10, 'and does nothing again');
is(act({ %$cancel, limit => 11 }, key => 'k1', fails => 1)->{status}, 422, 'its key is for no other request');

# A task that another transaction keeps, one that a trigger protects, one that ends between the dry run and the action
my ($locked, $protected, $ended) = split /\n/, $node->safe_psql('postgres',
	q{select task_uuid from pawl_dag.tasks where state <> 'cancelled' order by task_uuid offset 500 limit 3});
my $keeper = KeptSession->begin($node->connstr('postgres'));
$keeper->ask("begin; select state from pawl_dag.tasks where task_uuid = '$locked' for update");
$node->safe_psql('postgres', qq{
	create function protect() returns trigger language plpgsql as \$\$ begin
		if new.state = 'cancelled' then raise 'task % is protected', new.task_uuid; end if; return new; end \$\$;
	create trigger protect before update on pawl_dag.tasks for each row when (old.task_uuid = '$protected')
		execute function protect()});
$node->safe_psql('postgres', "select pawl_dag.resolve_task('$ended', 'by phone')");
my $rejected;
($sum, $requests, $rejected) = whole({ %$cancel, reason => 'wrong file', limit => 500 });
is_deeply($sum, { changed => 2987, unchanged => 10, rejected => 3 }, 'three are rejected, all others are cancelled');
cmp_ok($requests, '<', 40, "in $requests requests");
is_deeply({ map { ($_->{id} => "$_->{sqlstate} $_->{reason}") } @$rejected },
	{ $locked => '55P03 another transaction has locked it', $protected => "P0001 task $protected is protected",
		$ended => 'PW001 event "Cancel" is not possible in state "resolved_manually"' }, 'each with its own reason');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}), 2997, 'as the tables have it');
is(one($node, q{select count(*) from pawl_dag.task_transitions where metadata ->> 'reason' = 'wrong file'
	and processor = 'otto'}), 2987, 'and the log, with the reason and the person');
$keeper->end;
is(act({ action => 'cancel', ids => [ $locked, $protected ] })->{changed}, 1,
	'those that were rejected are tried again by their ids');

# Two operators at a time
$node->safe_psql('postgres', q{drop trigger protect on pawl_dag.tasks;
	select count(*) from pawl_dag.start_tasks('many', array_fill('{}'::jsonb, array[400]))});
my @both = map {
	my $n = $_;
	my $pid = fork // die;
	if (!$pid) { my ($s) = eval { whole({ %$cancel, limit => 100 }) }; POSIX::_exit($s ? 0 : 1) }
	$pid
} 1, 2;
my $failed = 0;
for (@both) { waitpid $_, 0; $failed++ if $? }
is($failed, 0, 'two operators act on the same tasks');
whole($cancel);  # what the one or the daemon had locked
is(one($node, q{select count(*) from pawl_dag.tasks where state not in ('cancelled', 'resolved_manually')}), 0,
	'and no task is left');
is(one($node, q{select count(*) from (select task_uuid from pawl_dag.task_transitions where event = 'Cancel'
	group by 1 having count(*) > 1) x}), 0, 'each was cancelled once');

# A statement timeout that is short
end_program($api->{run}, 'TERM');
$node->safe_psql('postgres',
	q{select count(*) from pawl_dag.start_tasks('many', array_fill('{}'::jsonb, array[3000]))});
$api = begin_api($node, '--api-timeout-ms', '1500');
my $changed = 0;
for (1 .. 5)
{
	($sum, $requests) = whole($cancel);
	$changed += $sum->{changed};
	last if !$sum->{rejected} || $changed == 3000;
}
is($changed, 3000, "a request ends before its statement times out: $requests requests");
end_program($api->{run}, 'TERM');
no_crash($node);
done_testing();
