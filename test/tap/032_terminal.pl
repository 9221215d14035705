# `pawl follow` on a terminal: one line that is written over as steps end, and its last word stays.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Terminal;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);
$node->safe_psql('postgres', <<'SQL');
create function step() returns void language plpgsql as $$
declare said jsonb;
begin
    perform from pawl_dag.orchestrate();
    select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token, 'result',
        1)) into said
      from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000a', queue => 'default') c;
    perform from pawl_dag.report(said, '00000000-0000-7000-8000-00000000000a');
    perform from pawl_dag.orchestrate();
end $$;
SQL
define_template($node, '{"name": "line", "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", '
	. '"dependencies": ["b"]}, {"name": "d", "dependencies": ["c"]}]}');
my $task = one($node, q(select pawl_dag.start_task('line')));

my $terminal = Terminal->new($node, 'pawl', 'follow', $task);
for my $done (0 .. 3)
{
	$terminal->shows(qr{ $done/4  });
	$node->safe_psql('postgres', 'select step()');
}
my $seen = $terminal->shows(qr{ 4/4  complete\r\n});
is($terminal->status, 0, 'follow ends well');

my @frames = split /\r\033\[K/, $seen;
is(shift @frames, '', 'each picture of the bar takes the place of the one before');
is(join(' ', map { m{^\[(#*)\.*\] (\d)/4  \w+} ? "$2:" . length $1 : 'no bar' } @frames),
	join(' ', map { "$_:" . 10 * $_ } 0 .. 4), 'it grows step by step') or diag($seen);
is(scalar(() = $seen =~ /\n/g), 1, 'and there is one line in the end');
is(scalar(grep { length($_) - length('complete') > 60 } @frames), 0, 'that fits a terminal');

define_template($node, '{"name": "hidden\u001b[8m\u001b]0;x\u0007", "steps": [{"name": "a"}]}');
$task = one($node, q(select pawl_dag.start_task(E'hidden\x1b[8m\x1b]0;x\x07')));
$terminal = Terminal->new($node, 'pawl', 'show', $task);
$seen = $terminal->shows(qr{ a\b.*\r\n});
is($terminal->status, 0, 'pawl show ends well');
like($seen, qr/^hidden\\x1b\[8m\\x1b\]0;x\\x07  \033\[/,
	'a terminal gets colours, and no other control characters of names');
done_testing();
