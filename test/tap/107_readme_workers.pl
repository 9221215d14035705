# The examples in C++, Python and TypeScript of the README, and those of the clients' READMEs, run as they are shown: on
# the tables that the README makes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $readme = slurp_file("$top/README.md");
my $node = new_cluster('main');
$node->safe_psql('postgres', 'create database shop');
$ENV{PAWL_TYPESCRIPT} = "$ENV{PAWL_PROGRAMS}/typescript";
$ENV{PYTHONPATH} = "$top/client/python";

sub shop { return scalar one($node, $_[0], 'shop') }

# The statements of the first example behind a heading, or of the page.
sub statements
{
	my ($heading) = @_;
	my ($text) = $readme =~ /@{[ defined $heading ? "^## $heading\\n.*?" : '' ]}^```sql\n(.*?)^```/ms;
	return $text;
}
$node->safe_psql('shop', "create extension $_ cascade") for qw(pawl pawl_dag pawl_bulk pawl_saga);
$node->safe_psql('shop', scalar statements() =~ s/^update orders .*//mr);
$node->safe_psql('shop', statements('Work queues'));

# The worker of the README in each language, on a thousand jobs.
my @readme = ("$FindBin::Bin/../workers/readme", "$top/README.md");
my %worker = (
	'C++' => ['readme_worker'],
	Python => [ '/usr/bin/python3', "$readme[0].py", $readme[1] ],
	TypeScript => [ '/usr/bin/env', 'node', "$readme[0].mjs", $readme[1] ],
);
for my $language (sort keys %worker)
{
	my $run = begin_program($node, @{ $worker{$language} });
	ok(wait_until(sub { shop(q(select count(*) from jobs where state <> 'done')) == 0 }, "$language: all jobs"),
		"$language: the worker of the README does all jobs");
	is(end_program($run, 'TERM'), 0, 'and SIGTERM stops it') or diag($run->{err});
	my %sent;
	$sent{$_}++ for $run->{out} =~ /^sent (\d+)$/mg;
	is(scalar(keys %sent), 1000, 'every job was handled') or diag($run->{err});
	is(join(' ', grep { $sent{$_} > 1 } sort keys %sent), '', 'and handled once');
	is(shop(q(select count(*) from jobs_transitions where to_state = 'done' and metadata = '{"sent": true}'
		and subject_id in (select id from jobs))), 1000, 'and the results are in the log')
		or diag(shop(q(select metadata, count(*) from jobs_transitions where to_state = 'done' group by 1)));
	$node->safe_psql('shop', 'delete from jobs; insert into jobs (id) select generate_series(1, 1000) + '
		. "(select max(subject_id) from jobs_transitions)");
}

# All examples of the clients' own pages: a worker on steps, calls, errors.
$node->safe_psql('shop', <<'SQL');
create function price(context jsonb, inputs jsonb) returns jsonb language sql as $$ select context -> 'amount' $$;
select pawl_dag.define_template('{"name": "bill", "namespace": "billing", "steps": [
    {"name": "price", "handler": "sql:public.price"},
    {"name": "charge", "handler": "charge_card", "dependencies": ["price"]}]}'),
    pawl_dag.define_template('{"name": "invoice", "steps": [{"name": "write"}]}');
SQL
my %page = (Python => 'client/python/README.md', TypeScript => 'client/typescript/README.md');
for my $language (sort keys %page)
{
	$node->safe_psql('shop', "select pawl_dag.start_task('bill', jsonb_build_object('card', 'visa', 'amount', n),
		'billing') from (values (5), (0)) v(n)");
	$node->safe_psql('shop', q(delete from orders; insert into orders values (1, 'cart'), (2, 'cart')));
	my $run = begin_program($node, (map { $_ eq $readme[1] ? "$top/$page{$language}" : $_ } @{ $worker{$language} }));
	ok(wait_until(sub {
			$node->safe_psql('shop', 'call pawl_dag.work_sql_steps(100); select pawl_dag.orchestrate(100)');
			shop(q(select count(*) from pawl_dag.tasks where namespace = 'billing'
				and state not in ('complete', 'error', 'blocked_by_failures'))) == 0 }, 'all tasks'),
		"$language: the worker of the page does its steps") or diag($run->{err});
	is(end_program($run, 'TERM'), 0, 'SIGTERM stops it, and the other examples run') or diag($run->{err});
	is(shop(q(select string_agg(distinct state || ' ' || coalesce(result::text, ''), ', ') from pawl_dag.steps
		where handler = 'charge_card')), 'complete {"receipt": "visa-1"}, error ', 'the results are as the page says');
	is(shop(q(select count(*) from pawl_dag.tasks where name = 'invoice')), 1, 'a task began');
	is(shop(q(select processor || ' ' || correlation_id from pawl.history('orders', 1)
		where to_state = 'paid' order by sort_key desc limit 1)),
		'web request 17', 'and an order was paid in the same transaction');
	like($run->{out}, qr/^From "cart" the machine allows: "paid" \(pay\), "cancelled" \(cancel\)\.$/m,
		'the error said what is possible');
	$node->safe_psql('shop', 'delete from pawl_dag.tasks');
}
done_testing();
