# `pawl follow` on a terminal: one line that is written over as steps end, and its last word stays.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IO::Pty;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create extension pawl_dag cascade;
create function step() returns void language plpgsql as $$
declare said jsonb;
begin
    perform from pawl_dag.orchestrate();
    select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'fence', c.fence, 'result', 1)) into said
      from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000a', queue => 'default') c;
    perform from pawl_dag.report(said, '00000000-0000-7000-8000-00000000000a');
    perform from pawl_dag.orchestrate();
end $$;
SQL
define_template($node, '{"name": "line", "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}, {"name": "d", "dependencies": ["c"]}]}');
my $task = one($node, q(select pawl_dag.start_task('line')));

# The program on a terminal of its own, and what came over the wire so far.
my $terminal = IO::Pty->new;
my $user = one($node, 'select current_user');
my $pid = fork // die "no fork: $!";
if (!$pid)
{
	$terminal->make_slave_controlling_terminal;
	my $slave = $terminal->slave;
	open STDIN, '<&', $slave;
	open STDOUT, '>&', $slave;
	open STDERR, '>&', $slave;
	delete $ENV{NO_COLOR};
	@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER TERM)} = ($node->host, $node->port, 'postgres', $user, 'xterm');
	exec program('pawl'), 'follow', $task or POSIX::_exit(127);
}
$terminal->close_slave;
END { local $?; kill 'KILL', $pid if $pid }
$terminal->blocking(0);
my $seen = '';
sub seen
{
	my ($text) = @_;
	wait_until(sub { sysread $terminal, $seen, 4096, length $seen; $seen =~ $text }, "the terminal shows $text");
	return;
}
for my $done (0 .. 3)
{
	seen(qr{ $done/4  });
	$node->safe_psql('postgres', 'select step()');
}
seen(qr{ 4/4  complete\r\n});
waitpid $pid, 0;
is($?, 0, 'follow ends well');
$pid = 0;

my @frames = split /\r\033\[K/, $seen;
is(shift @frames, '', 'each picture of the bar takes the place of the one before');
is(join(' ', map { m{^\[(#*)\.*\] (\d)/4  \w+} ? "$2:" . length $1 : 'no bar' } @frames),
	join(' ', map { "$_:" . 10 * $_ } 0 .. 4), 'it grows step by step') or diag($seen);
is(scalar(() = $seen =~ /\n/g), 1, 'and there is one line in the end');
is(scalar(grep { length($_) - length('complete') > 60 } @frames), 0, 'that fits a terminal');
done_testing();
