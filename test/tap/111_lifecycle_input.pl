# Lifecycles as files: bad folders, files, tables and rights; each is an error that says where, and changes nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table orders (id integer primary key, state text not null);
create table lines (order_id integer, line integer, state text not null, primary key (order_id, line));
create role planner login;
create role worker_only login;
grant pawl_admin to planner;
SQL

# The error of a command on a folder with these files, and its status.
sub rejected_files
{
	my ($expected, $name, %files) = @_;
	my $folder = folder_with(%files);
	my (undef, $status, $err) = command($node, 'plan', $folder);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 2, "$name: it is a usage error");
	like($err =~ s{\Q$folder\E/}{}gr, $expected, "$name: the message says where");
	return;
}

my $front = "pawl:\n  machine: order\n  tables:\n    - {table: orders, column: state}\n";
rejected_files(qr/has no file \*\.mmd/, 'a folder without diagrams', 'README.md' => '# none');
rejected_files(qr/^pawl: a\.mmd:1:1: expected 'stateDiagram-v2', found "flowchart"/, 'a file that is no state diagram',
	'a.mmd' => "flowchart TD\n  a --> b\n");
rejected_files(qr/a\.mmd:3:3: unknown key "machines"/, 'an unknown key',
	'a.mmd' => orders_diagram("pawl:\n  machines: x\n"));
rejected_files(qr/a\.mmd:1:1.*\n.*b\.mmd:1:1/s, 'two bad files are both named', 'a.mmd' => 'x', 'b.mmd' => 'y');
rejected_files(qr/b\.mmd:3:12: machine "order" is also in a\.mmd/, 'one machine in two files',
	'a.mmd' => orders_diagram("pawl:\n  machine: order\n"), 'b.mmd' => orders_diagram("pawl:\n  machine: order\n"));
rejected_files(qr/b\.mmd:5:7: column "state" of table orders is also in a\.mmd/, 'one column in two files',
	'a.mmd' => orders_diagram($front), 'b.mmd' => orders_diagram($front =~ s/order\n/other\n/r));
rejected_files(qr/b\.mmd:5:7: column "state" of table public\.orders is also in a\.mmd/,
	'one column in two files by two names', 'a.mmd' => orders_diagram($front),
	'b.mmd' => orders_diagram($front =~ s/order\n/other\n/r =~ s/orders/public.orders/r));
rejected_files(qr/is larger than 4 MB/, 'a huge file', 'a.mmd' => orders_diagram('', '%% ' . 'x' x 5_000_000));
rejected_files(qr/is not UTF-8/, 'a file of another encoding', 'a.mmd' => "\xff\xfes\0t\0");
rejected_files(qr/a\.mmd:5:50: "soon" is not valid for log\.keep/, 'an interval that is none',
	'a.mmd' => orders_diagram($front =~ s/state\}/state, log: {keep: soon}}/r));
is((command($node, 'plan', '/nowhere'))[1], 2, 'a folder that does not exist is a usage error');

# Links, and files that are no files
my $folder = folder_with('order.mmd' => orders_diagram($front));
my $elsewhere = folder_with('shared.mmd' => orders_diagram("pawl:\n  machine: shared\n"));
symlink("$elsewhere/shared.mmd", "$folder/linked.mmd") or die "symlink: $!";
like(scalar command($node, 'plan', $folder), qr/machine shared  new/, 'a symbolic link to a file is followed');
symlink("$elsewhere/gone.mmd", "$folder/broken.mmd") or die "symlink: $!";
my (undef, $status, $err) = command($node, 'plan', $folder);
is($status, 2, 'a symbolic link to nothing is an error');
like($err, qr/broken\.mmd: .*[Nn]o such file/, 'and is named in it');
unlink "$folder/broken.mmd", "$folder/linked.mmd";
mkdir "$folder/sub.mmd";
PostgreSQL::Test::Utils::system_or_bail('mkfifo', "$folder/pipe.mmd");
(undef, $status, $err) = command($node, 'plan', $folder);
is($status, 2, 'a named pipe is an error, and is not waited for');
like($err, qr/pipe\.mmd: is not a regular file/, 'and is named in its message');
unlink "$folder/pipe.mmd";
put($folder, '.hidden.mmd', 'no diagram');
is((command($node, 'plan', $folder))[1], 0, 'hidden files and folders are left out');
SKIP:
{
	chmod 0, "$folder/order.mmd";
	skip 'root reads every file', 1 if -r "$folder/order.mmd";
	is((command($node, 'plan', $folder))[1], 2, 'a file that cannot be read is an error');
}
chmod 0644, "$folder/order.mmd";
put($folder, 'order.mmd', "\xEF\xBB\xBF" . orders_diagram($front) =~ s/\n/\r\n/gr);
is((command($node, 'apply', $folder))[1], 0, 'a file with byte order mark and CRLF is applied');
put($folder, 'order.mmd', orders_diagram($front));
is((command($node, 'plan', '--exit-code', $folder))[1], 0, 'and without them it is the same');

