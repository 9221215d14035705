# pawl apply is cut off, its backend or the server is killed, before and after every statement of it; and two apply at
# once. Everything is there afterwards, or nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table orders (id integer primary key, state text not null, owner text, lease timestamptz);
insert into orders (id, state) select g, 'paid' from generate_series(1, 20) g;
SQL
my $front = "pawl:\n  machine: order\n  tables:\n    - {table: orders, column: state, log: {keep: 1 year}}\n";
my $folder = folder_with('order.mmd' => orders_diagram($front));
is((command($node, 'apply', $folder))[1], 0, 'the first state of the files is applied');
put($folder, 'order.mmd', orders_diagram($front, orders_diagram('') =~ s/paid/billed/gr)
	=~ s/  machine: order\n/  machine: order\n  remap: {paid: billed}\n/r
	=~ s/log: \{keep: 1 year\}/log: {keep: 2 years}, on_delete: deny, events: true/r);

# What is to change: machines, policies, rows and log.
sub picture
{
	return definitions($node) . one($node, q{select string_agg(id || state, ' ' order by id) from orders})
		. one($node, 'select count(*) from orders_transitions');
}
my $before = picture();

# Its statements, as the proxy sees them in a run that is undone at the end.
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
is(end_program(begin_through($proxy, $node, 'pawl', 'apply', '--dry-run', $folder)), 0, 'a dry run goes well');
is(picture(), $before, 'and changes nothing');
my @statements = grep { !/^(?:ROLLBACK|COMMIT)/i } $proxy->statements;
cmp_ok(scalar(grep { /^select pawl\./ } @statements), '>=', 4, 'the steps are among the statements');
my $commit = 'COMMIT';

sub accident
{
	my ($statement, $when, $what) = @_;
	my $name = "$what $when " . (substr($statement, 0, 50) =~ s/\s+/ /gr);
	my $life = $what eq 'backend' ? server_life($node) : '';
	$proxy->arm([ $statement, $when, $what ]);
	my $run = begin_through($proxy, $node, 'pawl', 'apply', '--yes', $folder);
	my $status = end_program($run);
	my $fired = $proxy->fired(1);
	$proxy->arm();
	if ($what eq 'backend')
	{
		wait_until(sub { server_life($node) ne $life }, 'the server to begin again');
	}
	is($fired, 1, "$name: the accident happens");
	is($status, 4, "$name: apply ends with 4") or diag($run->{err});
	is(picture(), $before, "$name: nothing is half done");
	return;
}
for my $statement (@statements)
{
	accident($statement, $_, 'cut') for qw(before after);
}
accident($_, 'before',
	'backend') for $ENV{PAWL_LONG} ? @statements : grep { /pawl\.upgrade|pawl\.enforce/ } @statements;
accident($commit, 'before', 'cut');

# The server is killed in the middle.
$proxy->arm([ (grep { /pawl\.upgrade/ } @statements)[0], 'after', 'cut' ]);
my $run = begin_through($proxy, $node, 'pawl', 'apply', '--yes', $folder);
$proxy->fired(5);
kill_server($node);
$node->start;
is(end_program($run), 4, 'a server that is killed ends apply with 4');
is(picture(), $before, 'and leaves nothing half done');

# Two at once: a third session keeps both before their first step, then they go on.
my $gate = $node->background_psql('postgres');
$gate->query_safe('begin; lock table orders in share row exclusive mode');
my @both = map { begin_program($node, 'pawl', 'apply', '--yes', '--lock-timeout', '0', $folder) } 1 .. 2;
becomes(sub { $both[0]{harness}->pump_nb; $both[1]{harness}->pump_nb; one($node,
	q{select count(*) from pg_locks where not granted}) },
	'2', 'one waits for the table, the other for its turn')
  or diag("$both[0]{out}$both[0]{err}$both[1]{out}$both[1]{err}");
$gate->query_safe('rollback');
$gate->quit;
my @status = map { end_program($_) } @both;
is("@status", '0 0', 'both end well') or diag("$both[0]{out}$both[0]{err}$both[1]{out}$both[1]{err}");
is(scalar(grep { $_->{out} =~ /Applied\./ } @both), 1, 'one of them has applied it');
is(scalar(grep { $_->{out} =~ /Nothing to do/ } @both), 1, 'the other found nothing to do');
is(one($node, q{select count(*) from pawl.machine where machine = 'order'}), '2', 'the machine has one new version');

# After the commit the answer is lost: it is applied.
put($folder, 'order.mmd', slurp_file("$folder/order.mmd") =~ s/on_delete: deny/on_delete: allow/r);
$proxy->arm([ $commit, 'after', 'cut' ]);
$run = begin_through($proxy, $node, 'pawl', 'apply', '--yes', $folder);
is(end_program($run), 4, 'an answer to the commit that is lost ends with 4');
like($run->{err}, qr/all steps were applied or none; pawl plan says which/, 'and the message says what to do');
is((command($node, 'plan', '--exit-code', $folder))[1], 0, 'it was applied, and pawl plan says so');

# Two with different files: the second one's plan is no longer true.
$gate = $node->background_psql('postgres');
my $other = folder_with('order.mmd' => slurp_file("$folder/order.mmd") =~ s/on_delete: allow/on_delete: terminal/r);
put($folder, 'order.mmd', slurp_file("$folder/order.mmd") =~ s/on_delete: allow/on_delete: deny/r);
$gate->query_safe(q{begin; select pawl.acquire_lock(hashtextextended('pawl apply', 0))});
my $late = begin_program($node, 'pawl', 'apply', '--yes', $other);
becomes(sub { $late->{harness}->pump_nb; $late->{err} =~ /another session applies/ ? 1 : 0 }, '1',
	'a session waits for its turn');
$gate->query_safe(q{select pawl.enforce('orders', 'state', 'order', on_delete => 'deny'); commit});
$gate->quit;
is(end_program($late), 1, 'a plan that is no longer true is rejected');
like($late->{out}, qr/has changed since the plan was made/, 'and says why');
is(one($node, 'select on_delete from pawl.binding'), 'deny', 'what the first session did is kept');
sound($node, 'after all accidents');

$proxy->end;
done_testing();
