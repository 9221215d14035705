# A lifecycle drawn beside its text in the console: the diagram and the findings follow what is typed. A large machine
# opens so that it can be read.
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
sub page { my ($path) = @_; $browser->run('location.hash = arguments[0]', $path); return }
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

# A large machine: it opens where it starts, so that it can be read; the whole is there on request
$node->safe_psql('postgres', q{select pawl.define('large', (select 'stateDiagram-v2' || E'\n[*] --> s0_0\n'
	|| string_agg(format('s%s_%s --> s%s_%s : step %s %s', d, n, d + 1, m, n, m), E'\n') || E'\ns12_0 --> [*]'
	from generate_series(0, 11) d, generate_series(0, 4) n, generate_series(0, 4) m
	where abs(n - m) < 2 and (d > 0 or n = 0)))});
page('#/machines/large');
$browser->find('.mermaid svg g.node');
my $placed = 'const g = document.querySelector(".graph").getBoundingClientRect(), s = document.querySelector('
	. '".mermaid g.node[id*=root_start]").getBoundingClientRect(); return s.left >= g.left && s.right <= g.right && '
	. 's.top >= g.top && s.bottom <= g.bottom';
sub percent { return $browser->text('.tools output') =~ /(\d+)/ ? $1 : 0 }
is(percent(), 80, 'a large machine opens at a scale at which it can be read');
ok($browser->run($placed), 'at the place where it starts');
picture('large');
$browser->click('.tool', 'Fit');
cmp_ok(percent(), '<', 70, 'and is shown whole on request');
is_deeply($browser->run('const g = document.querySelector(".graph"); return [g.scrollWidth <= g.clientWidth, '
	. 'g.scrollHeight <= innerHeight]'), [ JSON::PP::true, JSON::PP::true ], 'without a part that is cut off');
picture('large_whole');
$browser->click('.tool', 'Read');
is(percent(), 80, 'and can be read again');

# In Draw it stays where one looks while one types
page('#/draw?machine=large');
wait_until(sub { $browser->run('return document.querySelector("textarea").value') =~ /s11_4/ }, 'the large machine');
wait_until(sub { percent() == 80 }, 'its picture');
$browser->run('const g = document.querySelector(".graph"); g.scrollTop = g.scrollHeight / 2; g.scrollLeft = 0');
my $seen = 'const g = document.querySelector(".graph"); return Math.round(g.scrollTop / g.scrollHeight * 20)';
my $looked = $browser->run($seen);
cmp_ok($looked, '>', 2, 'one looks at the middle of the picture');
$browser->run('const t = document.querySelector("textarea"), at = t.value.indexOf("\n") + 1; t.focus(); '
	. 't.setSelectionRange(at, at)');
$browser->press(split(//, '    [*] --> begun : begin'), 'Enter');
ok($browser->sees('begun', '.mermaid'), 'the picture has what was typed');
is($browser->run($seen), $looked, 'and one still looks at the same place');
$whole = 1;
done_testing();