# Tables and functions that are not there, and rows in other states
sub problem_of
{
	my ($expected, $name, $diagram) = @_;
	my ($text, $status) = command($node, 'plan', folder_with('a.mmd' => $diagram));
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 1, "$name: the plan ends with 1");
	like($text, $expected, "$name: the plan says why");
	is((command($node, 'apply', '--yes', folder_with('a.mmd' => $diagram)))[1], 1, "$name: nothing is applied");
	return;
}
my $lines = "pawl:\n  machine: line\n  tables:\n    - {table: lines, column: state}\n";
problem_of(qr/a\.mmd:5:7: table nowhere does not exist/, 'a missing table',
	orders_diagram($lines =~ s/lines/nowhere/r));
problem_of(qr/has no column "status"/, 'a missing column', orders_diagram($lines =~ s/column: state/column: status/r));
problem_of(qr/a\.mmd:9:5: no function "is_paid"/, 'a missing guard',
	orders_diagram($lines, "stateDiagram-v2\n    [*] --> a\n    a --> b : go [is_paid]\n    b --> [*]\n"));
$node->safe_psql('postgres', q{insert into lines values (1, 1, 'strange'), (1, 2, 'strange'), (1, 3, 'cart')});
problem_of(qr/rows in no state of machine line: "strange" 2/, 'rows in other states', orders_diagram($lines));
$node->safe_psql('postgres', q{update lines set state = 'cart'});
is(one($node, q{select count(*) from pawl.machine where machine = 'line'}), '0', 'no machine of these is defined');

# Rights: as the role, nothing is half done
$PawlPrograms::as = 'planner';
my ($text) = command($node, 'plan', folder_with('a.mmd' => orders_diagram($lines)));
like($text, qr/table public\.lines belongs to role/, 'the plan names the owner of a foreign table');
$PawlPrograms::as = 'worker_only';
($text, $status) = command($node, 'plan', folder_with('a.mmd' => orders_diagram("pawl:\n  machine: line\n")));
is($status, 1, 'a role that may not define gets a plan with a problem');
like($text, qr/grant pawl_admin to worker_only/, 'and what to grant');
$PawlPrograms::as = undef;

# A guard that rejects the last step takes all back.
$node->safe_psql('postgres', <<'SQL');
create function no_more_logs() returns event_trigger language plpgsql as $$
begin
    if exists (select from pg_event_trigger_ddl_commands() c where c.object_identity ~ 'lines_transitions') then
        raise exception 'no logs today' using errcode = '55000';
    end if;
end $$;
create event trigger no_more_logs on ddl_command_end when tag in ('CREATE TABLE') execute function no_more_logs();
SQL
my $before = definitions($node);
(undef, $status, $err) = command($node, 'apply',
	folder_with('a.mmd' => orders_diagram($lines =~ s/state\}/state, log: true}/r)));
is($status, 3, 'a step that is rejected ends apply with 3');
like($err, qr/stopped at step 3 of 3; nothing was changed/, 'the message names the step');
is(definitions($node), $before, 'all steps before it are undone');
$node->safe_psql('postgres', 'drop event trigger no_more_logs');

# A table that is locked: apply gives up instead of blocking all writers.
my $locker = $node->background_psql('postgres');
$locker->query_safe('begin; lock table lines in access exclusive mode');
(undef, $status, $err) = command($node, 'apply', '--lock-timeout', '100ms',
	folder_with('a.mmd' => orders_diagram($lines)));
is($status, 3, 'apply gives up on a table that is locked');
like($err, qr/lock timeout|\[55P03\]/, 'by the lock timeout, with its code');
$locker->query_safe('rollback');
$locker->quit;

no_crash($node);
done_testing();
