# pawl act: one action on many tasks, dead letters, bulk operations or rows from the command line, without a daemon.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag', 'pawl_bulk' ]);

# What a command printed, decoded where it is JSON; its status and its errors.
sub pawl
{
	my (@arguments) = @_;
	my $run = begin_program($node, 'pawl', @arguments);
	my $status = end_program($run);
	my $out = (grep { $_ eq '--json' } @arguments) && $status < 2 ? decode_json($run->{out}) : $run->{out};
	return wantarray ? ($out, $status, $run->{err}) : $out;
}
sub counts { my ($of) = @_; return join ' ', @{$of}{qw(changed unchanged rejected)} }
sub cancelled { return one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}) }

define_template($node, '{"name": "many", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": '
	. '"shop.one"}]}');
$node->safe_psql('postgres',
	q{select count(*) from pawl_dag.start_tasks('many', array_fill('{}'::jsonb, array[1200]))});

# Without pawl_api
my ($out, $status, $err) = pawl('act', 'tasks', 'cancel', '--all');
is($status, 3, 'the actions need an extension');
like($err, qr/\[3F000\].*\nHINT:  create extension pawl_api cascade/s, 'which the error names');
$node->safe_psql('postgres', 'create extension pawl_api');

# All that match
(undef, $status, $err) = pawl('act', 'tasks', 'cancel');
is($status, 2, 'nothing named is not everything');
like($err, qr/name tasks, a filter, or --all/, 'and the error says so');
my $dry = pawl('--json', 'act', 'tasks', 'cancel', '--name', 'many', '--dry-run');
is(counts($dry), '1200 0 0', 'a dry run counts what would change');
is(cancelled(), 0, 'and changes nothing');
like(scalar pawl('act', 'tasks', 'cancel', '--all', '--dry-run'),
	qr/^1200 would change, 0 would stay as they are, 0 would be rejected\n  1200 pending: changed$/m,
	'for people it is a line for each state and reason');
my $kept = one($node, 'select min(task_uuid::text) from pawl_dag.tasks');
$node->safe_psql('postgres', qq{create function keep() returns trigger language plpgsql as \$\$ begin
	if new.state = 'cancelled' then raise 'the customer has paid'; end if; return new; end \$\$;
	create trigger keep before update on pawl_dag.tasks for each row when (old.task_uuid = '$kept')
		execute function keep()});
($out, $status) = pawl('--json', 'act', 'tasks', 'cancel', '--name', 'many', '--reason', 'wrong file');
is($status, 1, 'an action of which one is rejected ends with 1');
is(counts($out), '1199 0 1', 'and has done all others, in several requests');
is("$out->{failed}[0]{id} $out->{failed}[0]{sqlstate}", "$kept P0001", 'the rejected one is named');
is(cancelled(), 1199, 'as the tables have it');
is(one($node, q{select count(*) from pawl_dag.task_transitions where metadata ->> 'reason' = 'wrong file'}), 1199,
	'and the log, with the reason');
($out, $status) = pawl('act', 'tasks', 'cancel', $kept);
like($out, qr/^0 changed, 0 unchanged, 1 rejected\n.*\n\Q$kept\E  the customer has paid \[P0001\]$/ms,
	'one task is named by its id');
$node->safe_psql('postgres', 'drop trigger keep on pawl_dag.tasks');
is((pawl('act', 'tasks', 'cancel', $kept))[1], 0, 'an action that has changed something ends with 0');
is((pawl('act', 'tasks', 'cancel', $kept))[1], 1, 'one that has changed nothing ends with 1');

# Wrong command lines
for ([ 'tasks', 'explode', '--all' ], [ 'tasks' ], [ 'tasks', 'cancel', $kept, '--all' ],
	[ 'tasks', 'cancel', '--name' ], [ 'tasks', 'cancel', '--status', 'x' ], [ 'rows', 'retry' ],
	[ 'rows', 'retry', $kept, 'x' ], [ 'rows', 'retry', $kept ])
{
	is((pawl('act', @$_))[1], 2, "usage: act @$_");
}
for ([ 'tasks', 'cancel', 'x' ], [ 'tasks', 'give_up', '--all' ], [ 'tasks', 'cancel', '--after', 'soon' ],
	[ 'rows', 'retry', $kept, 1 ])
{
	($out, $status, $err) = pawl('act', @$_);
	is($status, 3, "rejected by the database: act @$_");
	like($err, qr/\[\w{5}\]/, 'with its SQLSTATE');
}

# Rows, operations, dead letters
$node->safe_psql('postgres', q{select pawl_bulk.define('{"name": "signed", "is_retryable": true, "track_row_data": '
	'true, "steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 day", '
	'"signal_key": "go-{row}"}]}')});
my $operation = one($node, q{select operation from pawl_bulk.submit('signed',
	rows => (select jsonb_agg(jsonb_build_object('id', g)) from generate_series(1, 6) g))});
sub run_duties { return end_program(begin_program($node, 'pawld', '--once')) }
run_duties();
is(counts(scalar pawl('--json', 'act', 'rows', 'fail', $operation, 1, 2, '--reason', 'no answer')), '2 0 0',
	'rows that wait for a signal fail');
is(counts(scalar pawl('--json', 'act', 'rows', 'complete', $operation, '--state', 'WaitingForCompletion')), '4 0 0',
	'or are completed, all that match');
run_duties();
is(counts(scalar pawl('--json', 'act', 'rows', 'retry', $operation, '--all')), '2 4 0', 'and failed ones are retried');
is(one($node, "select status from pawl_bulk.operations where operation = '$operation'"), 'Retrying',
	'by one retry of the operation');
is(counts(scalar pawl('--json', 'act', 'bulks', 'pause', '--definition', 'signed')), '1 0 0',
	'operations that match are paused');
is(counts(scalar pawl('--json', 'act', 'bulks', 'cancel', $operation)), '1 0 0', 'or cancelled by their id');
define_template($node, '{"name": "fails", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": '
	. '"sql:public.missing"}]}');
$node->safe_psql('postgres', q{select count(*) from pawl_dag.start_tasks('fails', array_fill('{}'::jsonb, array[3]))});
run_duties();
is(counts(scalar pawl('--json', 'act', 'dlq', 'retry', '--text', 'public.missing', '--dry-run')), '3 0 0',
	'dead letters are found by a text of their error');
is(counts(scalar pawl('--json', 'act', 'dlq', 'give_up', '--all', '--reason', 'no such function')), '3 0 0',
	'and given up');
is(one($node, q{select count(*) from pawl_dag.dlq where resolution_status = 'pending'}), 0, 'none is left');
no_crash($node);
done_testing();
