# What the programs say to a new user: versions, help, wrong names, files that are no JSON, packs that are not there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', 'create database bare; create database kernel; create role clerk login');
$node->safe_psql('kernel', 'create extension pawl');
$node->safe_psql('postgres', "create extension $_ cascade") for qw(pawl_dag pawl_bulk pawl_saga);

# What a program says on its two channels, and its exit status.
sub said
{
	my @command = @_;
	my $run = begin_program($node, @command);
	my $status = end_program($run);
	return ($status, $run->{out}, $run->{err});
}

# A complaint: its first line, and that nothing of pawl's own insides is in it.
sub complains
{
	my ($status, $first, $rest, $what, @command) = @_;
	my ($got, undef, $err) = said(@command);
	is($got, $status, "$what: exit status") or diag($err);
	like($err, qr/\A$first\n/, "$what: what is wrong");
	like($err, $rest, "$what: and what to do") if $rest;
	unlike($err, qr/ERROR:|CONTEXT|LINE \d|json\.exception|PL\/pgSQL|\n\n/, "$what: no more than that");
	return $err;
}

# Versions and help
for my $program (qw(pawl pawld))
{
	my ($status, $out) = said($program, '--version');
	is($status, 0, "$program --version");
	is($out, "$program " . one($node, "select extversion from pg_extension where extname = 'pawl'")
		. "\n", "is that of the extension");
}
my (undef, $help) = said('pawl', '--help');
like($help, qr/^Workflows \(pawl_dag\):\n(?:  .*\n)*?  start /m, 'commands stand in groups');
like($help, qr/^Exit status: 0 success; 1 a finding;.* 4 no connection/ms, 'and the exit codes below them');
my (undef, $daemon_help) = said('pawld', '--help');
like($daemon_help, qr/PAWLD_LONGEST_POLL_MS/, 'pawld --help says how variables are called');

# Usage
complains(2, 'pawl: which command\?', qr/pawl --help lists/, 'no command', 'pawl');
complains(2, 'pawl: there is no command "strat"', qr/pawl --help lists/, 'a command misspelt', 'pawl', 'strat',
	'order');
complains(2, 'pawl: there is no command "sumbit"', qr/pawl --help lists/, 'one below another', 'pawl', 'bulk',
	'sumbit');
complains(2, 'pawl: template is required', qr/pawl COMMAND --help/, 'an argument missing', 'pawl', 'start');
complains(2, 'pawld: .*--databse.*', qr/pawld --help/, 'an option of pawld misspelt', 'pawld', '--databse', 'x');

# The wrong database
my $hint = complains(3, 'pawl: schema "pawl" does not exist \[3F000\]',
	qr/^HINT:  create extension pawl; or --database/m, 'no pawl there', 'pawl', '-d', 'dbname=bare', 'health');
$hint = complains(3, 'pawl: relation "pawl_dag.tasks" does not exist \[42P01\]', qr/^HINT:  create extension/m,
	'no pack there', 'pawl', '-d', 'dbname=kernel', 'list');
my ($statement) = $hint =~ /^HINT:  (create extension [^;]*);/m;
$node->safe_psql('bare', $statement);
is((said('pawl', '-d', 'dbname=bare', 'list'))[0], 0, 'what the hint says helps, also where nothing of pawl was');
complains(4, 'pawl: connection to server .*database "nope" does not exist', undef, 'a database that is not there',
	'pawl', '-d', 'dbname=nope', 'list');
complains(3, 'pawl: permission denied for schema pawl_dag \[42501\]', undef, 'no rights: the code is there too', 'pawl',
	'-d', 'user=clerk', 'list');

# Names that are not there
define_template($node, '{"name": "shop", "namespace": "billing", "version": "1.0.0", "steps": [{"name": "one"}]}');
complains(3, 'pawl: unknown template "shop" in namespace "default" \[PW008\]',
	qr/^HINT:  defined: version 1\.0\.0 in namespace "billing"$/m, 'the wrong namespace', 'pawl', 'start', 'shop');
