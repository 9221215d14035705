# Every route of the document: with no token, a wrong one, a reader's, an operator's. What is answered fits the
# document, and what the document has is what the database and the server have.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('routes', qw(pawl_dag pawl_bulk pawl_saga));
define_template($node, '{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": '
	. '"shop.pack"}, {"name": "ship", "handler": "shop.ship", "dependencies": ["pack"]}]}');
$node->safe_psql('postgres', q{
	select
		pawl_bulk.define('{"name": "import", "is_retryable": true, "track_row_data": true, "row": {"required": ["id"],
    "properties": {"id": {"maxLength": 3}}},
	    "steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 h", "signal_key": "go-{row}"}]}');
	select pawl_saga.define('{"name": "trip", "flow": "linear", "children": [{"task": "hotel"}, {"task": "train"}]}');
});
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $api = begin_api($node, '--api-failed-logins', '1000000');
my $document = ask('GET', '/openapi.json')->{json};

my @answers;
sub kept
{
	my ($operation, $got) = @_;
	push @answers, { operation => $operation, status => $got->{status}, type => $got->{type}, body => $got->{json}
		// $got->{content} };
	return $got;
}

my $task = ask('POST', '/v1/tasks', token => $operator, body => { name => 'order' })->{json};
my $bulk = $node->safe_psql('postgres',
	q{select operation from pawl_bulk.submit('import', rows => '[{"id": "a"}, {"id": "long"}]')});
$node->poll_query_until('postgres',
		"select exists (select from pawl_bulk.work where operation = '$bulk' and kind = 'signal')")
	or die 'no row waits';
my $flow = ask('POST', '/v1/flows', token => $operator, body => { name => 'trip' });
is($flow->{status}, 201, 'a flow is started') or BAIL_OUT($flow->{content});
$flow = $flow->{json};
my $job = ask('POST', '/v1/jobs', token => $operator, body => { name => 'later' })->{json};
my %path = (task => $task->{task_uuid}, step => $task->{workflow_steps}[0]{step_uuid}, machine => 'pawl_dag.task',
	id => $bulk, key => 'go-1', flow => $flow->{flow_uuid},
	atom => 'hotel', job => $job->{job_uuid}, row => 1, namespace => 'default', name => 'order',
	version => $task->{version});
my %query = (history => "?relation=pawl_dag.tasks&key=$path{task}",
	available => "?relation=pawl_dag.tasks&key=$path{task}");
my %body = (fire => { relation => 'pawl_dag.tasks', key => $path{task}, event => 'Cancel' },
	start_task => { name => 'order' }, start_flow => { name => 'trip' }, post_job => { name => 'x' },
	retry_bulk_rows => { rowNumbers => [1] }, check_diagram => { diagram => "stateDiagram-v2\n[*] --> a" },
	map { ($_ => { action => 'retry', filter => {} }) } qw(act_on_tasks act_on_dlq act_on_bulks act_on_bulk_rows));

my ($routes, @wrong, %named) = (0);
for my $template (sort keys %{ $document->{paths} })
{
	for my $method (sort keys %{ $document->{paths}{$template} })
	{
		my $operation = $document->{paths}{$template}{$method};
		my $name = $operation->{operationId};
		my $scope = $operation->{'x-scope'};
		++$routes;
		$named{$name} = { %$operation, method => $method };
		my %here = (%path, $template =~ m{^/api/operations} ? (name => 'import') : ());
		my $path = ($template =~ s/\{(\w+)\}/$here{$1} \/\/ die "no value for $1"/ger) . ($query{$name} // '');
		my %how = $method eq 'post' ? (body => $body{$name} // { reason => 'test' }) : ();
		$how{body} = {} if $method eq 'post' && $template =~ m{^/api/bulks} && !$body{$name};
		my $said = sub { push @wrong, "$method $template $_[0]: $_[1]{status} $_[1]{content}" };
		next if $name eq 'stream_events';  # a test of its own
		my $none = kept($name, ask(uc $method, $path, %how));
		$said->('without a token', $none) if $none->{status} != ($scope eq '' ? 200 : 401);
		next if $scope eq '';
		my $stranger = ask(uc $method, $path, %how, token => 'pawl_' . 'x' x 43);
		$said->('with a wrong token', $stranger) if $stranger->{status} != 401;
		my $read = kept($name, ask(uc $method, $path, %how, token => $reader));
		my $may = $scope eq 'read' ? qr/^2/ : qr/^403/;
		$said->('by a reader', $read) unless $read->{status} =~ $may;
		next if $scope eq 'read';
		my $operate = kept($name, ask(uc $method, $path, %how, token => $operator));
		# that the state is another one by now is an answer of the database; that it may not is none
		$said->('by an operator', $operate) unless $operate->{status} =~ /^(2..|409|415|404)$/;
	}
}
is(join("\n", @wrong), '', "$routes routes answer the roles that they are for");

my $served = join ' ', sort grep { !$named{$_}{'x-native'} } keys %named;
is($served, one($node, q{select string_agg(p.proname, ' ' order by p.proname collate "C") from pg_proc p
          where p.pronamespace = 'pawl_api'::regnamespace
	and p.proname !~ '^_'
          and p.prorettype in ('json'::regtype, 'jsonb'::regtype) and p.proname <> 'once'}) =~ s/ +/ /gr,
	'the document has every function that is a route, and no other');
is(join(' ', grep { ($named{$_}{method} eq 'post') != ($named{$_}{'x-scope'} eq 'operate') } sort keys %named),
	'check_diagram', 'what is posted operates, but for a text that is too long for an address; what is got reads');

my $file = "$ENV{TESTDATADIR}/answers";
open my $out, '>', $file or die $!;
print $out JSON::PP->new->utf8->allow_nonref->encode($_), "\n" for @answers;
close $out;
my $misfits = `python3 $FindBin::Bin/fits_openapi.py $FindBin::Bin/../../client/http/openapi.json < $file 2>&1`;
is($misfits, '', scalar(@answers) . ' answers fit the document');

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
