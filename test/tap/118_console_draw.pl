# A lifecycle drawn beside its text in the console: the diagram and the findings follow what is typed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main');
$node->safe_psql('postgres', q{select pawl.define('ticket',
	E'stateDiagram-v2\n[*] --> open\nopen --> answered : answer\nanswered --> [*]')});
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node);

# The route
sub check { my ($body) = @_; return ask('POST', '/v1/diagram/check', token => $reader, body => $body) }
my $good = check({ diagram => "stateDiagram-v2\n[*] --> a\na --> [*]" });
is($good->{status}, 200, 'a reader may check a diagram');
is_deeply($good->{json}{findings}, [], 'one without findings');
like($good->{json}{diagram}, qr/^stateDiagram-v2\n/, 'comes back in its canonical form');
my $bad = check({ diagram => "stateDiagram-v2\n[*] --> a\na -> b" });
is($bad->{json}{findings}[0]{line}, 3, 'an error has its line');
is($bad->{json}{diagram}, undef, 'and no diagram');
is(check({ diagram => 'x' x 100_001 })->{status}, 413, 'a text that is too long is rejected');
is(check($_)->{json}{sqlstate}, '22023', 'a wrong body is rejected') for {}, { diagram => 1 }, { diagram => undef },
	{ diagram => 'x', more => 1 };
is(one($node, 'select count(*) from pawl.machine'), 1, 'nothing is defined');

my $browser = Browser->new;
my $whole = 0;
END { local ($?, $@); diag($browser->tells) if $browser && !$whole }
sub picture { my ($name) = @_; $browser->picture("$ENV{TESTDIR}/pictures/draw_$name.png"); return }
mkdir "$ENV{TESTDIR}/pictures";
$browser->go("http://127.0.0.1:$api->{port}/console/");
$browser->type('input[name=token]', $reader);
$browser->press('Enter');
$browser->click('nav a', 'Draw');
ok($browser->sees('No errors or warnings', '#findings'), 'the page begins with a diagram without findings');
$browser->find('.mermaid svg g.node');

# Typed in the middle, key by key: the cursor stays
my $at = $browser->run('const t = document.querySelector("textarea"), at = t.value.indexOf("    answered --> closed"); '
	. 't.focus(); t.setSelectionRange(at, at); return at');
my $typed = "    open --> lost : lose\n";
$browser->press($_ eq "\n" ? 'Enter' : $_) for split //, $typed;
is($browser->run('return document.querySelector("textarea").selectionStart'), $at + length $typed,
	'the cursor stays where one types');
ok($browser->sees('lost', '.mermaid'), 'the diagram has the new state');
ok($browser->sees(qr/\d+ warning/, '#findings [role=status]'), 'and a warning says that it cannot be left');
picture('warning');
$browser->press(split //, "open -> x");
ok($browser->sees('error', '#findings [role=status]'), 'an error is found while one types');
ok($browser->sees('of the last text without errors'), 'the last diagram stays, and is called so');
$browser->run('document.querySelector("textarea").blur()');
$browser->click('.findings .error button');
like($browser->run('const t = document.querySelector("textarea"); return document.activeElement === t ? '
	. 't.value.slice(0, t.selectionStart).split("\n").pop() + "|" : ""'), qr/^(\s*open|\s*)/,
	'a finding leads to its place');
is($browser->run('const t = document.querySelector("textarea"); return t.value.slice(0, t.selectionStart)'
	. '.split("\n").length'), ($browser->text('.findings .error button') =~ /^(\d+):/)[0], 'in its line');
picture('error');

# A machine of the database
$browser->run('const s = document.querySelector(".filters select"); s.value = "ticket"; '
	. 's.dispatchEvent(new Event("change", { bubbles: true }))');
wait_until(sub { $browser->run('return document.querySelector("textarea").value') =~ /open --> answered : answer/
	&& $browser->run('return document.querySelector("textarea").value') !~ /lost/ }, 'the machine to be opened');
$browser->click('button', 'Back to the text before');
like($browser->run('return document.querySelector("textarea").value'), qr/lost : lose/, 'what was typed is not lost');
$browser->each_look(sub {
	my ($theme, $width) = @_;
	$browser->find('.mermaid svg g.node');
	is(join("\n", $browser->inaccessible), '', "the page is accessible, $theme and $width wide");
	cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', $width, 'and not cut off');
	picture("${theme}_$width");
});
is(one($node, 'select count(*) from pawl.machine'), 1, 'still nothing is defined');
$whole = 1;
done_testing();