complains(3, 'pawl: unknown flow "trip" \[PW008\]', qr/^HINT:  select pawl_saga\.define/m, 'no flow at all', 'pawl',
	'saga', 'run', 'trip');
$node->safe_psql('postgres',
	q(select pawl_saga.define('{"flow": "linear", "name": "tour", "children": [{"task": "a"}]}')));
complains(3, 'pawl: unknown flow "trip" \[PW008\]', qr/^HINT:  defined: 'tour'$/m, 'a flow misspelt', 'pawl', 'saga',
	'run', 'trip');
complains(3, 'pawl: invalid input syntax for type uuid: "7" \[22P02\]', undef, 'what is no id', 'pawl', 'show', '7');

# What was typed comes back in whole characters, however long it is.
my $long = "\xc3\xa4" x 90;
for my $shift ('', 'x')
{
	my (undef, undef, $rejection) = $node->psql('postgres',
		qq(select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"tsk$shift": "$long"}]}')));
	like($rejection, qr/^DETAIL:  It is \{"tsk$shift": "(?:\xc3\xa4)+ \.\.\.\.$/m,
		"the beginning of what is no task, cut between characters, by a name of " . (3 + length $shift));
}

# Files and JSON
my $folder = PostgreSQL::Test::Utils::tempdir();
append_to_file("$folder/half.json", '{"name": ');
append_to_file("$folder/rows.csv", "mail,name\na\@x,Ann\n");
complains(2, "pawl: \Q$folder\E/half.json is no JSON: at line 1.*", undef, 'half a file', 'pawl', 'template',
	"$folder/half.json");
complains(2, 'pawl: --context is no JSON: at line 1.*', undef, 'half an option', 'pawl', 'start', 'shop', '--context',
	'{');
complains(2, 'pawl: cannot read /nowhere: No such file or directory', undef, 'a diagram that is not there', 'pawl',
	'check', '/nowhere');
complains(2, 'pawl: cannot read /nowhere.csv: No such file or directory', undef, 'rows that are not there',
	'pawl', 'bulk', 'submit', '/nowhere.csv', '--operation', 'users');
complains(3, 'pawl: there is no definition "users" \[P0002\]', qr/^HINT:  define it: select pawl_bulk\.define/m,
	'no definition at all', 'pawl', 'bulk', 'submit', "$folder/rows.csv", '--operation', 'users');

# A placeholder that stands for nothing would have all rows wait for one key.
sub users
{
	my ($key) = @_;
	return qq(select pawl_bulk.define('{"name": "users",
		"steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 day", "signal_key": "$key"}]}'));
}
my ($code, undef, $error) = $node->psql('postgres', users('ask-{row_id}'));
like($error,
	qr/ERROR:  the signal_key of step "ask" has an unknown placeholder \{row_id\}\n.*\nHINT:  use \{row\}, \{step\} or \{data\.<field>\}/s,
	'it is rejected');
is($node->safe_psql('postgres', users('{step}-ask-{data.mail}')), 1, 'those that are known are taken');
$node->safe_psql('postgres', 'grant pawl_worker to clerk');
complains(3, 'pawl: there is no definition "user" \[P0002\]', qr/^HINT:  defined: 'users'$/m,
	'a definition misspelt, by a worker',
	'pawl', '-d', 'user=clerk', 'bulk', 'submit', "$folder/rows.csv", '--operation', 'user');

# A signal that comes early is kept: what is said must not sound as if it were lost, or had done something.
my ($submitted, $operation) = said('pawl', 'bulk', 'submit', "$folder/rows.csv", '--operation', 'users');
is($submitted, 0, 'a file is submitted');
chomp $operation;
my ($signalled, $answer) = said('pawl', 'bulk', 'signal', $operation, '0-ask-a@x');
is($signalled, 0, 'a signal before its row waits');
is($answer, "early: no row waits for this key yet; it is kept for the one that will\n", 'is reported to be kept');
is(decode_json((said('pawl', '--json', 'bulk', 'signal', $operation, 'another'))[1])->{answer}, 'early',
	'for programs it is one word');

no_crash($node);
done_testing();
